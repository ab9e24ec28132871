"""What to do where compaction left other records of a key."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.protocol.comparison.compaction import CompactionCause
from replica_audit.rows.pairs import ReplicaVerdict


def steps(verdict: ReplicaVerdict, path: str, refetch: str) -> Iterator[str]:
    """The steps; `path` is the follower's directory, `refetch` says how it fetches all again."""
    yield (
        "Kafka does not notice: ISR and lag stay healthy, and the next leader serves what it has. Until this is done, run no preferred "
        "election and do not restart the leader."
    )
    yield write_again(verdict, path, refetch)
    yield (
        "Find the cause: a cleaner that had compacted a log beyond a later truncation, a replica restored from a backup, or a defect of "
        "the broker's cleaner (compare its version with Kafka's issues)."
    )


def write_again(verdict: ReplicaVerdict, path: str, refetch: str) -> str:
    """How both come to hold the same keys again; by which replica is wrong."""
    if any(one.cause == CompactionCause.KEY_MISSING_OR_DELETED for one in verdict.differing_keys or ()):
        return (
            f"Copy {path} away. Table compaction_differences lists the keys that only one replica has, with the cause "
            f"{CompactionCause.KEY_MISSING_OR_DELETED}: ask their owner whether they were deleted. Have them written or deleted "
            f"again, then rebuild follower {verdict.follower_id} from the leader."
        )
    if not any(one.broker_id == verdict.leader_id for one in verdict.differing_keys or ()):
        return f"Rebuild the follower from the leader: {refetch}."
    return (
        f"Copy {path} away: it has the right values of the keys that leader {verdict.leader_id} has wrong (table "
        f"compaction_differences). Have their owner write these keys again, then rebuild follower {verdict.follower_id} from the leader."
    )
