"""Complete runs, read from their tables without Spark: those of a warehouse, and the one that this process has just made."""
