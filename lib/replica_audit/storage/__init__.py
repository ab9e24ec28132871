"""Side effects: inputs, tables, the session."""
