"""Tables with rows per leader and follower."""

from __future__ import annotations

import pyarrow as pa

from replica_audit.schemas.columns import (
    BIGINT,
    BOOLEAN,
    BY_PARTITION,
    INT,
    KEYS,
    LEADER_SOURCE,
    PAIR,
    PARTITION_CHECK,
    STRING,
    Column,
    Table,
    struct,
)

ROUND = struct(
    requested_epoch=INT,
    answered_epoch=INT,
    answered_end_offset=BIGINT,
    truncate_to=BIGINT,
    complete=BOOLEAN,
    request=STRING,
    decided_by=STRING,
    log_end_offset=BIGINT,
    own_epoch=INT,
    own_end_offset=BIGINT,
    out_of_range=STRING,
    restart_offset=BIGINT,
    dropped_epochs=pa.list_(INT),
)
FALLBACK = struct(because=STRING, after_round=INT, high_watermark=BIGINT, in_memory=BOOLEAN, log_end_offset=BIGINT, truncate_to=BIGINT)
EPOCH_START = struct(epoch=INT, start_offset=BIGINT)
PIECE = struct(first_offset=BIGINT, end_offset=BIGINT, leader_epoch=INT, follower_epoch=INT)
WRONG_EPOCH = struct(broker_id=INT, offset=BIGINT, table_epoch=INT, batch_epoch=INT)
CONTRADICTION = struct(offset=BIGINT, path=STRING, line=BIGINT, rule_offset=BIGINT)
FACT = struct(path=STRING, broker_id=INT, offset=BIGINT, leader_epoch=INT, text=STRING)
STUCK = struct(
    fetch_offset=BIGINT,
    requested_epoch=INT,
    answered_epoch=INT,
    answered_end_offset=BIGINT,
    back_to_offset=BIGINT,
    before_records=BOOLEAN,
    fresh_replica_too=BOOLEAN,
)
WRONG_LINE = struct(epoch=INT, start_offset=BIGINT, found_offset=BIGINT)
HOLE = struct(broker_id=INT, first_offset=BIGINT, end_offset=BIGINT, segment_before=BIGINT, segment_after=BIGINT, is_cut=BOOLEAN)

COMMIT = struct(
    evidence=STRING,
    leader_epoch=INT,
    first_offset=BIGINT,
    end_offset=BIGINT,
    broker_id=INT,
    metadata_offset=BIGINT,
    not_ruled_out=pa.list_(STRING),
)

EPOCH_END_OFFSETS = Table(
    name="epoch_end_offsets",
    grain="one row per leader, follower and epoch in the follower's table: what the leader answers to OffsetsForLeaderEpoch",
    columns=(
        *KEYS,
        *PAIR,
        Column("requested_epoch", INT, "epoch that the follower has", False),
        Column("answered_epoch", INT, "epoch in the leader's answer (KIP-279); -1: undefined", False),
        Column("end_offset", BIGINT, "exclusive end offset in that answer; -1: undefined", False),
        Column("kip101_end_offset", BIGINT, "the answer of a leader of 0.11 to 1.1; -1: undefined", False),
    ),
    constraints={**PARTITION_CHECK, "undefined_together": "(answered_epoch = -1) = (end_offset = -1)"},
    cluster_by=BY_PARTITION,
)
TRUNCATION_POINTS = Table(
    name="truncation_points",
    grain="four rows per leader and follower, one for each protocol",
    columns=(
        *KEYS,
        *PAIR,
        LEADER_SOURCE,
        Column("protocol", STRING, "high-watermark, kip-101, kip-279 or truncate-on-fetch", False),
        Column("applies", BOOLEAN, "whether the cluster runs this protocol", False),
        Column("truncation_offset", BIGINT, "offset to which the follower's log is cut; null: not cut"),
        Column("restart_offset", BIGINT, "the leader's log start at which the follower restarts empty; null: it does not"),
        Column("fetcher_fails", BOOLEAN, "whether the next fetch offset lies inside a batch of the leader, so that appending fails", False),
        Column("round_trips", INT, "requests to the leader before the fetch that brings records", False),
        Column(
            "rounds",
            pa.list_(ROUND),
            "the leader's answers in order. request: fetch or offset_for_leader_epoch. decided_by: the case of the rule: common-epoch, "
            "unknown-epoch (it asks again), later-epoch (above all of its own), no-epoch, undefined, records, out-of-range-longer, "
            "out-of-range-restart or out-of-range-again. log_end_offset: the follower's when it asks, where a fetch begins. own_epoch, "
            "own_end_offset: what its own table says of the answered epoch; null: not looked up, or none as high. out_of_range: why: "
            "epoch, below-start or beyond-end. dropped_epochs: those that the cut takes from its table",
            False,
        ),
        Column("falls_back_to_high_watermark", BOOLEAN, "whether the follower falls back to its high watermark", False),
        Column("removed_offsets", BIGINT, "offsets from the physical cut to the log end offset", False),
        Column("still_diverged", BOOLEAN, "whether what survives the cut conflicts with the leader", False),
        Column("catches_up", BOOLEAN, "whether its fetches then go on until it holds all that the leader holds"),
        Column(
            "physical_offset",
            BIGINT,
            "first offset that the files lose: the base offset of the batch that holds the cut; the log start on a restart; null: not cut",
        ),
        Column("fetch_offset", BIGINT, "where records flow again, or where an exchange without end comes back to"),
        Column("stuck", BOOLEAN, "whether the exchange has no end: the same request brings the same answer"),
        Column("ends_with_election", BOOLEAN, "whether it ends all the same once the leader, which does not run, is elected anew"),
        Column("restarts_once_failed", BOOLEAN, "whether a restart after the failed fetch empties the log, so that it catches up"),
        Column(
            "fallback",
            FALLBACK,
            "how it falls back to its high watermark, after so many rounds; because: asks-nothing, undefined (the answer) or no-epochs; "
            "in_memory: its broker runs, so that a newer one than the file's counts; truncate_to null: that cuts nothing",
        ),
        Column("learnt_epochs", pa.list_(EPOCH_START), "entries that what it then fetches adds to its table; of the protocol that applies"),
    ),
    constraints={
        **PARTITION_CHECK,
        "known_protocol": "protocol IN ('high-watermark', 'kip-101', 'kip-279', 'truncate-on-fetch')",
        "removes_what_is_there": "removed_offsets >= 0",
    },
    cluster_by=BY_PARTITION,
)
REPLICA_VERDICTS = Table(
    name="replica_verdicts",
    grain="one row per leader and follower",
    columns=(
        *KEYS,
        *PAIR,
        LEADER_SOURCE,
        Column("verdict", STRING, "the first rule that holds", False),
        Column("severity", STRING, "critical, error, warning or none", False),
        Column("common_prefix_end_offset", BIGINT, "exclusive end of what both logs share; null: nothing can be compared"),
        Column("divergence_offset", BIGINT, "first offset at which the logs part; null: they do not"),
        Column("follower_diverged_end_offset", BIGINT, "exclusive end of the follower's part of the divergence"),
        Column("leader_diverged_end_offset", BIGINT, "exclusive end of the leader's part of the divergence"),
        Column("truncation_offset", BIGINT, "offset to which the follower is cut under the protocol that applies; null: not cut"),
        Column("restart_offset", BIGINT, "offset at which it restarts empty; null: it does not"),
        Column("protocol", STRING, "the protocol that applies", False),
        Column("removed_offsets", BIGINT, "offsets that the follower's files lose, from the physical cut to the log end"),
        Column("removed_records", BIGINT, "records in the batches that go"),
        Column("removed_bytes", BIGINT, "their bytes"),
        Column(
            "removed_below_high_watermark",
            BIGINT,
            "removed offsets below the checkpointed high watermark of a replica that holds them, and that the leader does not hold",
        ),
        Column(
            "commit_evidence",
            STRING,
            "the strongest proof that removed offsets, which the leader does not hold, were committed: checkpointed-high-watermark, "
            "sole-in-sync-replica or all-in-sync-replicas; null: none, so it is unknown whether they were",
        ),
        Column(
            "removed_committed",
            BIGINT,
            "removed offsets that were committed, by any evidence, and that the leader does not hold",
        ),
        Column("removed_committed_offsets", pa.map_(STRING, BIGINT), "those offsets by evidence; each counts once, under its strongest"),
        Column(
            "removed_commits",
            pa.list_(COMMIT),
            "those offsets as spans [first, end) with their leader epoch; broker_id: whose checkpoint, or who led; metadata_offset: of the "
            "record that made the ISR what it was; not_ruled_out: why it is only very likely",
        ),
        Column("first_removed_timestamp_ms", BIGINT, "smallest max timestamp of the batches that go"),
        Column("last_removed_timestamp_ms", BIGINT, "largest max timestamp of the batches that go"),
        Column(
            "open_transactions",
            pa.list_(BIGINT),
            "producer ids whose marker goes, and whose transaction is known to have begun below the cut: in its segment, or nothing but "
            "the marker goes",
        ),
        Column("observed_truncation_offset", BIGINT, "what the broker's own log says it did, if collected"),
        Column("already_truncated", BOOLEAN, "whether it has truncated since it was copied, according to its broker's server.log"),
        Column(
            "stuck",
            STUCK,
            "the fetch that the leader refuses for good, and where the follower then fetches from again; null: it catches up. Null in it: "
            "answered_epoch and answered_end_offset where the answer is OFFSET_OUT_OF_RANGE. fresh_replica_too: so is an empty log",
        ),
        Column("wrong_lines_broker_id", INT, "the broker whose leader-epoch-checkpoint is the cause; null: none"),
        Column(
            "wrong_lines",
            pa.list_(WRONG_LINE),
            "its lines that its batches contradict: start_offset is right, null where the line has to go; found_offset is what the file "
            "has, null where the line is missing",
        ),
        Column(
            "hole",
            HOLE,
            "where a log_matching_violation is that one log misses offsets: the broker that misses them, [first, end), the base offsets of "
            "the segments before and after it (null: inside a segment), and whether the cut makes it",
        ),
        Column("compacted", BOOLEAN, "whether batches may be missing without harm: cleanup.policy or a cleaner checkpoint says so"),
        Column("evidence", STRING, "files, offsets and epochs that the verdict rests on"),
        Column("reason", STRING, "the verdict in one sentence", False),
        Column(
            "inferred_because",
            STRING,
            "why the leader is inferred: no-metadata, metadata-outdated, no-leader (nobody leads by the metadata) or "
            "leader-not-named; null: it is known",
        ),
        Column(
            "cause",
            STRING,
            "why an inconclusive follower cannot be compared: not collected, leader copied earlier, follower copied earlier, no common "
            "range, leader unknown or unreadable, no epochs or text not whole; null: it is compared",
        ),
        Column(
            "wrong_epoch",
            WRONG_EPOCH,
            "of epoch_table_only: the broker whose leader-epoch-checkpoint is wrong, the first offset at which it is, its epoch there "
            "(null: none) and that of the batches (-1: none)",
        ),
        Column(
            "did_otherwise",
            CONTRADICTION,
            "the line of its broker's server.log that contradicts the rule: where it truncated, and where the rule does (null: nowhere)",
        ),
        Column("differences", pa.list_(PIECE), "offsets [first, end) that both hold in different epochs, from the divergence on"),
        Column("conflicts", pa.list_(PIECE), "offsets [first, end) that differ still once records flow again; an epoch of null: missing"),
        Column("cleaned_beyond_cut", BOOLEAN, "whether the follower's cleaner had gone on beyond the cut"),
        Column("rests_on", pa.list_(FACT), "the evidence fact by fact: a file, and what it has at an offset, also in words"),
    ),
    constraints={
        **PARTITION_CHECK,
        "known_severity": "severity IN ('critical', 'error', 'warning', 'none')",
        "removes_what_is_there": "removed_offsets IS NULL OR removed_offsets >= 0",
    },
    cluster_by=BY_PARTITION,
)
