"""What steps of a recovery do to one partition: every replica followed until it has caught up, and what is lost on the way."""
