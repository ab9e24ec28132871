"""What would be, had another replica led or another rule applied."""
