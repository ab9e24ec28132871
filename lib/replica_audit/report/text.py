"""A run as text of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from replica_audit.report.data import Choice, Cluster, Finding, InputProblem, Report

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

_IMPACT_LEGEND = (
    "GONE: consumed offsets whose records no longer exist. RESUMES: where the group goes on (policy: its auto.offset.reset decides). "
    "MISSES: offsets that it will not read (with latest, where the policy decides)."
)


def render(report: Report) -> str:
    """The whole summary, a line feed at its end."""
    lines: list[str] = []
    for cluster in report.clusters:
        lines += [*_cluster(cluster), ""]
    if report.findings:
        lines += [*_findings(report), ""]
    if report.impacts:
        lines += [*_impacts(report), ""]
    if report.candidates:
        lines += [*_candidates(report), ""]
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
    if cluster.unclean_elections:
        yield from _wrapped(f"unclean elections in the metadata log: {cluster.unclean_elections} (table leader_epochs)")
    counts = ", ".join(f"{verdict} {count}" for verdict, count in cluster.verdicts.items())
    yield from _wrapped(f"followers: {counts}" if counts else "no follower to compare")
    if cluster.affected_positions:
        groups, positions = _count(cluster.affected_groups, "group"), _count(cluster.affected_positions, "position")
        yield from _wrapped(f"consumers: {groups} affected, at {positions}")


def _labels(report: Report) -> dict[str, str]:
    """What stands before a partition's name where there are several clusters."""
    return {cluster.cluster_id: f"{cluster.label}/" if len(report.clusters) > 1 else "" for cluster in report.clusters}


def _findings(report: Report) -> Iterator[str]:
    labels = _labels(report)
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


def _impacts(report: Report) -> Iterator[str]:
    labels = _labels(report)
    total = sum(cluster.affected_positions for cluster in report.clusters)
    shown = "" if len(report.impacts) == total else f", the worst {len(report.impacts)} of {total}"
    yield f"Consumer groups whose records are gone{shown}"
    rows = [
        (
            i.group_id,
            f"{labels[i.cluster_id]}{i.topic}-{i.partition}",
            str(i.committed_offset),
            "policy" if i.reset_offset is None else str(i.reset_offset),
            "?" if i.records_gone is None else str(i.records_gone),
            "?" if i.records_missed is None else str(i.records_missed),
        )
        for i in report.impacts
    ]
    yield from _table(("GROUP", "PARTITION", "COMMITTED", "RESUMES", "GONE", "MISSES"), rows)
    yield from _wrapped(_IMPACT_LEGEND)


def _candidates(report: Report) -> Iterator[str]:
    """A line for each partition: what the leader loses, and what the best choice would."""
    labels = _labels(report)
    yield "If another replica led, where it matters (every choice: what_if_leaders)"
    partitions = groupby(report.candidates, key=lambda c: (c.cluster_id, c.topic, c.partition))
    rows = []
    for (cluster_id, topic, partition), found in partitions:
        choices = list(found)
        leader = next((c for c in choices if c.is_leader), None)
        rows.append((f"{labels[cluster_id]}{topic}-{partition}", _cost(leader), _cost(choices[0])))
    yield from _table(("PARTITION", "LEADER", "LOSES", "BEST", "LOSES"), [(name, *leads, *best) for name, leads, best in rows])
    yield from _wrapped("LOSES: records that no longer exist anywhere, and how many of their offsets had been committed.")


def _cost(choice: Choice | None) -> tuple[str, str]:
    if choice is None:
        return "-", "-"
    return str(choice.candidate_id), f"{choice.lost_records} ({choice.lost_below_high_watermark} committed)"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns of text, names to the left and numbers to the right; the first two are shortened to fit."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for i in (1, 0):
        spare = WIDTH - 4 - sum(widths[:i] + widths[i + 1 :]) - 2 * (len(header) - 1)
        widths[i] = max(len(header[i]), min(widths[i], spare))
    is_number = [all(row[i][:1].isdigit() or row[i] in ("-", "?", "policy") for row in rows) for i in range(len(header))]
    for row in [header, *rows]:
        cells = [_shortened(cell, width) for cell, width in zip(row, widths, strict=True)]
        padded = [c.rjust(w) if right else c.ljust(w) for c, w, right in zip(cells, widths, is_number, strict=True)]
        yield ("    " + "  ".join(padded)).rstrip()


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
