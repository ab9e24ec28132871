"""One partition as a section of a page: what happens to each follower, who is right, what to do, and every table behind it."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from replica_audit.program import option, program
from replica_audit.recovery.start_text import of_transactions
from replica_audit.report.document import Block, Exact, Heading, Rows, Sentence
from replica_audit.report.facts.assessment import SEVERITY_NAMES
from replica_audit.report.facts.explanation import Explained, Explanation
from replica_audit.report.facts.partition_facts import PartitionFacts
from replica_audit.report.facts.run_report import Report
from replica_audit.report.layout.leader_words import caveat, known_from
from replica_audit.report.layout.paragraphs import listed, moment, offsets
from replica_audit.report.page.picture import NARROW, WIDE, Picture, picture, worst_first
from replica_audit.report.page.plain_words import counted, in_short, number, who_is_right
from replica_audit.report.sections.brokers import replica_start
from replica_audit.report.sections.drawn_logs import drawing_blocks
from replica_audit.report.sections.follower import SECTIONS, head_blocks
from replica_audit.report.sections.offline import leaderless
from replica_audit.report.sections.partition import PARTITION_SECTIONS, finding_blocks, weighed
from replica_audit.report.sections.to_do import to_do_blocks
from replica_audit.report.sections.transactions import hanging, transaction_blocks
from replica_audit.rows.pairs import ReplicaVerdict

_MOST = 50  # rows of a long list; the tables have all
_BESIDES = (head_blocks, drawing_blocks)  # what a page says in its own way: in answers, and in a picture
_ITEM = "- "
_NUMBER = re.compile(r"[-?]|\d+(\+\d+)?|policy|same")
_WHO_LEADS_DECIDES = ("committed_loss", "stale_tail")


class PageTable(NamedTuple):
    """A table: what it is, its head, its rows."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def columns(self) -> list[tuple[str, bool]]:
        """The headings, and whether the cells below are numbers."""
        cells = zip(*self.rows, strict=True)
        return [(name, any(column) and all(map(_is_number, column))) for name, column in zip(self.head, cells, strict=True)]


def _is_number(cell: str) -> bool:
    return not cell or _NUMBER.fullmatch(cell) is not None


def pieces(blocks: Iterable[Block]) -> Iterator[tuple[str, object]]:
    """Blocks as the template shows them: a `heading`, `items` of one list, a `sentence`, a `table` or `exact` lines."""
    title, items = "", list[Sentence]()
    for block in (*blocks, None):
        if isinstance(block, Sentence) and block.label == _ITEM:
            items.append(block)
            continue
        if items:
            yield "items", items
            items = []
        match block:
            case Heading():
                title = block.text
                yield "heading", title
            case Sentence():
                yield "sentence", block
            case Rows() if block.cells:
                yield "table", PageTable(title, block.head, block.cells)
            case Exact():
                yield "exact", block.lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """One follower with a finding: sentences, facts by name, and what `explain` says of it."""

    broker_id: int
    verdict: str
    severity: str
    short: str
    right: str
    reason: str
    caveat: str
    facts: tuple[tuple[str, str], ...]
    told: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A partition of a page.

    `offline` says that nobody leads it, and what each choice loses; empty where somebody does. `others` are followers without a finding;
    `hanging`: transactions that nobody will end.
    `to_do`: what the plan does about it; `cost`: what each choice of a leader costs. `command` explains the partition in the terminal.
    `starts`: what happens to its replicas when their brokers start.
    """

    anchor: str
    name: str
    cluster: str
    severity: str
    to_do: tuple[Block, ...]
    cost: str | None
    starts: tuple[str, ...]
    offline: tuple[str, ...]
    hanging: tuple[Block, ...]
    followers: tuple[Follower, ...]
    others: tuple[str, ...]
    pictures: tuple[Picture, ...]
    told: tuple[Block, ...]
    command: str


def command(report: Report, cluster_id: str, topic: str, partition: int) -> str:
    """What prints the explanation of a partition."""
    place = ["explain", *option("--warehouse", report.warehouse), *option("--run-id", report.run_id)]
    if not report.warehouse:
        place = ["triage", *(word for given in report.inputs for word in option("--input", given))]
    cluster = option("--cluster", cluster_id) if len(report.clusters) > 1 else []
    words = [*place, *option("--partition", f"{topic}-{partition}"), *cluster]
    return f"{program()} {shlex.join(words)}"


def section(report: Report, explained: Explained, anchor: str, cluster: str) -> Section:
    """A partition's section; the worst follower first."""
    facts = explained.partition
    ranked = worst_first(explained.followers)
    bad = [one for one in ranked if one.verdict.severity != "none"]
    hangs = bool(hanging(facts.transactions))
    about = [one for one in PARTITION_SECTIONS if not (hangs and one is transaction_blocks)]
    drawn = [made for paper in (WIDE, NARROW) if (made := picture(explained, paper)) is not None]
    return Section(
        anchor=anchor,
        name=facts.name,
        cluster=cluster,
        severity=_severity([one.verdict.severity for one in bad] + [one.severity for one in facts.findings]),
        to_do=tuple(block for block in to_do_blocks(explained) if not isinstance(block, Heading)),
        cost=weighed(facts) if any(one.verdict.verdict in _WHO_LEADS_DECIDES for one in bad) else None,
        starts=tuple(f"Broker {one.broker_id}: {replica_start(one)}." for one in explained.starts),
        offline=tuple(_offline(facts)),
        hanging=tuple(transaction_blocks(facts, _MOST)) if hangs else (),
        followers=tuple(map(_follower, bad)),
        others=tuple(f"Broker {one.verdict.follower_id}: {one.verdict.verdict}." for one in ranked if one.verdict.severity == "none"),
        pictures=tuple(drawn),
        told=_told([finding_blocks(facts), *(one(facts, _MOST) for one in about)]),
        command=command(report, facts.run.cluster_id, facts.topic, facts.partition),
    )


def _severity(severities: Sequence[str]) -> str:
    return min(severities, key=SEVERITY_NAMES.index, default="none")


def _follower(one: Explanation) -> Follower:
    verdict = one.verdict
    return Follower(
        broker_id=verdict.follower_id,
        verdict=verdict.verdict,
        severity=verdict.severity,
        short=in_short(one),
        right=who_is_right(one),
        reason=verdict.reason,
        caveat=caveat(verdict),
        facts=tuple(_facts(one)),
        told=_told(said(one) for said in SECTIONS if said not in _BESIDES),
    )


def _facts(one: Explanation) -> Iterator[tuple[str, str]]:
    """The numbers of a finding."""
    verdict, outcome, state = one.verdict, one.outcome, one.follower.state
    if verdict.divergence_offset is not None:
        yield "Logs diverge at", f"{verdict.divergence_offset}"
    if verdict.restart_offset is not None:
        yield "Starts again at", f"{verdict.restart_offset}"
    elif verdict.truncation_offset is not None:
        yield "Truncates to", f"{verdict.truncation_offset}"
    physical = outcome.physical_offset if outcome else None
    if state is not None and physical is not None and physical < state.log_end_offset:
        yield "What is truncated", offsets(physical, state.log_end_offset)
        yield from _removed(verdict)
    if verdict.open_transactions:
        yield "Transactions left open", f"producer {listed(verdict.open_transactions)}"
    if verdict.observed_truncation_offset is not None:
        yield "According to server.log", f"truncated to {verdict.observed_truncation_offset}"
    if one.folder:
        yield "Paths are below", one.folder
    yield "Rule", f"{verdict.protocol}: {one.run.protocol_reason or 'reason not recorded'}"
    yield "Leader", known_from(verdict)


def _removed(verdict: ReplicaVerdict) -> Iterator[tuple[str, str]]:
    if verdict.removed_records is not None:
        yield "Records", number(verdict.removed_records)
    if verdict.removed_bytes is not None:
        yield "Bytes", number(verdict.removed_bytes)
    if verdict.lost_records is not None and verdict.lost_records != verdict.removed_records:
        yield "Of these lost", counted(verdict.lost_records, "record")
    by_transaction = of_transactions(verdict)
    if by_transaction is not None:
        yield "Lost by transaction", by_transaction
    if verdict.first_removed_timestamp_ms is not None and verdict.last_removed_timestamp_ms is not None:
        yield "Written (UTC)", f"{moment(verdict.first_removed_timestamp_ms)} to {moment(verdict.last_removed_timestamp_ms)}"
    if verdict.committed:
        yield "Committed and lost", counted(verdict.committed, "offset")
    elif verdict.loses_records != 0:
        yield "Committed and lost", "not known"


def _offline(facts: PartitionFacts) -> Iterator[str]:
    """That nobody leads the partition, and what electing each replica loses; nothing where somebody leads."""
    if facts.offline is not None:
        known, *others = leaderless(facts.offline, facts.choices)
        yield f"Nobody leads it: {known}"
        yield from others


def _told(sections: Iterable[Iterator[Block]]) -> tuple[Block, ...]:
    return tuple(block for section in sections for block in section)


def anchors(names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """For each (cluster label, partition name) its anchor: the name alone where it is the only one of that name."""
    known = Counter(name for _label, name in set(names))
    return {(label, name): name if known[name] == 1 else f"{label}/{name}" for label, name in names}
