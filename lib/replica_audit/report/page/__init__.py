"""A run as one HTML file: the verdict, every finding, a picture of the worst partitions. No network, no other file."""
