"""Producers and their transactions, as a broker keeps them for each partition."""
