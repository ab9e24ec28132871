"""What Kafka decides: pure functions, no engine, no files."""
