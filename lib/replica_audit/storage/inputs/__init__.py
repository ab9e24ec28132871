"""The folders of an input: clusters, brokers, and what is missing."""
