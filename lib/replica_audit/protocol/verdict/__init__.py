"""What is found: verdicts, findings of partitions, and when one is over."""
