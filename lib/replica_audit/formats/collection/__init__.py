"""What `collect` wrote."""
