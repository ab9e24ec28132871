"""One partition as a section of a page: what happens to each follower, who is right, what to do, and every table behind it."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from replica_audit.program import option, program
from replica_audit.recovery.start_text import of_transactions
from replica_audit.report.advice.partition_remedies import (
    abort_command,
    about_the_tool,
    good_copies,
    hanging,
    standing,
    stops_consumers,
    to_be_saved,
    what_is_wrong,
    whose,
)
from replica_audit.report.advice.remedies import steps
from replica_audit.report.facts.assessment import SEVERITY_NAMES
from replica_audit.report.facts.explanation import Explained, Explanation
from replica_audit.report.facts.partition_facts import PartitionFacts
from replica_audit.report.facts.run_report import Report
from replica_audit.report.layout.leader_words import caveat, known_from, leader_name
from replica_audit.report.layout.paragraphs import listed, moment, offsets
from replica_audit.report.page.picture import NARROW, WIDE, Picture, picture, worst_first
from replica_audit.report.page.plain_words import counted, in_short, number, who_is_right
from replica_audit.report.text import exchange_text, explanation_text, partition_text
from replica_audit.report.text.brokers_text import replica_start
from replica_audit.report.text.exchange_text import DOCUMENTS, StepWords
from replica_audit.report.text.explanation_text import described
from replica_audit.report.text.explanation_text import facts as text_facts
from replica_audit.report.text.offline_text import leaderless
from replica_audit.report.text.partition_text import where
from replica_audit.rows.codes import Case
from replica_audit.rows.pairs import ReplicaVerdict

_MOST, _MOST_COMMANDS = 5, 50


class Hanging(NamedTuple):
    """Transactions that nobody will end: what they are, whom they stop, what to do first, and the commands that end them."""

    which: tuple[str, ...]
    short: str
    steps: tuple[str, ...]
    about_the_tool: str
    commands: tuple[str, ...]


def hanging_of(facts: PartitionFacts) -> Hanging | None:
    """What the page says of them; None if none is known to hang."""
    found = hanging(facts.transactions)
    if not found:
        return None
    return Hanging(
        tuple(f"{where(one)}: {whose(one)} {standing(one)}." for one in found[:_MOST]),
        stops_consumers(facts.transactions),
        tuple(to_be_saved(found, facts.topic, facts.partition)),
        about_the_tool(found),
        tuple(" ".join(abort_command(one, facts.topic, facts.partition)) for one in found[:_MOST_COMMANDS]),
    )


_MOST_ROWS = 50
_NUMBER = re.compile(r"[-?]|\d+(\+\d+)?|policy|same")


class PageTable(NamedTuple):
    """A table: what it is, its head, its rows."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def columns(self) -> list[tuple[str, bool]]:
        """The headings, and whether the cells below are numbers."""
        cells = zip(*self.rows, strict=True)
        return [(name, any(column) and all(map(_is_number, column))) for name, column in zip(self.head, cells, strict=True)]


def _is_number(cell: str) -> bool:
    return not cell or _NUMBER.fullmatch(cell) is not None


def grids_of_partition(facts: PartitionFacts) -> Iterator[PageTable]:
    """Groups, damage, open transactions, gaps, choices, replicas and elections, as far as there are any."""
    hit = [impact for impact in facts.impacts if impact.affected is not False]
    if hit:
        more = f" (the worst {_MOST_ROWS} of {number(len(hit))})" if len(hit) > _MOST_ROWS else ""
        rows = tuple((*partition_text.group_row(impact), impact.reason) for impact in hit[:_MOST_ROWS])
        yield PageTable(f"Affected consumer groups{more}", (*partition_text.GROUP_HEAD, "what happens"), rows)
    if facts.damaged:
        rows = tuple(map(partition_text.damage_row, facts.damaged[:_MOST_ROWS]))
        yield PageTable(partition_text.DAMAGE_TITLE, partition_text.DAMAGE_HEAD, rows)
    if facts.transactions:
        caption = f"{partition_text.TRANSACTION_TITLE}. {stops_consumers(facts.transactions)}"
        yield PageTable(
            caption, partition_text.TRANSACTION_HEAD, tuple(map(partition_text.transaction_row, facts.transactions[:_MOST_ROWS]))
        )
    if facts.gaps:
        yield PageTable(partition_text.GAP_TITLE, partition_text.GAP_HEAD, tuple(map(partition_text.gap_row, facts.gaps[:_MOST_ROWS])))
    if facts.choices:
        yield PageTable(
            "Each replica as the leader, smallest loss first",
            partition_text.CHOICE_HEAD,
            tuple(map(partition_text.choice_row, facts.choices)),
        )
    if facts.roles:
        yield PageTable("The replicas", partition_text.ROLE_HEAD, tuple(map(partition_text.role_row, facts.roles)))
    if facts.elections:
        yield PageTable("Elections in the metadata log", partition_text.ELECTION_HEAD, tuple(partition_text.election_rows(facts.elections)))


_MOST_ERRORS = 5
_UNCLEAN = "unclean"
_WHO_LEADS_DECIDES = ("committed_loss", "stale_tail")


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """One follower with a finding: sentences, facts by name, steps, and tables."""

    broker_id: int
    verdict: str
    severity: str
    short: str
    right: str
    reason: str
    caveat: str
    facts: tuple[tuple[str, str], ...]
    remedies: tuple[str, ...]
    grids: tuple[PageTable, ...]
    ending: tuple[str, ...]
    evidence: tuple[str, ...]
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A partition of a page.

    `offline` says that nobody leads it, and what each choice loses; empty where somebody does. `others` are followers without a finding;
    `command` explains the partition in the terminal. `starts`: what happens to its replicas when their brokers start.
    """

    anchor: str
    name: str
    cluster: str
    severity: str
    starts: tuple[str, ...]
    offline: tuple[str, ...]
    hanging: Hanging | None
    followers: tuple[Follower, ...]
    others: tuple[str, ...]
    pictures: tuple[Picture, ...]
    grids: tuple[PageTable, ...]
    notes: tuple[str, ...]
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
    drawn = [made for paper in (WIDE, NARROW) if (made := picture(explained, paper)) is not None]
    return Section(
        anchor=anchor,
        name=facts.name,
        cluster=cluster,
        severity=_severity([one.verdict.severity for one in bad] + [one.severity for one in facts.findings]),
        starts=tuple(f"Broker {one.broker_id}: {replica_start(one)}." for one in explained.starts),
        offline=tuple(_offline(facts)),
        hanging=hanging_of(facts),
        followers=tuple(_follower(one, partition_text.weighed(facts)) for one in bad),
        others=tuple(f"Broker {one.verdict.follower_id}: {one.verdict.verdict}." for one in ranked if one.verdict.severity == "none"),
        pictures=tuple(drawn),
        grids=tuple(grids_of_partition(facts)),
        notes=tuple(_notes(explained)),
        command=command(report, facts.run.cluster_id, facts.topic, facts.partition),
    )


def _severity(severities: Sequence[str]) -> str:
    return min(severities, key=SEVERITY_NAMES.index, default="none")


def _follower(one: Explanation, weighed: str | None) -> Follower:
    verdict = one.verdict
    first, *others = steps(one)
    cost = (weighed,) if weighed and verdict.verdict in _WHO_LEADS_DECIDES else ()
    ending: list[str] = []
    if one.applied is not None and one.outcome is not None:
        ending = list(StepWords(one, one.applied).ending())
    return Follower(
        broker_id=verdict.follower_id,
        verdict=verdict.verdict,
        severity=verdict.severity,
        short=in_short(one),
        right=who_is_right(one),
        reason=verdict.reason,
        caveat=caveat(verdict),
        facts=tuple(_facts(one)),
        remedies=(first, *cost, *others),
        grids=tuple(_grids(one)),
        ending=tuple(ending),
        evidence=tuple(_evidence(one)),
        errors=tuple(f"{e.path}{_at(e.line, e.byte_offset)}: {e.detail}. Remedy: {e.remedy}" for e in one.input_errors[:_MOST_ERRORS]),
    )


def _at(line: int | None, byte_offset: int | None) -> str:
    return f":{line}" if line is not None else "" if byte_offset is None else f" at byte {byte_offset}"


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


def _grids(one: Explanation) -> Iterator[PageTable]:
    if one.applied is not None and one.outcome is not None and one.outcome.steps:
        words = StepWords(one, one.applied)
        rows = tuple(
            (
                "fallback" if step.number is None else str(step.number),
                "" if step.number is None else words.asks(step),
                "" if step.number is None else words.answer(step),
                words.does(step),
                " (".join(words.rule(step)) + ")" if step.case is not Case.UNDEFINED else "",
            )
            for step in one.outcome.steps
        )
        head = ("round", f"follower {one.verdict.follower_id}", f"{leader_name(one.verdict)} answers", "the follower", "rule (source)")
        yield PageTable(f"The exchange. {DOCUMENTS.get(one.verdict.protocol, one.verdict.protocol)}", head, rows)
    found = one.verdict.mismatch
    if found is not None:
        caption = f"{explanation_text.MISMATCH_TITLE}. {' '.join(explanation_text.mismatch_sentences(found))}"
        yield PageTable(caption, explanation_text.mismatch_head(one), tuple(explanation_text.mismatch_rows(found)))
    rules = exchange_text.rule_rows(one)
    if rules:
        marks = {">": "applies", "x": "rejected by KIP-279"}
        named = tuple((row[1], marks.get(row[0], ""), *row[2:]) for row in rules)
        yield PageTable("Under each rule", ("rule", "", *exchange_text.RULE_HEAD[2:]), named)


def _evidence(one: Explanation) -> Iterator[str]:
    leader = leader_name(one.verdict) if one.leader.broker_id >= 0 else "leader"
    for name, side in ((leader, one.leader), (f"follower {one.follower.broker_id}", one.follower)):
        yield f"{name}: {described(one, side)}"
    yield from text_facts(one.verdict)
    if one.folder:
        yield f"all below {one.folder}"
    if one.cut_short:
        yield f"some rows were not read of: {', '.join(one.cut_short)}"


def _offline(facts: PartitionFacts) -> Iterator[str]:
    """That nobody leads the partition, and what electing each replica loses; nothing where somebody leads."""
    if facts.offline is not None:
        known, *others = leaderless(facts.offline, facts.choices)
        yield f"Nobody leads it: {known}"
        yield from others


def _notes(explained: Explained) -> Iterator[str]:
    facts = explained.partition
    for one in facts.findings:
        if one is not facts.offline:
            whose = f", broker {one.broker_id}" if one.broker_id >= 0 else ""
            yield f"{one.code.replace('_', ' ').capitalize()}{whose}: {one.summary}."
    for role in facts.roles:
        if role.isr_objection:
            yield f"Broker {role.broker_id} should not be in the ISR: {role.isr_objection}."
    for one_batch in facts.damaged[:_MOST_ERRORS]:
        yield f"Damaged: {what_is_wrong(one_batch)}; {good_copies(one_batch)}."
    unclean = sum(election.election == _UNCLEAN for election in facts.elections)
    if unclean:
        yield f"{counted(unclean, 'unclean election')} in the metadata log."
    for future in facts.futures:
        yield f"Broker {future.broker_id} moves the replica to {future.future_log_dir}: {future.verdict}, {future.reason}."


def anchors(names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """For each (cluster label, partition name) its anchor: the name alone where it is the only one of that name."""
    known = Counter(name for _label, name in set(names))
    return {(label, name): name if known[name] == 1 else f"{label}/{name}" for label, name in names}
