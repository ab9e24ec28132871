"""What a webhook is told of a run, as one JSON document: counts and the worst findings as facts.

A fact is a code, a number, a name of a topic, or an id. Nothing of a record is in it, and no sentence of a finding, which might quote one.
`text`, which chat services show, has no name from an input, for they read markup in it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import islice

from replica_audit.interruption import SIGNALS, exit_code_of
from replica_audit.protocol.verdict.acknowledgement import FOUND_NOW, Status
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.report.facts.assessment import SEVERITY_NAMES
from replica_audit.report.metrics import ACKNOWLEDGED, ClusterMetrics
from replica_audit.report.text.json_report import ListsOfRows
from replica_audit.rows.codes import Severity
from replica_audit.words import count

WORST = 10  # findings that a document has
_OUTCOMES = {0: "clean", 1: "findings", 3: "incomplete", **{exit_code_of(number): "interrupted" for number in SIGNALS}}
_FAILED = "failed"
_VERSION = 1
_OF_FINDING = (
    *("finding_key", "cluster_id", "code", "severity", "status", "topic", "partition", "broker_id", "leader_id"),
    *("divergence_offset", "truncation_offset", "removed_records", "records_lost", "removed_committed"),
    "already_truncated",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AboutRun:
    """What is known of a run however it ends. `page_url` and `html` are where its page is, None if that is not known."""

    run_id: str | None
    run_date: date | None
    inputs: Sequence[str]
    warehouse: str
    page_url: str | None
    html: str | None


def run_document(about: AboutRun, exit_code: int, clusters: Iterable[ClusterMetrics], listed: ListsOfRows) -> bytes:
    """The document of a run whose tables are written.

    Args:
        about: the run.
        exit_code: how it ended.
        clusters: its numbers.
        listed: gives the worst findings.
    """
    known = list(clusters)
    statuses, severities = Counter[str](), Counter[str]()
    for one in known:
        for (severity, status), number in one.findings.items():
            statuses[status] += number
            severities[severity] += number if status in FOUND_NOW else 0
    offline = sum(one.codes.get(str(PartitionCode.OFFLINE_PARTITION), 0) for one in known)
    found = ", ".join(f"{severities[severity]} {severity}" for severity in SEVERITY_NAMES if severities[severity])
    total = sum(severities.values())
    said = f"{count(total, 'finding')}{f' ({found}), {statuses[Status.NEW]} new' if total else ''}, {count(offline, 'partition')} offline"
    findings = {
        "count": total,
        "by_severity": {severity: severities[severity] for severity in SEVERITY_NAMES if severity != Severity.NONE},
        **{status: statuses[status] for status in (*map(str, Status), ACKNOWLEDGED)},
    }
    return _document(
        about,
        exit_code,
        said,
        finished_at=max((one.finished_at for one in known), default=None),
        seconds=max((one.seconds for one in known), default=None),
        findings=findings,
        offline_partitions=offline,
        clusters=[_cluster(one) for one in known],
        worst=[{name: row[name] for name in _OF_FINDING} for row in islice(listed.findings(FOUND_NOW), WORST)],
    )


def failure_document(about: AboutRun, exit_code: int, error: str) -> bytes:
    """The document of a run that did not come to its end; its rows do not count."""
    return _document(about, exit_code, "it did not come to its end", error=error)


def _document(about: AboutRun, exit_code: int, said: str, **known: object) -> bytes:
    outcome = _OUTCOMES.get(exit_code, _FAILED)
    document = {
        "version": _VERSION,
        "text": f"Kafka replica audit {about.run_id or '(not begun)'}: {outcome}, exit code {exit_code}; {said}",
        "outcome": outcome,
        "exit_code": exit_code,
        "run_id": about.run_id,
        "run_date": about.run_date,
        "inputs": list(about.inputs),
        "warehouse": about.warehouse,
        "page_url": about.page_url,
        "html": about.html,
        **known,
    }
    return json.dumps(document, default=_plain).encode()


def _cluster(one: ClusterMetrics) -> dict[str, object]:
    return {
        "cluster_id": one.cluster_id,
        "brokers": one.brokers,
        "partitions": one.partitions,
        "replicas": one.replicas,
        "input_errors": one.input_errors,
        "affected_groups": one.affected_groups,
        "verdicts": {verdict: number for verdict, number in one.verdicts.items() if number},
        "partition_findings": {code: number for code, number in one.codes.items() if number},
        "truncated_records": dict(one.truncated_records),
        "truncated_committed_offsets": dict(one.truncated_committed),
    }


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is nothing that JSON has")
