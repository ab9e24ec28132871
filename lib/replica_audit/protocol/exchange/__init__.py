"""A follower and its leader: what is asked, answered and truncated, by every generation of the rule."""
