"""What a follower goes through, as KIP-101 counts its steps 1 to 4.7; the question in the middle as the protocol that applies asks it.

Sources: KIP-101 (proposed changes, steps 1 to 4.7.1), KIP-279 (proposed changes, steps 1 to 5), KIP-595 (a fetch carries the question).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.protocol.epochs.epoch_table import EpochEntry
from replica_audit.report.facts.exchange_steps import ExplainedStep
from replica_audit.report.facts.explanation import Explanation, Outcome
from replica_audit.report.facts.spans import LogState
from replica_audit.report.layout.leader_words import leader_name
from replica_audit.report.layout.paragraphs import epoch, listed, paragraph
from replica_audit.rows.codes import Case, Protocol
from replica_audit.rows.replicas import EpochStartOffset

_WIDEST = len("4.7.1")
_MOST = 4  # entries of a table that are listed
Told = tuple[str, str]


def document_step_lines(explanation: Explanation) -> Iterator[str]:
    """One line per step; nothing under a protocol that is older than the document."""
    point, outcome = explanation.applied, explanation.outcome
    leader, follower = explanation.leader.state, explanation.follower.state
    if point is None or outcome is None or leader is None or follower is None or point.protocol == Protocol.HIGH_WATERMARK:
        return
    if not outcome.is_recorded:
        return
    yield f"The steps of KIP-101{_INSTEAD.get(point.protocol, '')}"
    for number, text in _steps(explanation, outcome, leader, follower):
        yield from paragraph(text, first=f"{number:<{_WIDEST}} ")


_INSTEAD: dict[str, str] = {
    Protocol.KIP_279: " (4.2 to 4.6 as KIP-279 has them, its numbers in brackets)",
    Protocol.TRUNCATE_ON_FETCH: " (4.2 to 4.5 by the fetch itself)",
}


def _steps(explanation: Explanation, outcome: Outcome, leader: LogState, follower: LogState) -> Iterator[Told]:
    broker, exchanged = explanation.follower.broker_id, outcome.exchange
    has_epochs = any(span.leader_epoch >= 0 for side in (explanation.leader, explanation.follower) for span in side.history)
    yield (
        "1",
        "batches carry the leader epoch of who wrote them" if has_epochs else "no batch carries a leader epoch, for want of format v2",
    )
    as_found = [entry for entry in explanation.follower.epochs if entry.checkpoint_start_offset is not None]
    yield "2", f"the sequence file of follower {broker}: {_entries(_claimed(as_found))}"
    if leader.epochs:
        entered = leader.epochs[-1]
        yield "3", f"{leader_name(explanation.verdict)} entered epoch {entered.epoch} at {entered.start_offset}"
    yield "4.1", _recovered(as_found, follower)
    for step in exchanged.steps:
        yield from asked(explanation, step)
    if exchanged.stuck or (explanation.applied is not None and explanation.applied.fetcher_fails):
        return
    is_kip_279 = explanation.verdict.protocol == Protocol.KIP_279
    yield "4.6", f"{'(5) ' if is_kip_279 else ''}it fetches from {exchanged.fetch_offset}"
    found = (explanation.applied.learnt_epochs if explanation.applied else None) or ()
    learnt = [EpochEntry(entry.epoch, entry.start_offset) for entry in found]
    yield "4.7.1", f"while it fetches it adds {_entries(learnt)}" if learnt else "while it fetches no later epoch comes"


def _claimed(found: Sequence[EpochStartOffset]) -> list[EpochEntry]:
    return [EpochEntry(entry.leader_epoch, entry.checkpoint_start_offset or 0) for entry in found]


def _recovered(found: Sequence[EpochStartOffset], follower: LogState) -> str:
    """What of the file is in effect once the log is loaded."""
    in_file, loaded = set(_claimed(found)), set(follower.epochs)
    told = [f"it recovers {_entries(follower.epochs)}"]
    if loaded - in_file:
        told.append(f"{_entries(sorted(loaded - in_file))} by its batches or its log start")
    dropped = sorted(entry for entry in in_file - loaded if entry.start_offset >= follower.log_end_offset)
    if dropped:
        told.append(f"it drops {_entries(dropped)}, because its log ends at {follower.log_end_offset}")
    return "; ".join(told)


def _entries(entries: Sequence[EpochEntry]) -> str:
    if not entries:
        return "no epoch"
    said = [f"epoch {entry.epoch} at {entry.start_offset}" for entry in entries]
    if len(said) > _MOST:
        said = [*said[:2], f"{len(said) - _MOST} more", *said[-2:]]
    return ", ".join(said)


def asked(explanation: Explanation, step: ExplainedStep) -> Iterator[Told]:
    """One round, or the fallback, as the steps of the document that applies."""
    match explanation.verdict.protocol:
        case Protocol.KIP_101:
            yield from _kip_101(step)
        case Protocol.KIP_279:
            yield from _kip_279(step)
        case _:
            if step.case is not Case.RECORDS:
                yield "4.5", f"it {_cuts(step)}"


def _cuts(step: ExplainedStep) -> str:
    if step.case is Case.OUT_OF_RANGE_RESTART:
        return f"empties its log and starts again at {step.offset}"
    return "truncates nothing" if step.truncate_to is None else f"truncates to {step.truncate_to}"


def _kip_101(step: ExplainedStep) -> Iterator[Told]:
    match step.case:
        case Case.NO_EPOCH | Case.UNDEFINED:
            asked = step.requested_epoch
            yield "4.2", f"the request holds its latest epoch, {'-1 for none' if asked is None or asked < 0 else asked}"
            if step.case is Case.UNDEFINED:
                yield "4.3", "the leader cannot find the LastOffset"
                return
            yield "4.3", f"LastOffset is {step.answered_end_offset}"
            yield "4.4", _sequence(step)
            yield "4.5", f"it {_cuts(step)}"
        case Case.HIGH_WATERMARK:
            yield "4.5", f"for compatibility it falls back to its high watermark {step.offset} and {_cuts(step)}"
        case _:
            yield "-", f"no step: the fetch from {step.log_end_offset} is out of range, it {_cuts(step)}"


def _sequence(step: ExplainedStep) -> str:
    """What becomes of the follower's sequence file."""
    gone = step.dropped_epochs
    return f"its sequence file loses {listed(map(epoch, gone))}" if gone else "its sequence file stays as it is"


def _kip_279(step: ExplainedStep) -> Iterator[Told]:
    asks = "4.2", f"({'1' if step.number == 1 else '3b'}) it asks for {epoch(step.requested_epoch)}"
    match step.case:
        case Case.UNKNOWN_EPOCH | Case.COMMON_EPOCH | Case.LATER_EPOCH if not step.fetches:
            yield asks
            yield "4.3", f"(2) LeaderEpoch is {step.answered_epoch}, LastOffset {step.answered_end_offset}"
            yield "4.5", f"({'3a' if step.case is Case.UNKNOWN_EPOCH else '4'}) it {_cuts(step)}"
        case Case.UNDEFINED:
            yield asks
            yield "4.3", "(2) the leader cannot find the LastOffset"
        case Case.HIGH_WATERMARK:
            yield "4.5", f"for compatibility it falls back to its high watermark {step.offset} and {_cuts(step)}"
        case _:
            yield "-", f"no step: the fetch from {step.log_end_offset} is out of range, it {_cuts(step)}"
