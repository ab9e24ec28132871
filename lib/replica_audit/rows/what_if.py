"""The table that answers what would happen, had another broker led."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from replica_audit.rows.columns import (
    Bigint,
    Int,
    OfPartition,
    table,
)
from replica_audit.rows.pairs import RecordsByTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerCut:
    """What a replica does when it follows a candidate: offsets as in `replica_verdicts`, null where it is not cut or that is not known.

    `lost_offsets`, `lost_records` and `lost_by_transaction` are null also where an older version wrote the row.
    """

    broker_id: Int
    truncation_offset: Bigint | None
    restart_offset: Bigint | None
    divergence_offset: Bigint | None
    removed_offsets: Bigint | None
    removed_records: Bigint | None
    removed_bytes: Bigint | None
    removed_committed: Bigint | None
    catches_up: bool
    still_diverged: bool
    lost_offsets: Bigint | None = None
    lost_records: Bigint | None = None
    lost_by_transaction: RecordsByTransaction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfLeader(OfPartition):
    """A replica that could lead its partition, and what that would lose."""

    candidate_id: Annotated[Int, "broker that leads in this case; a new leader enters a new epoch"]
    rank: Annotated[
        Int | None, "1 loses least: by committed offsets, then records, then the longer log; null: cannot lead, or not in the input"
    ]
    is_leader: Annotated[bool, "whether it is the leader now"]
    in_isr: Annotated[bool, "whether it is in the ISR"]
    last_epoch: Annotated[Int | None, "leader epoch of its last batch; -1: none"]
    log_end_offset: Annotated[Bigint | None, "its log end offset"]
    lost_offsets: Annotated[
        Bigint | None,
        "offsets of other replicas that no longer exist anywhere, those of each epoch counted once; not those below its log start",
    ]
    lost_records: Annotated[Bigint | None, "records in them; of a batch that is truncated in part as many as offsets"]
    lost_bytes: Annotated[Bigint | None, "bytes of the batches whose last offset is among them"]
    lost_below_high_watermark: Annotated[Bigint | None, "lost offsets below a checkpointed high watermark of a replica that holds them"]
    lost_committed: Annotated[Bigint | None, "lost offsets that are proven, by any evidence, to have been committed"]
    lost_committed_offsets: Annotated[Mapping[str, Bigint] | None, "those offsets by evidence, as in replica_verdicts"]
    followers_cut: Annotated[Int | None, "replicas that truncate"]
    followers_restarted: Annotated[Int | None, "replicas that empty their log and start at the candidate's log start offset"]
    followers_failing: Annotated[Int | None, "replicas that then get no records: their fetcher fails, or the exchange never ends"]
    followers_diverged: Annotated[Int | None, "replicas that conflict with the candidate and do not notice"]
    already_lost_offsets: Annotated[
        Bigint | None,
        "offsets that brokers have truncated since they were copied and that no other one holds: gone whichever leads, not in lost_*",
    ]
    reason: Annotated[str, "why it cannot lead or what it costs, in one sentence"]
    unread_replicas: Annotated[Int | None, "other replicas that could not be read or are not in the input, and may hold more"]
    in_elr: Annotated[bool | None, "whether it is an eligible leader replica (KIP-966)"]
    election: Annotated[str | None, "clean or unclean: what making it the leader would be by the metadata; null: not known"]
    broker_up: Annotated[bool | None, "whether its broker runs; null: not known"]
    stopped_cleanly: Annotated[bool | None, "whether its copy has the marker of a clean shutdown; null: not in the input"]
    follower_cuts: Annotated[
        tuple[FollowerCut, ...] | None,
        "of a partition without a leader: what each other replica that can be read does when it follows this one; null: it cannot lead, "
        "somebody leads, or of an older version",
    ] = None


WHAT_IF_LEADERS = table(
    WhatIfLeader,
    name="what_if_leaders",
    grain="one row per partition and replica that could lead it; with --what-if-leaders, and always of partitions without a leader",
    constraints={"rank_from_one": "rank IS NULL OR rank >= 1"},
)
