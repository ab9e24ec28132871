"""What to look at next: the last lines of a summary that found something, as commands to paste."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from replica_audit.program import option, program
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.run_report import Finding, OfflinePartition, ReplicaFinding, Report
from replica_audit.report.facts.worst_first import SEVERITIES


def next_steps(report: Report) -> Iterator[str]:
    """Lines that name the worst partition and what shows it; none of a run that found nothing, and has nothing open from earlier ones.

    What an earlier run found and this one could not confirm is shown by that run.
    """
    earlier = [one for one in report.not_confirmed if one.last_seen_run_id is not None]
    every: tuple[OfflinePartition | Finding | ReplicaFinding, ...] = (*report.offline, *report.findings, *report.others, *earlier)
    if not every:
        return
    worst = min(every, key=_rank)
    seen_by = worst.last_seen_run_id if isinstance(worst, ReplicaFinding) and worst in earlier else None
    cluster = option("--cluster", worst.cluster_id) if len(report.clusters) > 1 else []
    which = [*option("--partition", f"{worst.topic}-{worst.partition}"), *cluster]
    if not report.warehouse:
        yield "Next: run the same command with"
        yield f"  {shlex.join(which)}: explains the worst finding"
        yield "  --html FILE: writes a page with all findings"
        yield f"  {shlex.join(['--plan', 'DIR', *cluster])}: writes the steps of a repair"
    elif "/" in report.warehouse:  # without Spark a catalog cannot be asked where its tables are
        of_run = [*option("--warehouse", report.warehouse), *option("--run-id", report.run_id)]
        which_one = "the worst finding" if seen_by is None else f"the worst finding, which run {seen_by} saw last"
        explained = [*option("--warehouse", report.warehouse), *option("--run-id", seen_by or report.run_id), *which]
        yield f"Next: explain {which_one}, make a page, plan the repair"
        yield f"  {program()} explain {shlex.join(explained)}"
        yield f"  {program()} report {shlex.join(of_run)}"
        yield f"  {program()} plan {shlex.join([*of_run, *cluster, '--output', 'plan'])}"


def _rank(one: OfflinePartition | Finding | ReplicaFinding) -> tuple[bool, int, bool]:
    """Where a finding stands: a partition without a leader first, unless its whole cluster was shut down, then by severity.

    Last of a severity comes what could not be compared: there is least to explain.
    """
    is_unknown = isinstance(one, Finding) and one.verdict == Verdict.INCONCLUSIVE
    return not (isinstance(one, OfflinePartition) and not one.cluster_stopped), SEVERITIES.index(one.severity), is_unknown
