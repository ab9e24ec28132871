"""What Kafka writes about transactions beside the logs: `__transaction_state`, producer snapshots, indexes of aborted transactions."""
