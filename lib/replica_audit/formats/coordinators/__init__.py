"""What coordinators of groups and transactions write to their topics."""
