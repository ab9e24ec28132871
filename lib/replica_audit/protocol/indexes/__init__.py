"""Indexes of a segment: what a broker finds by them."""
