"""Tables about what happened before the copies were taken, and to whom it matters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from replica_audit.rows.columns import (
    PARTITION_CHECK,
    Bigint,
    Int,
    OfPartition,
    PartitionNumber,
    RankedRow,
    SeverityRank,
    Topic,
    table,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderEpoch(OfPartition):
    """A leader epoch of a partition by the metadata log."""

    topic_id: Annotated[str | None, "topic id"]
    leader_epoch: Annotated[Int, "epoch"]
    leader_id: Annotated[Int, "broker that led it; -1: none"]
    election: Annotated[str, "created, snapshot (elected before the oldest snapshot), clean, unclean, same-leader or leaderless"]
    isr: Annotated[tuple[Int, ...] | None, "ISR after the election"]
    elr: Annotated[tuple[Int, ...] | None, "eligible leader replicas after it (KIP-966)"]
    isr_at_end: Annotated[tuple[Int, ...] | None, "ISR when the epoch ended, or at the end of the metadata log"]
    metadata_offset: Annotated[Bigint, "offset of the record in the metadata log; it orders all elections of the cluster"]
    metadata_epoch: Annotated[Int, "epoch of the metadata log"]
    began_at: Annotated[datetime | None, "when the controller wrote the record, UTC"]
    start_offset: Annotated[
        Bigint | None,
        "where the epoch starts according to the leader's table, else another replica's; null: in no table, or the log start has passed it",
    ]
    given_up_offsets: Annotated[
        Bigint | None, "unclean: offsets of earlier epochs that a replica still holds and the elected one did not hold; null: unknown"
    ]
    given_up_held_by: Annotated[tuple[Int, ...] | None, "the replicas that hold them"]


LEADER_EPOCHS = table(
    LeaderEpoch,
    name="leader_epochs",
    grain="one row per partition and leader epoch in the metadata log: who led it, and how it was elected",
    constraints={"known_election": "election IN ('created', 'snapshot', 'clean', 'unclean', 'same-leader', 'leaderless')"},
    is_dated=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedIncident(RankedRow, OfPartition):
    """An incident that a broker's own log shows."""

    broker_id: Annotated[Int | None, "broker in whose folder the server.log is"]
    kind: Annotated[str, "removed_below_high_watermark, truncation_refused or unclean_election"]
    logged_at: Annotated[str | None, "the line's own time, in the broker's zone; null: the layout has no date"]
    truncation_offset: Annotated[Bigint | None, "offset truncated to; for a refused truncation the leader's log end"]
    end_offset: Annotated[
        Bigint | None, "exclusive end of what was removed: the previous high watermark; for a refused truncation the replica's log end"
    ]
    leader_id: Annotated[Int | None, "the leader that was followed or elected; null: not in the line"]
    leader_epoch: Annotated[Int | None, "epoch of the elected leader; null: not in the line"]
    severity: Annotated[str, "error or warning if the incident is a finding, else none"]
    severity_rank: SeverityRank = None
    summary: Annotated[str, "the incident in one sentence"]
    path: Annotated[str, "the log"]
    line: Annotated[Bigint, "line in it, counted from 1"]


LOGGED_INCIDENTS = table(
    LoggedIncident,
    name="logged_incidents",
    grain="one row per incident in a broker's server.log: committed records removed, a truncation refused, or an unclean election",
    constraints={
        "known_kind": "kind IN ('removed_below_high_watermark', 'truncation_refused', 'unclean_election')",
        # as delta-rs writes it down: what stands there is compared with this
        "known_severity": "severity = 'error' OR severity = 'warning' OR severity = 'none'",
    },
    widened=("known_severity",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerImpact:
    """What a consumer group finds in a partition when it resumes."""

    group_id: Annotated[str, "consumer group"]
    topic: Topic
    partition: PartitionNumber
    committed_offset: Annotated[Bigint, "next offset that the group would read"]
    committed_leader_epoch: Annotated[Int, "leader epoch of the last record that it consumed; -1: the commit has none"]
    committed_at: Annotated[datetime | None, "timestamp of the commit, UTC"]
    validation_result: Annotated[
        str, "what the client's validation finds: valid, truncated, undefined or not-validated; unknown: no leader"
    ]
    diverging_epoch: Annotated[Int | None, "epoch in the leader's answer, if that differs from the committed one or ends below the offset"]
    reset_offset: Annotated[
        Bigint | None,
        "where a client resumes if it need not apply its reset policy: the diverging offset, or the committed one; null: the "
        "policy decides",
    ]
    nearest_offset: Annotated[
        Bigint | None, "offset of the draft of KIP-320 (seekToNearest): start of the first larger epoch; null: no truncation"
    ]
    records_gone: Annotated[Bigint | None, "consumed offsets whose records no longer exist; null: unknown"]
    records_reread: Annotated[Bigint | None, "offsets that are read again; if the policy decides, with earliest"]
    records_missed: Annotated[Bigint | None, "offsets of the leader's log that are never read; if the policy decides, with latest"]
    history_rewritten: Annotated[bool, "whether the client considers the position valid although records below it were replaced"]
    affected: Annotated[bool | None, "whether the group is affected by a truncation; null: unknown"]
    reason: Annotated[str, "what happens, in one sentence"]
    evidence: Annotated[str, "file and offset of the commit"]


CONSUMER_IMPACTS = table(
    ConsumerImpact,
    name="consumer_impacts",
    grain="one row per consumer group and partition with a committed offset: what the group finds when it resumes",
    constraints={
        **PARTITION_CHECK,
        "known_result": "validation_result IN ('valid', 'truncated', 'undefined', 'not-validated', 'unknown')",
    },
    is_dated=True,
)
