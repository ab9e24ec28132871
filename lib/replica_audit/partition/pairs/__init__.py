"""A leader and a follower: compared, judged, and told as columns of `truncation_points` and `replica_verdicts`."""
