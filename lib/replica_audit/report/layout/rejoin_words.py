"""What a follower does once a corrected `leader-epoch-checkpoint` is in place, in words."""

from __future__ import annotations

from replica_audit.rows.replicas import FollowerOnceCorrected


def once_corrected(one: FollowerOnceCorrected) -> str:
    """What it does to its log, without a subject."""
    if one.restart_offset is not None:
        return f"empties its log and starts at {one.restart_offset}"
    return "truncates nothing" if one.truncation_offset is None else f"truncates to {one.truncation_offset}"
