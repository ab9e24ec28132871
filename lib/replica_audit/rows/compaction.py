"""The table of keys of which compaction left different records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from replica_audit.rows.columns import BY_PARTITION, PARTITION_CHECK, Bigint, Follower, Int, Leader, PartitionNumber, Topic, table


@dataclass(frozen=True, slots=True, kw_only=True)
class SurvivingRecord:
    """The newest record of a key that a replica holds below the end of the comparison."""

    offset: Bigint
    timestamp_ms: Bigint
    is_tombstone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionDifference:
    """A key, or a transaction marker, of which two replicas hold records that compaction cannot have left on both."""

    topic: Topic
    partition: PartitionNumber
    leader_id: Leader
    follower_id: Follower
    cause: Annotated[
        str,
        "key-missing (a live key), key-missing-or-deleted (a live key, or one that was deleted while the other replica was away), "
        "key-resurrected (a deleted key is live), other-value, tombstone-gone or marker-gone (both too early)",
    ]
    broker_id: Annotated[
        Int,
        "the wrong replica: it lacks the record, has the key back, or serves the older value; for key-missing-or-deleted the one "
        "without the key",
    ]
    key_hash: Annotated[str, "first 64 bits of the key's hash (XXH64), hexadecimal; of a marker its producer id"]
    leader: Annotated[
        SurvivingRecord | None, "the leader's newest record of the key below the smaller end of both logs, the follower's after its cut"
    ]
    follower: Annotated[SurvivingRecord | None, "the follower's; null: none"]
    key: Annotated[
        str | None,
        "the key as text, with --show-keys: UTF-8 with \\ and what cannot be printed escaped, 200 characters of it at most; other bytes as "
        "hexadecimal digits after 0x. Null: not asked for, a marker, or it could not be read again",
    ]

    @property
    def offset(self) -> int:
        """Of the newest record that either side has."""
        return max((record.offset for record in (self.leader, self.follower) if record is not None), default=-1)


COMPACTION_DIFFERENCES = table(
    CompactionDifference,
    name="compaction_differences",
    grain="one row per leader, follower and differing key, at most 100 for each cause and broker (--compare records); "
    "replica_verdicts.differing_keys has their number",
    constraints=PARTITION_CHECK,
    cluster_by=BY_PARTITION,
)
