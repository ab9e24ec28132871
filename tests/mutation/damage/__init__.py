"""Damage that knows what it damages: batches by their headers, checkpoints by their lines, documents by their fields."""
