"""Real inputs, mutated: only documented errors, no hang, nothing lost before the damage without a row. See `tests.mutation.__main__`."""
