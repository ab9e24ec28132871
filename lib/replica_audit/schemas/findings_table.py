"""The findings of a run, each with the facts that it rests on, so that one table holds all that a list of findings shows."""

from __future__ import annotations

import pyarrow as pa

from replica_audit.schemas.columns import (
    BIGINT,
    BOOLEAN,
    BY_PARTITION,
    INT,
    KEYS,
    PARTITION,
    STRING,
    TIMESTAMP,
    Column,
    Table,
    shape,
    struct,
)
from replica_audit.schemas.pair_tables import REPLICA_VERDICTS
from replica_audit.schemas.what_if_tables import WHAT_IF_LEADERS

# of a candidate as much as a list of findings shows; the rest is in what_if_leaders
_OF_CANDIDATE = (
    "candidate_id",
    "rank",
    "in_isr",
    "in_elr",
    "election",
    "broker_up",
    "stopped_cleanly",
    "log_end_offset",
    "lost_offsets",
    "lost_records",
    "lost_committed",
    "lost_below_high_watermark",
    "followers_failing",
    "followers_diverged",
    "unread_replicas",
    "reason",
)
CANDIDATE = shape(column for column in WHAT_IF_LEADERS.columns if column.name in _OF_CANDIDATE)
_FOUND = (
    Column("finding_key", STRING, "stable over runs: CODE:TOPIC-PARTITION:BROKER, without BROKER where it is about the partition", False),
    Column(
        "code",
        STRING,
        "the verdict; or offline_partition, leader_epoch_missing, in_sync_outside_isr; or removed_below_high_watermark, truncation_refused",
        False,
    ),
    Column("severity", STRING, "critical, error or warning", False),
    *PARTITION,
    Column("broker_id", INT, "broker that holds the replica; -1: the finding is about the partition as a whole", False),
    Column("summary", STRING, "the finding in one sentence", False),
)
_FACTS = (
    Column("about", STRING, "follower, leader (its own replica), partition or broker-log; null: of an older version"),
    Column("leader_id", INT, "leader, or the replica that is inferred to lead and compared with; -1: nobody"),
    Column("leader_source", STRING, "cluster-metadata, metadata-log or inferred"),
    Column("inferred_because", STRING, "why the leader is inferred, as in replica_verdicts"),
    Column("leader_epoch", INT, "leader epoch by the metadata; null: of a follower"),
    Column("divergence_offset", BIGINT, "as in replica_verdicts"),
    Column("truncation_offset", BIGINT, "as in replica_verdicts"),
    Column("restart_offset", BIGINT, "as in replica_verdicts"),
    Column("fetcher_fails", BOOLEAN, "as in truncation_points, of the protocol that applies"),
    Column("still_diverged", BOOLEAN, "as in truncation_points, of the protocol that applies"),
    Column("removed_records", BIGINT, "as in replica_verdicts"),
    Column("removed_below_high_watermark", BIGINT, "as in replica_verdicts"),
    Column("removed_committed", BIGINT, "as in replica_verdicts"),
    Column("commit_evidence", STRING, "as in replica_verdicts"),
    *(column for column in REPLICA_VERDICTS.columns if column.name in ("already_truncated", "stuck", "wrong_lines", "hole", "cause")),
    Column("evidence", STRING, "files, offsets and epochs that the finding rests on"),
    Column("isr", pa.list_(INT), "offline_partition, in_sync_outside_isr: the ISR by the metadata"),
    Column("elr", pa.list_(INT), "offline_partition: the eligible leader replicas (KIP-966)"),
    Column("last_leader_id", INT, "offline_partition: who led last; null: not known"),
    Column("leaderless_since", TIMESTAMP, "offline_partition: when it lost its leader, UTC; null: no metadata log says so"),
    Column("cluster_stopped", BOOLEAN, "offline_partition: the whole cluster was shut down in order; starting it elects a leader cleanly"),
    Column("candidates", pa.list_(CANDIDATE), "offline_partition: what electing each replica loses, as in what_if_leaders"),
    Column("table_epoch", INT, "leader_epoch_missing: last epoch of the leader's table; -1: none"),
    Column("known_epoch", INT, "leader_epoch_missing: leader epoch in the broker's own copy of the metadata log; null: no copy"),
    Column("is_certain", BOOLEAN, "leader_epoch_missing, in_sync_outside_isr: a copy of another moment cannot explain it"),
)
FINDINGS = Table(
    name="findings",
    grain="one row per finding of the run, and per finding that earlier runs left open and this run did not see",
    columns=(
        *KEYS,
        *_FOUND,
        Column("first_seen_run_id", STRING, "first run of the unbroken series in which it was open", False),
        Column("last_seen_run_id", STRING, "last run that found it", False),
        Column(
            "status",
            STRING,
            "new or persisting: this run found it; resolved: this run compared the same and found it clean; unconfirmed: an earlier run "
            "found it, this one could not look, so it stays open",
            False,
        ),
        *_FACTS,
    ),
    constraints={"known_status": "status IN ('new', 'persisting', 'resolved', 'unconfirmed')"},
    cluster_by=BY_PARTITION,
    widened=("known_status",),
)
FOUND = shape((*_FOUND, *_FACTS))
CHECKED = struct(
    topic=STRING,
    partition=INT,
    leader_id=INT,
    leader_source=STRING,
    leader_has_epoch=BOOLEAN,
    isr=pa.list_(INT),
    clean=pa.list_(INT),
    same_batches=pa.list_(INT),
)
