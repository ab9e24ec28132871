"""What the summary of a run says, in order, as titles, sentences and grids; `text` and `rich_text` only lay it out."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple

from replica_audit.model import MISLEADING_INDEX
from replica_audit.program import option, program
from replica_audit.protocol.verdict.acknowledgement import Status
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import SEVERITIES, Verdict
from replica_audit.report.facts.assessment import SEVERITY_NAMES
from replica_audit.report.facts.run_report import Cluster, Finding, OldestCapture, ProblemKind, Report
from replica_audit.report.layout.leader_words import PAIR_WITHOUT_LEADER, pair
from replica_audit.report.layout.paragraphs import CommandLine
from replica_audit.report.sections.brokers import broker_items
from replica_audit.report.sections.offline import elections, in_sync
from replica_audit.report.sections.transactions import in_short
from replica_audit.report.text import findings_text
from replica_audit.report.text.findings_text import cell, committed_part, cut, loses
from replica_audit.rows.codes import Severity
from replica_audit.rows.findings import RunFinding
from replica_audit.rows.starts import BrokerStart, StartOutcome
from replica_audit.rows.what_if import WhatIfLeader
from replica_audit.words import count


def checks(cluster: Cluster) -> Iterator[str]:
    """What the summary says of a cluster's collections and their CRCs, if its input is such, and of records that were not compared."""
    if cluster.oldest_capture is not None:
        yield _of_captures(cluster.oldest_capture)
    if cluster.oldest_check is not None or cluster.never_checked:
        yield _of_crcs(cluster.oldest_check, cluster.never_checked)
    if cluster.records_unread:
        yield (
            f"records of {count(cluster.records_unread, 'follower')} not compared: the input does not hold them (collections and texts); "
            "the rest was, as with --compare content. To compare records, copy the segments; else leave --compare records out"
        )


def _of_captures(oldest: OldestCapture) -> str:
    """How old the input is; nothing else shows that a collector has stopped."""
    said = f"collections: the oldest is of {_minute(oldest.captured_at)} (broker {oldest.broker_id})"
    days = oldest.days_before
    return f"{said}, {count(days, 'day')} before this run: does its collector still run?" if days > 0 else said


def _minute(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _of_crcs(oldest: datetime | None, never: int) -> str:
    """When they were last verified.

    Args:
        oldest: when that segment was verified whose last check is the longest ago; None if none was.
        never: how many replicas have a segment that never was.
    """
    parts = [] if oldest is None else [f"the oldest check is of {_minute(oldest)}"]
    if never:
        parts.append(f"of {count(never, 'replica')} not all segments were ever verified")
    return f"CRCs of collected segments: {'; '.join(parts)}"


def next_steps(report: Report, given: Collection[str] = ()) -> Iterator[str]:
    """Lines that name the worst partition and what shows it; none of a run that found nothing, and has nothing open from earlier ones.

    What an earlier run found and this one could not confirm is shown by that run. Each command, or what is added to one, has a line of
    its own, and below it what it is for.

    Args:
        report: of the run.
        given: options that the command which shows the report had; they are not named again.
    """
    every = list(_candidates_of(report))
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


def _candidates_of(report: Report) -> Iterator[_Candidate]:
    for one in report.offline:
        yield _candidate(one, is_first=not one.cluster_stopped)
    for finding in report.findings:
        row = finding.row
        rank = True, SEVERITY_NAMES.index(row.severity), row.verdict == Verdict.INCONCLUSIVE
        yield _Candidate(rank, finding.cluster_id, f"{row.topic}-{row.partition}")
    yield from map(_candidate, report.others)
    for one in report.not_confirmed:
        if report.kept(one.last_seen_run_id) is not None:
            yield _candidate(one)._replace(seen_by=one.last_seen_run_id)


def _candidate(one: RunFinding, *, is_first: bool = False) -> _Candidate:
    return _Candidate((not is_first, SEVERITY_NAMES.index(one.severity), False), one.cluster_id, f"{one.topic}-{one.partition}")


_NAMED = 5


def offline_lines(report: Report) -> Iterator[str]:
    """Partitions that nobody leads, each with what electing each replica loses; those of a cluster that was shut down are one line."""
    for one in (one for one in report.offline if not one.cluster_stopped):
        yield f"{one.severity}: {one.topic}-{one.partition}{_where(report, one.cluster_id)}: {in_sync(one)}"
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


MEANING = {
    0: "nothing found at or above '{fail_on}'",
    1: "there are findings at or above '{fail_on}'",
    2: "no input could be read",
    3: "nothing at or above '{fail_on}', but {why}",
}
_NOTHING_COMPARED = "nothing is known: "
_WHY = {
    False: "no partition has a leader and a follower in the input",
    True: "no follower could be compared with its leader",
}
_EXPLAINED = "--partition TOPIC-N"  # where a run that keeps no tables shows it
UNCONFIRMED = "Unconfirmed: an earlier run found them; this run could not check, or found something else wrong there. They stay open."


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """Lines below a title; `exact` ones are not wrapped, of `items` the text is, beside its head.

    `severity` is that of the worst thing told, empty if there is none.
    """

    title: str
    exact: tuple[str, ...] = ()
    items: tuple[tuple[str, str], ...] = ()
    lines: tuple[str, ...] = ()
    severity: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows of a grid below a label of their own."""

    rows: tuple[tuple[str, ...], ...]
    label: str = ""
    severity: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Rows in columns. `right` are the columns of numbers; `shrinks` those that are shortened where there is no room, in this order."""

    title: str
    header: tuple[str, ...]
    parts: tuple[Part, ...]
    right: frozenset[int]
    shrinks: tuple[int, ...]
    legend: str = ""


Block = Notes | Grid


def blocks(report: Report) -> Iterator[Block]:
    """The summary from the top; `ending` comes after it."""
    yield from broker_notes(report)
    news = findings_text.news_lines(report)
    if news:
        yield Notes(title=findings_text.news_title(report), lines=news, severity=next(iter(report.new_findings), ""))
    if report.decisions:
        yield Notes(title="What to decide, worst first", lines=tuple(one.text for one in report.decisions), severity="error")
    yield from _offline(report)
    for number, cluster in enumerate(report.clusters, 1):
        yield _cluster(report, cluster, number if len(report.clusters) > 1 else None)
    if report.findings:
        yield _findings(report)
    if report.unreadable_leaders > 0:
        title = f"{_count(report.unreadable_leaders, 'leader')} cannot be read"
        yield Notes(title=title, lines=tuple(unreadable_leader_lines(report)), severity="error")
    yield from _others(report)
    back = findings_text.no_longer_lines(report)
    if back:
        yield Notes(title="No longer covered by an acknowledgement", lines=back, severity="error")
    covered = findings_text.acknowledged_lines(report)
    if covered:
        yield Notes(title=findings_text.acknowledged_title(report), lines=covered)
    if report.impacts:
        yield _impacts(report)
    if report.candidates or report.best_led_partitions or report.already_lost_partitions:
        yield _candidates(report)


def broker_notes(report: Report) -> Iterator[Notes]:
    """Whether each broker may be started; of several clusters those where one may not, and how many others there are."""
    found = [(cluster, [one for one in report.broker_starts if one.cluster_id == cluster.cluster_id]) for cluster in report.clusters]
    found = [(cluster, starts) for cluster, starts in found if starts]
    told = [(cluster, starts) for cluster, starts in found if len(found) == 1 or not _are_safe(starts)]
    for cluster, starts in told:
        title = "Brokers" if len(found) == 1 else f"Brokers of {cluster.label}"
        yield Notes(title=title, items=tuple(broker_items(starts)), severity="" if _are_safe(starts) else "error")
    if len(told) < len(found):
        rest = _count(len(found) - len(told), "other cluster" if told else "cluster")
        yield Notes(title=f"Brokers of {rest}: all safe to start")


def _are_safe(starts: Sequence[BrokerStart]) -> bool:
    return all(one.outcome == StartOutcome.SAFE and not one.leads for one in starts)


def ending(report: Report, given: Collection[str] = ()) -> Iterator[str]:
    """The last lines: what to look at next, what is new, where the tables are, the exit code and what it means."""
    yield from next_steps(report, given)
    if report.warehouse and any(status != Status.NEW for status in report.changes):
        yield "Compared with earlier runs: " + ", ".join(f"{count} {status}" for status, count in report.changes.items())
    if report.changes.get(Status.UNCONFIRMED):
        yield UNCONFIRMED
    if report.warehouse:
        yield f"Tables: {report.warehouse} (run {report.run_id})"
    yield f"Exit code {report.exit_code}: {meaning(report)}."


def meaning(report: Report) -> str:
    """What the exit code means, of this run."""
    if report.exit_code == 3 and not report.compared_followers:
        return _NOTHING_COMPARED + _WHY[any(cluster.verdicts for cluster in report.clusters)]
    known = f", besides {findings_text.known_count(report)}" if report.acknowledged_count and report.exit_code != 2 else ""
    why = "; ".join(_doubts(report)) or "some input could not be read, or some replicas or records could not be compared"
    return MEANING[report.exit_code].format(fail_on=report.fail_on, why=why) + known


def _doubts(report: Report) -> Iterator[str]:
    """Why a run that found nothing is no all-clear."""
    doubts = report.doubts
    if doubts.unread.keys() - {MISLEADING_INDEX}:
        codes = ", ".join(f"{code} {number}" for code, number in doubts.unread.items())
        yield f"some input could not be read, or not as a whole ({codes}; {doubts.first_unread})"
    elif doubts.unread:
        misled = "an index misleads" if doubts.unread[MISLEADING_INDEX] == 1 else f"{doubts.unread[MISLEADING_INDEX]:,} indexes mislead"
        yield f"{misled} whoever reads from the broker ({MISLEADING_INDEX}; {doubts.first_unread})"
    if any(cluster.last_seen_run_id is not None or cluster.missing_broker_ids for cluster in report.clusters):
        yield "something that an earlier run read is missing from the input"
    untold = sum(cluster.verdicts.get(Verdict.INCONCLUSIVE, 0) for cluster in report.clusters)
    untold -= report.acknowledged_verdicts.get(Verdict.INCONCLUSIVE, 0)
    if untold > 0:
        yield f"{_count(untold, 'follower')} could not be compared"
    unread = sum(cluster.records_unread for cluster in report.clusters)
    if unread:
        yield f"records of {_count(unread, 'follower')} could not be compared"
    if doubts.keys_may_differ:
        yield (
            f"the keys of {_count(doubts.keys_may_differ, 'follower')} of compacted topics were not compared, and an unclean election, a "
            "truncation or an emptied segment may have left them with other keys (--compare records compares them)"
        )
    if doubts.unknown_topic_ids:
        lack = "lacks its" if doubts.unknown_topic_ids == 1 else "lack their"
        found = _count(doubts.unknown_topic_ids, "replica")
        yield f"{found} {lack} partition.metadata: a broker sets such a log aside, if the copy is whole"
    if doubts.undated_leaders:
        rest = "rests on a leader" if doubts.undated_leaders == 1 else "rest on leaders"
        clean = _count(doubts.undated_leaders, "clean verdict")
        yield f"{clean} {rest} whose epoch the metadata lacks, so nothing shows that it is not of before an election"
    if doubts.guessed_leaders:
        rest = "rests on a leader" if doubts.guessed_leaders == 1 else "rest on leaders"
        yield f"{_count(doubts.guessed_leaders, 'clean verdict')} {rest} known by inference only"


def problems(report: Report) -> Iterator[Notes]:
    """The input problems: the place of the first of each kind, what to do, and how many more there are."""
    for kind in report.problem_kinds:
        problem = kind.first
        where = f":{problem.line}" if problem.line is not None else "" if problem.byte_offset is None else f" at byte {problem.byte_offset}"
        said = f"{problem.detail}. Remedy: {problem.remedy}"
        yield Notes(title=f"{problem.path}{where}", lines=(said, *_like_it(report, kind)))


def _like_it(report: Report, kind: ProblemKind) -> Iterator[str]:
    """The other problems of a kind, counted, the next few by their paths below the cluster."""
    if kind.number > 1:
        roots = tuple(f"{cluster.path}/" for cluster in report.clusters)
        root = next((one for one in roots if kind.first.path.startswith(one)), "")
        more = kind.number - 1 - len(kind.next_paths)
        places = ", ".join(path.removeprefix(root) for path in kind.next_paths)
        yield f"and {kind.number - 1} more of this kind: {places}{f' and {more} more' if more else ''}"


def problems_title(report: Report) -> str:
    """The title above them."""
    kinds = len(report.problem_kinds)
    return "Input problems" if report.problem_count == kinds else f"Input problems: {report.problem_count}, the first of each kind"


def _shown(shown: int, total: int, which: str) -> str:
    return "" if shown == total else f", the {which} {shown} of {total}"


def _cluster(report: Report, cluster: Cluster, number: int | None) -> Notes:
    if number is not None and _is_plain(cluster):
        counts = ", ".join(f"{verdict} {total}" for verdict, total in cluster.verdicts.items())
        return Notes(title=f"Cluster {number}: {cluster.cluster_id}, {_count(cluster.partitions, 'partition')}: {counts}")
    named = f"Cluster {cluster.cluster_id}" if number is None else f"Cluster {number}: {cluster.cluster_id}"
    return Notes(title=named, exact=(cluster.path,), lines=tuple(_about_cluster(report, cluster)))


def _is_plain(cluster: Cluster) -> bool:
    """Whether nothing is to be said of a cluster but the clean verdicts on its followers."""
    is_clean = cluster.verdicts and all(SEVERITIES[Verdict(verdict)] is Severity.NONE for verdict in cluster.verdicts)
    doubts = (
        cluster.last_seen_run_id,
        cluster.missing_broker_ids,
        cluster.offline_partitions,
        cluster.inferred_leaders,
        cluster.input_errors,
        cluster.records_unread,
        cluster.affected_positions,
        tuple(checks(cluster)),
    )
    return bool(is_clean) and not any(doubts)


def _about_cluster(report: Report, cluster: Cluster) -> Iterator[str]:
    if cluster.last_seen_run_id is not None:
        yield f"MISSING from the input: nothing was read; run {cluster.last_seen_run_id} read it last"
        return
    yield f"{_count(cluster.brokers, 'broker')}, {_count(cluster.replicas, 'replica')}, {_count(cluster.partitions, 'partition')} compared"
    if cluster.missing_broker_ids:
        yield f"MISSING from the input, unlike before: broker {', '.join(map(str, cluster.missing_broker_ids))}"
    yield f"truncation rule: {cluster.protocol} ({cluster.protocol_reason})"
    if cluster.offline_partitions:
        yield f"without a leader, according to the metadata: {_count(cluster.offline_partitions, 'partition')}"
    if cluster.inferred_leaders:
        which = "" if cluster.metadata else " (no cluster-metadata.json)"
        pairs = _count(cluster.inferred_leaders, "pair")
        yield f"of {pairs} the leader is a guess{which}: do not trust identical, consistent or lagging there"
    if cluster.unclean_elections:
        which = "see table leader_epochs" if report.warehouse else f"{_EXPLAINED} lists those of a partition"
        yield f"unclean elections in the metadata log: {cluster.unclean_elections} ({which})"
    yield from checks(cluster)
    counts = ", ".join(f"{verdict} {count}" for verdict, count in cluster.verdicts.items())
    yield f"followers: {counts}" if counts else "no follower to compare"
    if cluster.affected_positions:
        groups, positions = _count(cluster.affected_groups, "group"), _count(cluster.affected_positions, "position")
        yield f"consumers: {groups} affected at {positions}"


def _offline(report: Report) -> Iterator[Notes]:
    total = report.offline_count
    if total:
        title = f"{_count(total, 'partition')} without a leader{_shown(len(report.offline), total, 'first')}"
        severity = report.offline[0].severity if report.offline else "error"
        yield Notes(title=title, lines=tuple(offline_lines(report)), severity=severity)


def _others(report: Report) -> Iterator[Notes]:
    lines = tuple(leader_and_isr_lines(report))
    if lines:
        total = sum(report.partition_codes.values()) - report.offline_count
        shown = sum(one.code in set(PartitionCode) for one in report.others)
        title = f"Leaders, the ISR, and what brokers logged{_shown(shown, total, 'worst')}"
        yield Notes(title=title, lines=lines, severity=report.others[0].severity)


def _of_clusters(report: Report, grid: Grid, clusters: Iterable[str]) -> Grid:
    """The grid with a first column of the clusters' numbers, where there are several: a partition's name stays one to copy."""
    if len(report.clusters) < 2:
        return grid
    number = {cluster.cluster_id: str(place) for place, cluster in enumerate(report.clusters, 1)}
    of_rows = iter(clusters)
    parts = tuple(replace(part, rows=tuple((number[next(of_rows)], *row) for row in part.rows)) for part in grid.parts)
    return replace(
        grid,
        header=("#", *grid.header),
        parts=parts,
        right=frozenset((0, *(place + 1 for place in grid.right))),
        shrinks=tuple(place + 1 for place in grid.shrinks),
    )


def _findings(report: Report) -> Grid:
    parts = [
        Part(label=f"{severity}: {verdict}", severity=severity, rows=tuple(map(_finding_row, found)))
        for (severity, verdict), found in groupby(report.findings, key=lambda one: (one.row.severity, one.row.verdict))
    ]
    grid = Grid(
        title=f"Findings{_shown(len(report.findings), report.follower_findings, 'worst')}",
        header=("PARTITION", "L>F", "DIVERGES", "TRUNCATES TO", "LOSES"),
        parts=tuple(parts),
        right=frozenset({2, 3}),
        shrinks=(0,),
        legend=PAIR_WITHOUT_LEADER if any(one.row.leader_id < 0 for one in report.findings) else "",
    )
    return _of_clusters(report, _telling(grid), (one.cluster_id for one in report.findings))


def _finding_row(one: Finding) -> tuple[str, ...]:
    row = one.row
    compared = pair(row.leader_id, row.follower_id, row.leader_source)
    return f"{row.topic}-{row.partition}", compared, cell(row.divergence_offset), cut(row), loses(one)


def _impacts(report: Report) -> Grid:
    total = sum(cluster.affected_positions for cluster in report.clusters)
    rows = tuple(
        (
            one.group_id,
            f"{one.topic}-{one.partition}",
            str(one.committed_offset),
            "policy" if one.reset_offset is None else str(one.reset_offset),
            "?" if one.records_gone is None else str(one.records_gone),
            "?" if one.records_missed is None else str(one.records_missed),
        )
        for one in (impact.row for impact in report.impacts)
    )
    grid = Grid(
        title=f"Consumer groups whose records are gone{_shown(len(rows), total, 'worst')}",
        header=("GROUP", "PARTITION", "COMMITTED", "RESUMES", "GONE", "MISSES"),
        parts=(Part(rows=rows),),
        right=frozenset({2, 3, 4, 5}),
        shrinks=(1, 0),
    )
    return _of_clusters(report, grid, (one.cluster_id for one in report.impacts))


def _candidates(report: Report) -> Block:
    """A line for each partition in which another replica would lose less: what the leader loses, and what the best choice would."""
    title = f"If another replica led (all choices: {'table what_if_leaders' if report.warehouse else _EXPLAINED})"
    settled = ""
    if report.best_led_partitions:
        settled = f"In {_count(report.best_led_partitions, 'partition')} with something to lose, no other replica would lose less."
    if report.already_lost_partitions:
        gone = (
            f"In {_count(report.already_lost_partitions, 'partition')} brokers have since truncated records that only their audited copies "
            "still hold."
        )
        settled = f"{settled} {gone}".strip()
    if not report.candidates:
        return Notes(title=title, lines=(settled,))
    rows, clusters = [], []
    for (cluster_id, topic, partition), found in groupby(
        report.candidates, key=lambda one: (one.cluster_id, one.row.topic, one.row.partition)
    ):
        choices = [one.row for one in found]
        leader = next((one for one in choices if one.is_leader), None)
        rows.append((f"{topic}-{partition}", *_cost(leader), *_cost(choices[0])))
        clusters.append(cluster_id)
    grid = Grid(
        title=title,
        header=("PARTITION", "LEADER", "LOSES", "BEST", "LOSES"),
        parts=(Part(rows=tuple(rows)),),
        right=frozenset({1, 2, 3, 4}),
        shrinks=(0,),
        legend=settled,
    )
    return _of_clusters(report, grid, clusters)


def _cost(choice: WhatIfLeader | None) -> tuple[str, str]:
    if choice is None:
        return "-", "-"
    if choice.rank is None:
        return str(choice.candidate_id), "cannot be read"
    records, committed = choice.lost_records or 0, choice.lost_committed or 0
    return str(choice.candidate_id), f"{records} ({committed_part(records, committed)})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _telling(grid: Grid) -> Grid:
    """The grid without columns in which no cell says anything."""
    kept = [i for i in range(len(grid.header)) if any(row[i] != "-" for part in grid.parts for row in part.rows)]
    parts = tuple(replace(part, rows=tuple(tuple(row[i] for i in kept) for row in part.rows)) for part in grid.parts)
    place = {i: new for new, i in enumerate(kept)}
    return replace(
        grid,
        header=tuple(grid.header[i] for i in kept),
        parts=parts,
        right=frozenset(place[i] for i in grid.right if i in place),
        shrinks=tuple(place[i] for i in grid.shrinks if i in place),
    )


def widths(grid: Grid, room: int) -> list[int]:
    """How wide each column is, two blanks between them, in a room of so many columns."""
    rows: Sequence[tuple[str, ...]] = [grid.header, *(row for part in grid.parts for row in part.rows)]
    found = [max(len(row[i]) for row in rows) for i in range(len(grid.header))]
    for i in grid.shrinks:
        spare = room - sum(found[:i] + found[i + 1 :]) - 2 * (len(found) - 1)
        found[i] = max(len(grid.header[i]), min(found[i], spare))
    return found
