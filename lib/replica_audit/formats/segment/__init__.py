"""Segments as a broker writes them: record batches, records, scans of them, and the index of a collection."""
