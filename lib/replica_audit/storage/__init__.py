"""What is outside: the folders of an input, the tables of a warehouse, Spark's session, live brokers."""
