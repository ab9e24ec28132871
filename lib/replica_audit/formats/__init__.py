"""What Kafka writes: bytes and text in, values out. No Spark."""
