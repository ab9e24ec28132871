"""Where bytes come from: this machine or an object store, plain or packed; walking a tree, lines of a long text."""
