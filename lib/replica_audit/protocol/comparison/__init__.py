"""Two logs side by side: where they diverge, what a truncation removes, what of it was committed."""
