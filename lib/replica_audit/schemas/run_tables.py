"""Tables about a run: its state, and the problems of its input."""

from __future__ import annotations

import pyarrow as pa

from replica_audit.schemas.columns import BIGINT, BOOLEAN, INT, KEYS, STRING, TIMESTAMP, Column, Table, struct

HOLDER = struct(host=STRING, machine=STRING, pid=INT, began=STRING)

AUDIT_RUNS = Table(
    name="audit_runs",
    grain="one row per run and cluster; a run counts only when its row says complete",
    columns=(
        *KEYS,
        Column("started_at", TIMESTAMP, "when the run began, UTC", False),
        Column("finished_at", TIMESTAMP, "when its last table was written, UTC; null while it runs"),
        Column("status", STRING, "running or complete", False),
        Column("exit_code", INT, "of the whole run: 0 nothing found, 1 findings at or above fail-on, 2 nothing readable, 3 inconclusive"),
        Column("run_date", pa.date32(), "the date the run is for", False),
        Column("inputs", pa.list_(STRING), "the roots that were read"),
        Column("config", STRING, "the resolved configuration, JSON"),
        Column("protocol", STRING, "the truncation rule that applies to the cluster"),
        Column("protocol_reason", STRING, "what the rule was derived from"),
        Column("replicas", BIGINT, "rows of replica_logs"),
        Column("partitions", BIGINT, "partitions with a verdict"),
        Column("verdict_counts", pa.map_(STRING, BIGINT), "rows of replica_verdicts by verdict"),
        Column("input_errors", BIGINT, "rows of input_errors of the cluster"),
        Column("versions", pa.map_(STRING, STRING), "versions of the product and of what it runs on"),
        Column("path", STRING, "the cluster's root below the inputs"),
        Column("brokers", BIGINT, "brokers that the root has a folder of"),
        Column("has_metadata", BOOLEAN, "whether a cluster-metadata.json told of the cluster"),
        Column("attempt", INT, "number of the attempt: higher each time a run of this id is begun"),
        Column("holder", HOLDER, "process that makes or made the run: host, boot and container, number, start; null by an older version"),
        Column("alive_at", TIMESTAMP, "last sign of life of the holder while the run was running, UTC"),
    ),
    constraints={"known_status": "status IN ('running', 'complete')"},
)
INPUT_ERRORS = Table(
    name="input_errors",
    grain="one row per problem of the input",
    columns=(
        *KEYS,
        Column("broker_id", INT, "broker whose folder holds the file; null if it belongs to none"),
        Column("path", STRING, "file or directory", False),
        Column("kind", STRING, "what the file is taken for", False),
        Column("line", BIGINT, "line in a text, from 1"),
        Column("byte_offset", BIGINT, "byte in the file, from 0"),
        Column("code", STRING, "what is wrong, as a fixed word", False),
        Column("detail", STRING, "what is wrong, as a sentence", False),
        Column("remedy", STRING, "what to do about it", False),
    ),
    constraints={"line_from_one": "line IS NULL OR line >= 1", "byte_from_zero": "byte_offset IS NULL OR byte_offset >= 0"},
)
