"""What is known before anything is judged: the cluster, and what was read of a partition."""
