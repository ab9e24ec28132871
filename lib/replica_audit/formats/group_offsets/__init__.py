"""Committed offsets: `__consumer_offsets`, raw and as text."""
