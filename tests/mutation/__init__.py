"""Real inputs, mutated: nothing but documented errors, no hang, and nothing lost before the damage without a row. Run `-m tests.mutation`."""
