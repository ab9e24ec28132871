"""What the records of a coordinator's topic have in common: `__consumer_offsets`, `__transaction_state`."""
