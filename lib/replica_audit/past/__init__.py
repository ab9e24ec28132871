"""Runs of the past, read from their tables without Spark."""
