"""What a report is made of: rows of a run as values, nothing in words yet."""
