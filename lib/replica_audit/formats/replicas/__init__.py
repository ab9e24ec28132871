"""Replicas, however they are stored: found below a broker's folder, scanned, and their batches read."""
