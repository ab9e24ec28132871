"""Live brokers, through kafka-python: what they say of the cluster, and their answers compared with a run's tables."""
