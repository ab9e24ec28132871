"""A leader and a follower."""
