"""What the line of `--termination-message` counts of a run: numbers alone, of bounded length however much was found."""

from __future__ import annotations

from collections import Counter
from typing import Any

from replica_audit.protocol.verdict.verdict import SEVERITIES, Severity, Verdict
from replica_audit.report.facts.run_report import Report


def counts_of(report: Report) -> dict[str, Any]:
    """The run's id and counts. `findings` and its split by `codes` are without those that are acknowledged."""
    return {
        "run_id": report.run_id,
        "clusters": len(report.clusters),
        "partitions": sum(cluster.partitions for cluster in report.clusters),
        "replicas": sum(cluster.replicas for cluster in report.clusters),
        "findings": report.finding_count,
        "new": sum(report.new_findings.values()),
        "codes": _codes(report),
        "acknowledged": report.acknowledged_count,
        "input_errors": report.problem_count,
    }


def _codes(report: Report) -> dict[str, int]:
    """How many findings have each code: verdicts on followers, leaders that cannot be read, partitions."""
    counts: Counter[str] = Counter()
    for cluster in report.clusters:
        counts.update({code: count for code, count in cluster.verdicts.items() if SEVERITIES[Verdict(code)] is not Severity.NONE})
    counts.subtract(report.acknowledged_verdicts)
    counts[Verdict.UNREADABLE] += report.unreadable_leaders
    counts.update(report.partition_codes)
    return {str(code): count for code, count in counts.items() if count > 0}
