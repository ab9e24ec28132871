"""Records as they are saved: read with all that their batches say of them, and written so that something can read them again."""
