"""Which runs of a warehouse stay, and which go: pure, values in and values out."""
