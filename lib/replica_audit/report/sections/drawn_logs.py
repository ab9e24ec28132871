"""Both logs of an explanation as bars: epochs, marks, what goes, what conflicts, and what the follower holds afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from replica_audit.protocol.epochs.lineage import History
from replica_audit.report.document import Block, Exact, Heading, Sentence
from replica_audit.report.facts.explanation import ExplainedReplica, Explanation
from replica_audit.report.layout.drawing import HIDDEN, SHORTENED, Bar, Mark, Stroke, draw
from replica_audit.report.layout.leader_words import is_inferred, nobody
from replica_audit.rows.pairs import DifferingOffsets

KEPT, CONFLICTS, GOES = "-", "!", "x"
_LETTERS = {
    "S": "log start",
    "E": "log end",
    "H": "high watermark (checkpoint)",
    "D": "the logs diverge",
    "C": "the follower is cut",
    "R": "it starts again, empty",
    "F": "the fetch that fails",
}
_FILLS = {GOES: "truncated", CONFLICTS: "stays, and conflicts", SHORTENED: "drawn shorter", HIDDEN: "left out: as many epochs"}


def drawing_blocks(explanation: Explanation) -> Iterator[Block]:
    """The leader, the follower, and, where anything goes or stays wrong, the follower as it will be; with a legend of what is used."""
    verdict, point, outcome = explanation.verdict, explanation.applied, explanation.outcome
    leader = f"{'broker' if is_inferred(verdict) else 'leader'} {verdict.leader_id}" if verdict.leader_id >= 0 else nobody(verdict)
    bars = [
        _bar(leader, explanation.leader, _leader_marks(explanation)),
        _follower_bar(explanation),
    ]
    if point is not None and outcome is not None and point.is_recorded and not point.stuck:
        goes = outcome.physical_offset is not None
        if goes or point.fetcher_fails or verdict.conflicts:
            then = strokes(outcome.history, verdict.conflicts or (), None)
            bars.append(Bar(name=f"follower {verdict.follower_id} then", strokes=then, note="(empty)"))
    focus = [offset for offset in (verdict.divergence_offset, verdict.truncation_offset, verdict.restart_offset) if offset is not None]
    drawing = draw(bars, focus)
    yield Heading("The logs")
    yield Exact(drawing.lines, indent=0)
    used = {mark.letter for bar in bars for mark in bar.marks}
    fills = {stroke.fill for bar in bars for stroke in bar.strokes} | drawing.symbols
    legend = [f"{letter} {meaning}" for letter, meaning in _LETTERS.items() if letter in used]
    rounds = sorted(letter for letter in used if letter.isdigit())
    if rounds:
        legend.append(f"{' '.join(rounds)} cut by that round")
    legend += [f"{fill} {meaning}" for fill, meaning in _FILLS.items() if fill in fills]
    if any(left.end_offset < right.first_offset for bar in bars for left, right in pairwise(bar.strokes)):
        is_unread = any(side.log is not None and side.log.unreadable_reason for side in (explanation.leader, explanation.follower))
        legend.append("blank no batches, or not read" if is_unread else "blank no batches")
    if legend:
        yield Sentence(", ".join(legend))
    for side in (explanation.leader, explanation.follower):
        if side.by_table:
            yield Sentence(f"Broker {side.broker_id} is drawn from its epoch table: which batches belong to its log is unknown.")


def _bar(name: str, side: ExplainedReplica, marks: Sequence[Mark]) -> Bar:
    state = side.state
    if side.log is None or state is None:
        why = "not in the input" if side.log is None else "cannot be read"
        return Bar(name=name, note=f"({why})" if side.broker_id >= 0 else "")
    posts = (state.log_start_offset, state.log_end_offset)
    return Bar(name=name, strokes=strokes(side.history, (), None), posts=posts, marks=tuple(marks))


def _log_marks(side: ExplainedReplica) -> Iterator[Mark]:
    if side.log is not None and side.state is not None:
        yield Mark(side.state.log_start_offset, "S")
        yield Mark(side.state.log_end_offset, "E")
        if side.log.high_watermark is not None:
            yield Mark(side.log.high_watermark, "H")


def _leader_marks(explanation: Explanation) -> list[Mark]:
    marks = list(_log_marks(explanation.leader))
    point, outcome = explanation.applied, explanation.outcome
    if explanation.verdict.restart_offset is not None:
        marks.append(Mark(explanation.verdict.restart_offset, "R"))
    if point is not None and outcome is not None and point.fetcher_fails and point.fetch_offset is not None:
        marks.append(Mark(point.fetch_offset, "F"))
    return marks


def _follower_bar(explanation: Explanation) -> Bar:
    verdict, outcome, side = explanation.verdict, explanation.outcome, explanation.follower
    marks = list(_log_marks(side))
    if side.state is not None:
        marks += [Mark(verdict.divergence_offset, "D")] if verdict.divergence_offset is not None else []
        marks += [Mark(verdict.truncation_offset, "C")] if verdict.truncation_offset is not None else []
        for step in outcome.steps if outcome else ():
            if step.truncate_to not in (None, verdict.truncation_offset) and step.number is not None and step.number < 10:
                marks.append(Mark(step.truncate_to or 0, str(step.number)))
    physical = outcome.physical_offset if outcome else None
    bar = _bar(f"follower {verdict.follower_id}", side, marks)
    return Bar(
        name=bar.name, note=bar.note, posts=bar.posts, marks=bar.marks, strokes=strokes(side.history, explanation.differences, physical)
    )


def strokes(history: History, conflicts: Sequence[DifferingOffsets], physical: int | None) -> tuple[Stroke, ...]:
    """A history as segments: cut where it is cut, and where it begins or ends to conflict. `fill` is KEPT, CONFLICTS or GOES."""
    borders = {border for piece in conflicts for border in (piece.first_offset, piece.end_offset)}
    if physical is not None:
        borders = {border for border in borders if border < physical} | {physical}
    drawn: list[Stroke] = []
    ordered = sorted(borders)
    for span in history:
        inside = [border for border in ordered if span.first_offset < border < span.end_offset]
        label = str(span.leader_epoch) if span.leader_epoch >= 0 else "no epoch"
        for first, end in zip([span.first_offset, *inside], [*inside, span.end_offset], strict=True):
            differs = any(piece.first_offset <= first < piece.end_offset for piece in conflicts)
            fill = GOES if physical is not None and first >= physical else CONFLICTS if differs else KEPT
            if drawn and drawn[-1][1:] == (first, label, fill):
                drawn[-1] = drawn[-1]._replace(end_offset=end)
            else:
                drawn.append(Stroke(first, end, label, fill))
    return tuple(drawn)
