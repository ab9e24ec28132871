"""Telling a web service how a run ended: its address, which is a secret, and how a document is posted to it."""
