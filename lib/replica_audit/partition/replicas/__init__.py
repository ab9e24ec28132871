"""Each replica as its broker would load it."""
