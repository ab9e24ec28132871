"""Live brokers, through kafka-python: what they say of the cluster, and their answers held against a run's tables."""
