"""A run, a partition, an explanation as text and as JSON."""
