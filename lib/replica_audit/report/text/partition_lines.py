"""The findings of a summary that are about partitions and leaders, a line each; each with its severity, which decides the exit code."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.report.advice.transaction_remedies import in_short
from replica_audit.report.facts.run_report import Report
from replica_audit.report.layout.paragraphs import CommandLine
from replica_audit.report.text.offline_text import elections, in_sync, since
from replica_audit.rows.findings import RunFinding

_NAMED = 5


def offline_lines(report: Report) -> Iterator[str]:
    """Partitions that nobody leads, each with what electing each replica loses; those of a cluster that was shut down are one line."""
    for one in (one for one in report.offline if not one.cluster_stopped):
        where = _where(report, one.cluster_id)
        known = in_sync(one.isr, one.elr, one.last_leader_id)
        yield f"{one.severity}: {one.topic}-{one.partition}{where}: {known}{since(one.leaderless_since)}"
        yield from (f"  {line}" for line in elections(one.candidates))
    stopped = [one for one in report.offline if one.cluster_stopped]
    if stopped:
        named = f"{', '.join(f'{one.topic}-{one.partition}' for one in stopped[:_NAMED])}{', ...' if len(stopped) > _NAMED else ''}"
        yield f"{stopped[0].severity}: The whole cluster was shut down cleanly, and starting it elects leaders cleanly: {named}"


def unreadable_leader_lines(report: Report) -> Iterator[str]:
    """Leaders that cannot be read, the worst first."""
    shown = [one for one in report.others if one.code not in set(PartitionCode)]
    yield from (_line(report, one) for one in shown)
    if report.unreadable_leaders > len(shown) > 0:
        yield f"and {report.unreadable_leaders - len(shown)} more"
    yield "Followers cannot be compared with them. The input problems show why."


def leader_and_isr_lines(report: Report) -> Iterator[str]:
    """Live leaders whose table lacks their epoch, live followers that equal their leader outside the ISR, and what brokers logged."""
    for one in report.others:
        if one.code in set(PartitionCode):
            yield _line(report, one)
            if one.hanging:
                for line in in_short(one.hanging, one.topic, one.partition):
                    yield CommandLine(f"    {line}") if isinstance(line, CommandLine) else f"  {line}"


def _line(report: Report, one: RunFinding) -> str:
    broker = f", broker {one.broker_id}" if one.broker_id >= 0 else ""  # a log need not show whose it is
    return f"{one.severity}: {one.topic}-{one.partition}{_where(report, one.cluster_id)}{broker}: {one.summary} ({one.code})"


def _where(report: Report, cluster_id: str) -> str:
    """The cluster as the summary numbers it, where there are several."""
    number = {cluster.cluster_id: place for place, cluster in enumerate(report.clusters, 1)}
    return "" if len(number) < 2 else f" (cluster {number[cluster_id]})"
