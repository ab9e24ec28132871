"""Brokers' own logs, of every layout."""
