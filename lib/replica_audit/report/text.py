"""A run as text of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from replica_audit.report.data import Cluster, Finding, InputProblem, Report

WIDTH = 80
_MEANING = {
    0: "nothing found at or above '{fail_on}'",
    1: "there are findings at or above '{fail_on}'",
    2: "no input could be read",
    3: "nothing at or above '{fail_on}', but some replicas could not be compared",
}
_LEGEND = (
    "L>F: leader and follower. PARTS AT: first offset at which the follower's log is not the leader's. "
    "CUTS TO: where the follower truncates when it fetches again "
    "(start N: it empties its log and starts at N). LOSES: records cut away; 'committed' are offsets below a persisted high watermark that "
    "the leader does not hold."
)


def render(report: Report) -> str:
    """The whole summary, a line feed at its end."""
    lines: list[str] = []
    for cluster in report.clusters:
        lines += [*_cluster(cluster), ""]
    if report.findings:
        lines += [*_findings(report), ""]
    if report.problem_count:
        lines += [*_problems(report.problems, report.problem_count), ""]
    lines += _end(report)
    return "\n".join(lines) + "\n"


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _cluster(cluster: Cluster) -> Iterator[str]:
    yield f"Cluster {cluster.cluster_id}"
    yield f"  {cluster.path}"
    yield from _wrapped(
        f"{_count(cluster.brokers, 'broker')}, {_count(cluster.replicas, 'replica')}, {_count(cluster.partitions, 'partition')} compared"
    )
    yield from _wrapped(f"truncation rule: {cluster.protocol} ({cluster.protocol_reason})")
    if cluster.inferred_leaders:
        which = "" if cluster.metadata else " (no cluster-metadata.json)"
        yield from _wrapped(
            f"leaders of {_count(cluster.inferred_leaders, 'pair')} are inferred from the logs{which}: there a clean verdict is no proof"
        )
    counts = ", ".join(f"{verdict} {count}" for verdict, count in cluster.verdicts.items())
    yield from _wrapped(f"followers: {counts}" if counts else "no follower to compare")


def _findings(report: Report) -> Iterator[str]:
    labels = {cluster.cluster_id: f"{cluster.label}/" if len(report.clusters) > 1 else "" for cluster in report.clusters}
    shown = "" if len(report.findings) == report.finding_count else f", the worst {len(report.findings)} of {report.finding_count}"
    yield f"Findings{shown}"
    rows = [
        (
            f"{labels[f.cluster_id]}{f.topic}-{f.partition}",
            f"{f.leader_id}>{f.follower_id}",
            _offset(f.divergence_offset),
            _cut(f),
            _loses(f),
        )
        for f in report.findings
    ]
    header = ("PARTITION", "L>F", "PARTS AT", "CUTS TO", "LOSES")
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    widths[0] = max(len(header[0]), min(widths[0], WIDTH - 4 - sum(widths[1:]) - 2 * len(widths[1:])))
    verdict = None
    for finding, row in zip(report.findings, rows, strict=True):
        if finding.verdict != verdict:
            verdict = finding.verdict
            yield f"  {finding.severity}: {verdict}"
            yield "    " + _row(header, widths)
        yield "    " + _row(row, widths)
    yield from _wrapped(_LEGEND)


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    partition = _shortened(cells[0], widths[0]).ljust(widths[0])
    numbers = [cell.rjust(width) for cell, width in zip(cells[2:4], widths[2:4], strict=True)]
    return "  ".join([partition, cells[1].ljust(widths[1]), *numbers, cells[4]])


def _shortened(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    tail = (width - 2) * 2 // 3
    return f"{text[: width - 2 - tail]}..{text[-tail:]}"


def _offset(value: int | None) -> str:
    return "-" if value is None else str(value)


def _cut(finding: Finding) -> str:
    if finding.restart_offset is not None:
        return f"start {finding.restart_offset}"
    return _offset(finding.truncation_offset)


def _loses(finding: Finding) -> str:
    match finding.verdict:
        case "committed_loss":
            return f"{finding.removed_records} records, {finding.removed_below_high_watermark} committed"
        case "stale_tail":
            return f"{finding.removed_records} records"
        case "log_matching_violation":
            return "stays; fetch fails" if finding.fetcher_fails else "stays diverged"
        case "epoch_table_only":
            return "nothing; checkpoint wrong"
        case "unreadable":
            return "cannot be read"
        case "stale_topic_id":
            return "log of an earlier topic"
        case _:
            return finding.reason.split(":")[0]


def _problems(problems: Sequence[InputProblem], total: int) -> Iterator[str]:
    shown = "" if len(problems) == total else f", the first {len(problems)} of {total}"
    yield f"Problems of the input{shown}"
    for problem in problems:
        where = f":{problem.line}" if problem.line is not None else "" if problem.byte_offset is None else f" at byte {problem.byte_offset}"
        yield f"  {problem.path}{where}"
        yield from _wrapped(f"{problem.detail}. Remedy: {problem.remedy}", "    ")


def _end(report: Report) -> Iterator[str]:
    if report.changes:
        yield "Since the run before: " + ", ".join(f"{count} {status}" for status, count in report.changes.items())
    yield f"Tables: {report.warehouse} (run {report.run_id})"
    yield f"Exit code {report.exit_code}: {_MEANING[report.exit_code].format(fail_on=report.fail_on)}. Took {report.seconds:.1f} s."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
