"""Consumers and groups after leaders changed."""
