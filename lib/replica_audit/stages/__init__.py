"""What an engine maps over rows: files in, rows out."""
