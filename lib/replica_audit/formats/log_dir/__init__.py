"""A broker's log directory: the names in it, and its small files."""
