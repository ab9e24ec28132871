"""The warehouse for a person at a notebook: frames, plots, and the batches behind them."""
