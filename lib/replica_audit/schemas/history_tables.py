"""Tables about what happened before the copies were taken, and to whom it matters."""

from __future__ import annotations

import pyarrow as pa

from replica_audit.schemas.columns import (
    BIGINT,
    BOOLEAN,
    BY_PARTITION,
    INT,
    KEYS,
    PARTITION,
    PARTITION_CHECK,
    STRING,
    TIMESTAMP,
    Column,
    Table,
)

LEADER_EPOCHS = Table(
    name="leader_epochs",
    grain="one row per partition and leader epoch that the metadata log tells of: who led it, and how it was elected",
    columns=(
        *KEYS,
        *PARTITION,
        Column("topic_id", STRING, "topic id"),
        Column("leader_epoch", INT, "epoch", False),
        Column("leader_id", INT, "broker that led it; -1: nobody", False),
        Column(
            "election", STRING, "created, snapshot (elected before the oldest snapshot), clean, unclean, same-leader or leaderless", False
        ),
        Column("isr", pa.list_(INT), "ISR after the election"),
        Column("elr", pa.list_(INT), "eligible leader replicas after it (KIP-966)"),
        Column("isr_at_end", pa.list_(INT), "ISR when the epoch ended, or as far as the metadata log goes, by changes within the epoch"),
        Column("metadata_offset", BIGINT, "offset of the record in the metadata log: the order of all elections of the cluster", False),
        Column("metadata_epoch", INT, "epoch of the metadata log", False),
        Column("began_at", TIMESTAMP, "when the controller wrote the record, UTC"),
        Column(
            "start_offset",
            BIGINT,
            "where the epoch began by the leader's table, else another replica's; null: no table has it, or the log start moved over it",
        ),
        Column(
            "given_up_offsets",
            BIGINT,
            "unclean: offsets of earlier epochs that a replica still holds and the elected one did not hold; null: not known",
        ),
        Column("given_up_held_by", pa.list_(INT), "the replicas that hold them"),
    ),
    constraints={
        **PARTITION_CHECK,
        "known_election": "election IN ('created', 'snapshot', 'clean', 'unclean', 'same-leader', 'leaderless')",
    },
    cluster_by=BY_PARTITION,
)
LOGGED_INCIDENTS = Table(
    name="logged_incidents",
    grain="one row per incident that a broker's own log shows: committed records removed, a truncation refused, or an unclean election",
    columns=(
        *KEYS,
        *PARTITION,
        Column("broker_id", INT, "broker in whose folder the log lies"),
        Column("kind", STRING, "removed_below_high_watermark, truncation_refused or unclean_election", False),
        Column("logged_at", STRING, "the line's own time, in the broker's zone; null: the layout has no date"),
        Column("truncation_offset", BIGINT, "offset truncated to; of a refused truncation the leader's log end"),
        Column(
            "end_offset", BIGINT, "exclusive end of what was removed: the high watermark before; of a refused one the replica's log end"
        ),
        Column("leader_id", INT, "the leader that was followed, or elected; null: the line does not have it"),
        Column("leader_epoch", INT, "epoch of the elected leader; null: the line does not have it"),
        Column("severity", STRING, "warning if the incident is a finding, else none", False),
        Column("summary", STRING, "the incident in one sentence", False),
        Column("path", STRING, "the log", False),
        Column("line", BIGINT, "line in it, counted from 1", False),
    ),
    constraints={
        **PARTITION_CHECK,
        "known_kind": "kind IN ('removed_below_high_watermark', 'truncation_refused', 'unclean_election')",
        "known_severity": "severity IN ('warning', 'none')",
    },
    cluster_by=BY_PARTITION,
)
CONSUMER_IMPACTS = Table(
    name="consumer_impacts",
    grain="one row per consumer group and partition with a committed offset: what the group finds when it resumes",
    columns=(
        *KEYS,
        Column("group_id", STRING, "consumer group", False),
        *PARTITION,
        Column("committed_offset", BIGINT, "next offset that the group would read", False),
        Column("committed_leader_epoch", INT, "leader epoch of the last record that it consumed; -1: the commit has none", False),
        Column("committed_at", TIMESTAMP, "timestamp of the commit, UTC"),
        Column(
            "validation_result",
            STRING,
            "what the client makes of it: valid, truncated, undefined or not-validated; unknown: no leader",
            False,
        ),
        Column("diverging_epoch", INT, "epoch in the leader's answer, where that differs from the committed one or ends below the offset"),
        Column(
            "reset_offset",
            BIGINT,
            "where a client with a reset policy resumes if it need not apply it: the diverging offset, or the "
            "committed one; null: the policy decides",
        ),
        Column(
            "nearest_offset", BIGINT, "offset of the draft of KIP-320 (seekToNearest): start of the first larger epoch; null: no truncation"
        ),
        Column("records_gone", BIGINT, "consumed offsets whose records no longer exist; null: cannot be told"),
        Column("records_reread", BIGINT, "offsets that are read again; where the policy decides, with earliest"),
        Column("records_missed", BIGINT, "offsets of the leader's log that are never read; where the policy decides, with latest"),
        Column(
            "history_rewritten", BOOLEAN, "whether the client takes the position for valid although records below it were replaced", False
        ),
        Column("affected", BOOLEAN, "whether the group is affected by a truncation; null: cannot be told"),
        Column("reason", STRING, "what happens, in one sentence", False),
        Column("evidence", STRING, "file and offset of the commit", False),
    ),
    constraints={
        **PARTITION_CHECK,
        "known_result": "validation_result IN ('valid', 'truncated', 'undefined', 'not-validated', 'unknown')",
    },
    cluster_by=BY_PARTITION,
)
