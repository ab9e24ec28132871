"""Kafka replica audit: where replicas' logs part, what each follower truncates to, what is lost."""
