"""Tables about a run: its state, and the problems of its input."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any

from replica_audit.model import Problem
from replica_audit.rows.columns import (
    Bigint,
    ClusterId,
    Int,
    RunId,
    table,
)

NOTHING_READ = 2  # the exit code of a run that found nothing to read
NO_CLUSTER = "none"  # cluster_id of what belongs to no cluster, and of the row of a run that found none


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHolder:
    """The process that makes a run, told so that it can be recognised later.

    Args:
        host: name of its machine.
        machine: what tells a boot of the machine, and a container in it, from others of the same name.
        pid: its number there.
        began: when it began, in whatever the machine counts; with `pid` it is unique on the machine.
    """

    host: str
    machine: str
    pid: Int
    began: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRun:
    """A run, as far as it is about one cluster."""

    run_id: RunId
    cluster_id: ClusterId
    started_at: Annotated[datetime, "when the run began, UTC"]
    finished_at: Annotated[datetime | None, "when its last table was written, UTC; null while it runs"]
    status: Annotated[str, "running or complete"]
    exit_code: Annotated[
        Int | None,
        "exit code of the whole run: 0 nothing found, and every broker may be started, 1 findings at or above fail-on, or a start that "
        "costs something, 2 nothing readable, 3 inconclusive",
    ]
    run_date: Annotated[date, "the date the run is for"]
    inputs: Annotated[tuple[str, ...] | None, "the roots that were read"]
    config: Annotated[str | None, "the resolved configuration, JSON"]
    protocol: Annotated[str | None, "the truncation rule that applies to the cluster"]
    protocol_reason: Annotated[str | None, "what the rule was derived from"]
    replicas: Annotated[Bigint | None, "rows of replica_logs"]
    partitions: Annotated[Bigint | None, "partitions with a verdict"]
    verdict_counts: Annotated[Mapping[str, Bigint] | None, "rows of replica_verdicts by verdict"]
    proven_healthy: Annotated[
        Bigint | None,
        "rows of replica_verdicts of partitions that were proven healthy before any pair was compared; null: written by an older version",
    ]
    records_unread: Annotated[
        Bigint | None,
        "clean followers whose records were to be compared (--compare records) and could not be; their verdicts rest on the rest",
    ]
    input_errors: Annotated[Bigint | None, "rows of input_errors of the cluster"]
    versions: Annotated[Mapping[str, str] | None, "versions of the product and of what it runs on"]
    path: Annotated[str | None, "the cluster's root below the inputs"]
    brokers: Annotated[Bigint | None, "number of broker folders below the root"]
    has_metadata: Annotated[bool | None, "whether a cluster-metadata.json described the cluster"]
    attempt: Annotated[Int | None, "number of the attempt: higher each time a run of this id starts"]
    holder: Annotated[
        RunHolder | None, "process that makes or made the run: host, boot and container, number, start; null: written by an older version"
    ]
    alive_at: Annotated[datetime | None, "last sign of life of the holder while the run was running, UTC"]
    broker_ids: Annotated[
        tuple[Int, ...] | None,
        "brokers that the input has a folder of (of the run last_seen_run_id, if that is not null); null: written by an older version",
    ]
    missing_broker_ids: Annotated[
        tuple[Int, ...] | None,
        "brokers that the latest run of the same folder had and this input lacks, until somebody acknowledges that they are gone "
        "(broker_missing) or the metadata no longer names them; null: none",
    ]
    last_seen_run_id: Annotated[
        str | None,
        "the run that read the cluster last: this run's input lacks it, and nobody has acknowledged that it is gone (cluster_missing); "
        "null: the input has the cluster",
    ]
    table_rows: Annotated[
        Mapping[str, Bigint] | None,
        "rows that the whole run has in each other table: whoever reads the run compares them first, and refuses a run that lacks some; "
        "null: written by an older version",
    ]
    kafka_version: Annotated[str | None, "version of the brokers, the lowest where they differ; null: unknown, or of an older version"] = (
        None
    )

    @property
    def counts(self) -> bool:
        """Whether it says anything of its cluster: it is complete, and could read something."""
        return self.status == "complete" and self.exit_code != NOTHING_READ

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved configuration."""
        try:
            found = json.loads(self.config or "{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


AUDIT_RUNS = table(
    AuditRun,
    name="audit_runs",
    grain="one row per run and cluster; a run counts only when its row says complete",
    constraints={"known_status": "status IN ('running', 'complete')"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedProblem:
    """A problem of the input."""

    broker_id: Annotated[Int | None, "broker whose folder holds the file; null: none"]
    path: Annotated[str, "file or directory"]
    kind: Annotated[str, "what kind of file it is"]
    line: Annotated[Bigint | None, "line in a text, from 1"]
    byte_offset: Annotated[Bigint | None, "byte in the file, from 0"]
    code: Annotated[str, "what is wrong, as a code"]
    detail: Annotated[str, "what is wrong, as a sentence"]
    remedy: Annotated[str, "what to do about it"]

    @classmethod
    def of(cls, broker_id: int | None, problem: Problem) -> ReportedProblem:
        """A problem of a file in the folder of a broker; None: of none."""
        return cls(
            broker_id=broker_id,
            path=problem.path,
            kind=problem.kind,
            line=problem.line,
            byte_offset=problem.byte_offset,
            code=problem.code,
            detail=problem.detail,
            remedy=problem.remedy,
        )


INPUT_ERRORS = table(
    ReportedProblem,
    name="input_errors",
    grain="one row per input problem",
    constraints={
        "line_from_one": "line IS NULL OR line >= 1",
        "byte_from_zero": "byte_offset IS NULL OR byte_offset >= 0",
    },
    is_dated=True,
)
