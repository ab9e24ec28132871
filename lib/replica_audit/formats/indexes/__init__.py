"""Indexes of a segment: `.index`, `.timeindex` and `.txnindex`, beside the `.log`."""
