"""The tables of a warehouse: Delta, Arrow, runs and who holds them."""
