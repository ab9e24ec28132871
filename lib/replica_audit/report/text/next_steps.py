"""What to look at next: the last lines of a summary that found something, as commands to paste."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from replica_audit.program import option, program
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.run_report import Report
from replica_audit.report.facts.worst_first import SEVERITIES
from replica_audit.rows.findings import RunFinding


def next_steps(report: Report, given: Collection[str] = ()) -> Iterator[str]:
    """Lines that name the worst partition and what shows it; none of a run that found nothing, and has nothing open from earlier ones.

    What an earlier run found and this one could not confirm is shown by that run. Each command, or what is added to one, has a line of
    its own, and below it what it is for.

    Args:
        report: of the run.
        given: options that the command which shows the report had; they are not named again.
    """
    every = list(_candidates(report))
    if not every:
        return
    worst = min(every, key=lambda one: one.rank)
    seen_by = worst.seen_by
    cluster = option("--cluster", worst.cluster_id) if len(report.clusters) > 1 else []
    which = [*option("--partition", worst.partition), *cluster]
    if not report.warehouse:
        steps = {
            shlex.join(which): "explains the worst finding",
            "--html FILE": "writes a page with all findings",
            "--what-if-leaders": "tries every replica as the leader",
            "--salvage DIR": "saves the records that a truncation removes",
            shlex.join(["--plan", "DIR", *cluster]): "writes the steps of a repair, in their order",
        }
        if not _loses(report):
            del steps["--what-if-leaders"], steps["--salvage DIR"]
        yield "Next: run the same command with"
        yield from _lines({step: why for step, why in steps.items() if step.split()[0] not in given})
    elif "/" in report.warehouse:  # without Spark a catalog cannot be asked where its tables are
        of_run = [*option("--warehouse", report.warehouse), *option("--run-id", report.run_id)]
        which_one = "the worst finding" if seen_by is None else f"the worst finding, which run {seen_by} saw last"
        explained = [*option("--warehouse", report.warehouse), *option("--run-id", seen_by or report.run_id), *which]
        yield f"Next: explain {which_one}, make a page, plan the repair"
        yield f"  {program()} explain {shlex.join(explained)}"
        yield f"  {program()} report {shlex.join(of_run)}"
        if _loses(report):
            yield f"  {program()} salvage {shlex.join([*of_run, *cluster, '--output', 'saved'])}"
        yield f"  {program()} plan {shlex.join([*of_run, *cluster, '--output', 'plan'])}"


def _lines(steps: Mapping[str, str]) -> Iterator[str]:
    for step, why in steps.items():
        yield f"  {step}"
        yield f"    {why}"


def _loses(report: Report) -> bool:
    """Whether a truncation removes records that can still be saved."""
    return any(one.lost_offsets or one.lost_unknown for one in report.broker_starts)


class _Candidate(NamedTuple):
    """A finding that may be the worst, and the earlier run that shows it, where this one does not.

    `rank`: a partition without a leader first, unless its whole cluster was shut down, then by severity. Last of a severity comes what
    could not be compared: there is least to explain.
    """

    rank: tuple[bool, int, bool]
    cluster_id: str
    partition: str
    seen_by: str | None = None


def _candidates(report: Report) -> Iterator[_Candidate]:
    for one in report.offline:
        yield _candidate(one, is_first=not one.cluster_stopped)
    for finding in report.findings:
        row = finding.row
        rank = True, SEVERITIES.index(row.severity), row.verdict == Verdict.INCONCLUSIVE
        yield _Candidate(rank, finding.cluster_id, f"{row.topic}-{row.partition}")
    yield from map(_candidate, report.others)
    for one in report.not_confirmed:
        if report.kept(one.last_seen_run_id) is not None:
            yield _candidate(one)._replace(seen_by=one.last_seen_run_id)


def _candidate(one: RunFinding, *, is_first: bool = False) -> _Candidate:
    return _Candidate((not is_first, SEVERITIES.index(one.severity), False), one.cluster_id, f"{one.topic}-{one.partition}")
