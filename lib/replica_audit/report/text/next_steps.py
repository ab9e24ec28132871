"""What to look at next: the last lines of a summary that found something, as commands to paste."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from replica_audit.program import program
from replica_audit.report.facts.run_report import Finding, OfflinePartition, ReplicaFinding, Report
from replica_audit.report.facts.worst_first import SEVERITIES


def next_steps(report: Report) -> Iterator[str]:
    """Lines that name the worst partition and what shows it; none of a run that found nothing."""
    every: tuple[OfflinePartition | Finding | ReplicaFinding, ...] = (*report.offline, *report.findings, *report.others)
    if not every:
        return
    worst = min(every, key=_rank)
    cluster = ["--cluster", worst.cluster_id] if len(report.clusters) > 1 else []
    which = ["--partition", f"{worst.topic}-{worst.partition}", *cluster]
    if not report.warehouse:
        yield "Next: run the same command with"
        yield f"  {shlex.join(which)}: explains the worst finding"
        yield "  --html FILE: writes a page with all findings"
        yield f"  {shlex.join(['--plan', 'DIR', *cluster])}: writes the steps of a repair"
    elif "/" in report.warehouse:  # without Spark a catalog cannot be asked where its tables are
        of_run = ["--warehouse", report.warehouse, "--run-id", report.run_id]
        yield "Next: explain the worst finding, make a page, plan the repair"
        yield f"  {program()} explain {shlex.join([*of_run, *which])}"
        yield f"  {program()} report {shlex.join(of_run)}"
        yield f"  {program()} plan {shlex.join([*of_run, *cluster, '--output', 'plan'])}"


def _rank(one: OfflinePartition | Finding | ReplicaFinding) -> tuple[bool, int]:
    """Where a finding stands: a partition without a leader first, unless its whole cluster was shut down, then by severity."""
    return not (isinstance(one, OfflinePartition) and not one.cluster_stopped), SEVERITIES.index(one.severity)
