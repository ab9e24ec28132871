"""The compiled scans, and what they share with plain Python."""
