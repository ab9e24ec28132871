"""The table of records that two logs of one history do not hold alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from replica_audit.rows.columns import BY_PARTITION, PARTITION_CHECK, Bigint, Follower, Int, Leader, PartitionNumber, Topic, table


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRecord:
    """A record without its contents: hashes are XXH3 of 128 bits, hexadecimal; a size of null: it has none; `key` with --show-keys."""

    timestamp_ms: Bigint
    key_bytes: Int | None
    key_hash: str
    value_bytes: Int | None
    value_hash: str
    headers_hash: str
    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDifference:
    """A record of a partition that is not compacted, and that a leader and a follower do not both hold, or not alike."""

    topic: Topic
    partition: PartitionNumber
    leader_id: Leader
    follower_id: Follower
    offset: Annotated[Bigint, "of the record"]
    parts: Annotated[
        tuple[str, ...],
        "what differs: presence (one side lacks it), key, value, headers, timestamp, producer (id, epoch, sequence, transaction)",
    ]
    leader: Annotated[
        ComparedRecord | None,
        "the leader's, without its contents: hashes are XXH3 of 128 bits, hexadecimal, that of the headers of all of them as "
        "they are encoded; key: the key as text, with --show-keys, as in compaction_differences. Null: it lacks the record",
    ]
    follower: Annotated[ComparedRecord | None, "the follower's"]


RECORD_DIFFERENCES = table(
    RecordDifference,
    name="record_differences",
    grain="one row per leader, follower and differing record, the first 100 of each pair (--compare records); "
    "replica_verdicts.differing_records has their number",
    constraints=PARTITION_CHECK,
    cluster_by=BY_PARTITION,
)
