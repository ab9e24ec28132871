"""The cluster: elections, ISR, brokers, and who leads, by metadata."""
