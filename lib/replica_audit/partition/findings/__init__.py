"""What is found of a partition, and whom it concerns."""
