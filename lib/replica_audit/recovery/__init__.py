"""What a start of a broker does, and what to do about it."""
