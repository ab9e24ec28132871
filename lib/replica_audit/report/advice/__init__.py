"""What to do about each verdict and cause."""
