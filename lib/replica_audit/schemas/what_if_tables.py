"""Tables that answer what would happen, had another broker led or another rule been in force."""

from __future__ import annotations

import pyarrow as pa

from replica_audit.schemas.columns import BIGINT, BOOLEAN, BY_PARTITION, INT, KEYS, PAIR, PARTITION, PARTITION_CHECK, STRING, Column, Table

WHAT_IF_LEADERS = Table(
    name="what_if_leaders",
    grain="one row per partition and replica that could lead it; with --what-if-leaders, and always of partitions without a leader",
    columns=(
        *KEYS,
        *PARTITION,
        Column(
            "candidate_id", INT, "broker that leads in this case; one that does not lead now is taken to have entered a new epoch", False
        ),
        Column(
            "rank",
            INT,
            "1 loses least: by committed offsets, then records, then the longer log; null: cannot lead, or not in the input",
        ),
        Column("is_leader", BOOLEAN, "whether it is the leader now", False),
        Column("in_isr", BOOLEAN, "whether it is in the ISR", False),
        Column("last_epoch", INT, "leader epoch of its last batch; -1: none"),
        Column("log_end_offset", BIGINT, "its log end offset"),
        Column(
            "lost_offsets",
            BIGINT,
            "offsets of other replicas that no longer exist anywhere, those of each epoch counted once; not those below its log start",
        ),
        Column("lost_records", BIGINT, "records in them; of a batch that goes in part as many as offsets"),
        Column("lost_bytes", BIGINT, "bytes of the batches whose last offset is among them"),
        Column("lost_below_high_watermark", BIGINT, "lost offsets below a checkpointed high watermark of a replica that holds them"),
        Column("lost_committed", BIGINT, "lost offsets that are proven, by any evidence, to have been committed"),
        Column("lost_committed_offsets", pa.map_(STRING, BIGINT), "those offsets by evidence, as in replica_verdicts"),
        Column("followers_cut", INT, "replicas that truncate"),
        Column("followers_restarted", INT, "replicas that empty their log and start at the candidate's log start offset"),
        Column("followers_failing", INT, "replicas that then get no records: their fetcher fails, or the exchange has no end"),
        Column("followers_diverged", INT, "replicas that conflict with the candidate and do not notice"),
        Column(
            "already_lost_offsets",
            BIGINT,
            "offsets that brokers have truncated since they were copied and that no other one holds: gone whichever leads, not in lost_*",
        ),
        Column("reason", STRING, "why it cannot lead or what it costs, in one sentence", False),
        Column("unread_replicas", INT, "other replicas that could not be read or are not in the input, and may hold more"),
        Column("in_elr", BOOLEAN, "whether it is an eligible leader replica (KIP-966)"),
        Column("election", STRING, "clean or unclean: what making it the leader would be by the metadata; null: not known"),
        Column("broker_up", BOOLEAN, "whether its broker runs; null: not known"),
        Column("stopped_cleanly", BOOLEAN, "whether its copy has the marker of a clean shutdown; null: not in the input"),
    ),
    constraints={**PARTITION_CHECK, "rank_from_one": "rank IS NULL OR rank >= 1"},
    cluster_by=BY_PARTITION,
)
WHAT_IF_RULES = Table(
    name="what_if_rules",
    grain="one row per leader, follower that is cut or differs, and rule: the protocols and the rejected alternatives of KIP-279",
    columns=(
        *KEYS,
        *PAIR,
        Column(
            "rule",
            STRING,
            "a protocol, or unknown-offset-rounds, epoch-sequence-exchange, high-watermark-epoch or leave-isr-on-preferred-election",
            False,
        ),
        Column("accepted", BOOLEAN, "whether Kafka was ever built so", False),
        Column("truncation_offset", BIGINT, "offset to which the follower is cut; null: not cut"),
        Column("falls_back_to_high_watermark", BOOLEAN, "whether it falls back to its high watermark", False),
        Column("round_trips", INT, "OffsetsForLeaderEpoch requests, or fetches that are answered with an epoch"),
        Column("request_bytes", BIGINT, "bytes of the partition in these requests"),
        Column("response_bytes", BIGINT, "bytes of the partition in their answers"),
        Column("reason", STRING, "what happens, in one sentence", False),
    ),
    constraints={**PARTITION_CHECK},
    cluster_by=BY_PARTITION,
)
