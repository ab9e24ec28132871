"""What of the records that a cut removes is worth a replay, and how their transactions ended."""
