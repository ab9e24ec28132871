"""The exchange between a follower and its leader in words: who asks what, what is answered, what the follower does, by which rule.

Then the steps as KIP-101 counts them, 1 to 4.7, the question in the middle as the protocol that applies asks it, and the same pair under
every other rule. Sources: KIP-101 (proposed changes, steps 1 to 4.7.1), KIP-279 (proposed changes, steps 1 to 5), KIP-595 (a fetch carries
the question).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from replica_audit.protocol.epochs.epoch_table import EpochEntry
from replica_audit.report.document import Block, Heading, Rows, Sentence
from replica_audit.report.facts.explanation import ExplainedStep, Explanation, LogState
from replica_audit.report.layout.leader_words import leader_name
from replica_audit.report.layout.paragraphs import epoch, listed
from replica_audit.rows.codes import Case, FallsBack, OutOfRange, Protocol, RuleKind
from replica_audit.rows.pairs import RefusedFetch, TruncationPoint
from replica_audit.rows.replicas import EpochStartOffset

DOCUMENTS: dict[str, str] = {
    Protocol.HIGH_WATERMARK: "Kafka up to 0.10: the follower does not ask",
    Protocol.KIP_101: "KIP-101, Kafka 0.11 to 1.1: one question, an offset as the answer",
    Protocol.KIP_279: "KIP-279, Kafka 2.0 and later: ask until both know the epoch",
    Protocol.TRUNCATE_ON_FETCH: "KIP-595, KAFKA-10554, Kafka 2.8 and later: fetches ask, too",
}
_STATE = "AbstractFetcherThread.getOffsetTruncationState"
_OLD_TRUNCATE = "ReplicaFetcherThread.maybeTruncate of 1.1"
_OUT_OF_RANGE = "AbstractFetcherThread.fetchOffsetAndTruncate"
_OLD_OUT_OF_RANGE = "ReplicaFetcherThread.handleOffsetOutOfRange of 1.1"
_OLD = (Protocol.HIGH_WATERMARK, Protocol.KIP_101)
NOT_RECORDED = "The version of this run did not record what was decided in each round, nor which offsets conflict: audit again to see that."
RULES = {
    Case.RECORDS: ("no divergence up to the fetch offset: records", "KIP-595; Partition.readRecords"),
    Case.COMMON_EPOCH: ("both know the epoch: the smallest of its two end offsets and the log end", f"KIP-279; {_STATE}"),
    Case.UNKNOWN_EPOCH: ("unknown epoch: truncate to the end of the follower's epoch below it, ask again", f"KIP-279; {_STATE}"),
    Case.LATER_EPOCH: ("epoch above all of the follower's: truncate to the leader's offset", f"KIP-279; {_STATE}"),
    Case.NO_EPOCH: ("no epoch in the answer: truncate to its offset, if below the log end", f"KIP-101; {_OLD_TRUNCATE}"),
    Case.OUT_OF_RANGE_LONGER: ("out of range and longer than the leader: truncate to the leader's log end", _OUT_OF_RANGE),
    Case.OUT_OF_RANGE_RESTART: ("out of range, and the leader's log starts later: empty the log, start there", _OUT_OF_RANGE),
    Case.OUT_OF_RANGE_AGAIN: ("out of range, yet neither longer nor ending before the leader's start: nothing changes", _OUT_OF_RANGE),
}


def exchange_blocks(explanation: Explanation) -> Iterator[Block]:
    """The exchange under the protocol that applies."""
    point, outcome = explanation.applied, explanation.outcome
    document = DOCUMENTS.get(explanation.verdict.protocol)
    yield Heading(f"The exchange ({document or explanation.verdict.protocol})")
    if point is None or outcome is None:
        yield Sentence("None: an exchange needs two readable logs.")
        return
    if not point.is_recorded:
        yield Sentence(NOT_RECORDED)
        return
    words = StepWords(explanation, point)
    for step in outcome.steps:
        yield from words.step(step)
    yield from map(Sentence, words.ending())


class StepWords:
    """The words for the steps of one exchange."""

    def __init__(self, explanation: Explanation, point: TruncationPoint) -> None:
        self.point = point
        self.leader = leader_name(explanation.verdict)
        self.follower = f"follower {explanation.follower.broker_id}"
        self.leader_log = explanation.leader.log
        self.checkpointed = explanation.follower.log.high_watermark if explanation.follower.log else None
        self.stuck = explanation.verdict.stuck
        self.cut = point.truncation_offset is not None or point.restart_offset is not None

    def step(self, step: ExplainedStep) -> Iterator[Block]:
        """A step: what is asked, answered, done, and by which rule."""
        first = "fallback " if step.number is None else f"round {step.number}  "
        said = [] if step.number is None else [f"{self.follower} {self.asks(step)}", f"{self.leader} answers {self.answer(step)}"]
        said.append(f"{self.follower} {self.does(step)}")
        if step.case is not Case.UNDEFINED:  # the fallback that follows has the rule
            said.append(f"rule: {' ('.join(self.rule(step))})")
        for number, text in enumerate(said):
            yield Sentence(text, label=first if not number else " " * len(first))

    def asks(self, step: ExplainedStep) -> str:
        """What the follower asks."""
        if not step.fetches:
            asked = epoch(step.requested_epoch) if step.requested_epoch is not None else "epoch -1, because it has none"
            return f"asks for the end of {asked}"
        sent = "" if step.requested_epoch is None else f", its last epoch is {step.requested_epoch}"
        return f"fetches from {step.log_end_offset}{sent}"

    def answer(self, step: ExplainedStep) -> str:
        """What the leader answers."""
        match step.case:
            case Case.RECORDS:
                is_at_end = self.leader_log is not None and step.log_end_offset == self.leader_log.log_end_offset
                return f"with {'nothing, because its log ends there' if is_at_end else 'records'}"
            case Case.UNDEFINED:
                return "-1: it does not know the end"
            case Case.NO_EPOCH:
                return f"{step.answered_end_offset}, and names no epoch"
            case Case.OUT_OF_RANGE_LONGER | Case.OUT_OF_RANGE_RESTART | Case.OUT_OF_RANGE_AGAIN:
                return f"OFFSET_OUT_OF_RANGE: {self._why(step)}"
            case Case.HIGH_WATERMARK:
                return ""  # nothing was asked
            case Case.COMMON_EPOCH | Case.UNKNOWN_EPOCH | Case.LATER_EPOCH:
                return f"{'diverging: ' if step.fetches else ''}{epoch(step.answered_epoch)} ends at {step.answered_end_offset}"
            case _ as never:
                assert_never(never)

    def _why(self, step: ExplainedStep) -> str:
        start = None if self.leader_log is None else self.leader_log.log_start_offset
        match step.out_of_range:
            case OutOfRange.EPOCH:
                return f"it does not know where {epoch(step.requested_epoch)} ends; its log ends at {step.answered_end_offset}"
            case OutOfRange.BELOW_START:
                return f"its log starts at {start} and ends at {step.answered_end_offset}"
            case _:
                return f"its log ends at {step.answered_end_offset}"

    def does(self, step: ExplainedStep) -> str:
        """What the follower does then."""
        match step.case:
            case Case.RECORDS:
                return "cannot append them" if self.point.fetcher_fails else "truncates nothing more" if self.cut else "truncates nothing"
            case Case.COMMON_EPOCH:
                return f"holds {epoch(step.answered_epoch)} up to {step.own_end_offset}: {self._cuts(step)}"
            case Case.UNKNOWN_EPOCH:
                has = f"holds {epoch(step.own_epoch)} below it up to {step.own_end_offset}"
                return f"does not know {epoch(step.answered_epoch)}, {has}: {self._cuts(step)}, asks again"
            case Case.LATER_EPOCH:
                return f"knows no epoch that high: {self._cuts(step)}"
            case Case.NO_EPOCH:
                return self._cuts(step)
            case Case.UNDEFINED:
                return "falls back to its high watermark"
            case Case.HIGH_WATERMARK:
                return self._falls_back(step)
            case Case.OUT_OF_RANGE_LONGER | Case.OUT_OF_RANGE_RESTART | Case.OUT_OF_RANGE_AGAIN:
                return f"ends at {step.log_end_offset}: {self._adjusts(step)}"
            case _ as never:
                assert_never(never)

    def _falls_back(self, step: ExplainedStep) -> str:
        if step.in_memory:
            known = "that of its checkpoint" if self.checkpointed is None else f"the {self.checkpointed} of its checkpoint"
            return f"runs, and knows a newer high watermark than {known}: truncates nothing"
        return f"has the high watermark {step.offset}: {self._cuts(step)}"

    def _adjusts(self, step: ExplainedStep) -> str:
        """What follows from an offset out of range."""
        if step.case is Case.OUT_OF_RANGE_RESTART:
            return f"empties its log and starts again at {step.offset}"
        return self._cuts(step) if step.case is Case.OUT_OF_RANGE_LONGER else "fetches the same again"

    def _cuts(self, step: ExplainedStep) -> str:
        if step.truncate_to is None:
            return f"truncates nothing, its log ends at {step.log_end_offset}"
        return f"truncates to {step.truncate_to}"

    def rule(self, step: ExplainedStep) -> tuple[str, str]:
        """What decides, and where Kafka says so."""
        is_old = self.point.protocol in _OLD
        if step.because is None:
            rule, source = RULES[step.case]
            return rule, _OLD_OUT_OF_RANGE if is_old and source == _OUT_OF_RANGE else source
        match step.because:
            case FallsBack.ASKS_NOTHING:
                return "a new follower truncates what is not known to be committed", "ReplicaManager.makeFollowers of 0.10"
            case FallsBack.UNDEFINED:
                source = f"KIP-101; {_OLD_TRUNCATE}" if is_old else f"KIP-279; {_STATE}"
                return "the leader does not know the end: truncate what is not known to be committed", source
            case FallsBack.NO_EPOCHS:
                return (
                    "a follower without epochs: truncate what is not known to be committed",
                    "AbstractFetcherThread.truncateToHighWatermark",
                )
            case _ as never:
                assert_never(never)

    def ending(self) -> Iterator[str]:
        """How it ends."""
        at = self.point.fetch_offset
        if at is None:
            return
        if self.point.stuck and self.stuck is None and not self.point.ends_with_election:
            yield (
                "In the copied files this never ends. That proves nothing about the brokers: on a running one, table and log may "
                "be newer than their copies."
            )
        elif self.point.stuck and self.stuck is None:
            yield (
                "This never ends with the leader's present table. The leader is down, and starts a new epoch when it leads again: then it "
                "answers differently."
            )
        elif self.point.stuck:
            yield (
                f"This never ends: the same question gets the same answer. {self.follower.capitalize()} stays out of the ISR "
                "until the leader's log changes."
            )
        elif self.point.fetcher_fails:
            yield (
                f"The fetch from {at} fails: {at} lies inside one of the leader's batches. It arrives whole, starts below the follower's "
                "log "
                "end and cannot be appended (UnexpectedAppendOffsetException; Partition.appendRecordsToFollowerOrFutureReplica). The "
                "partition stops following: alone since 2.3 (KIP-461), before that with all others of its fetcher thread. A restart "
                "tries again from the end of the files."
            )
        elif self.point.protocol != Protocol.TRUNCATE_ON_FETCH:
            yield f"Then it fetches records from {at} on."
        elif self.stuck is not None:
            yield from self._sent_back(self.stuck)

    def _sent_back(self, stuck: RefusedFetch) -> Iterator[str]:
        """What becomes of a follower that gets records, and is refused later."""
        last = "" if stuck.requested_epoch is None else f", its last epoch is {stuck.requested_epoch}"
        answer = "OFFSET_OUT_OF_RANGE" if stuck.answered_end_offset is None else self._diverging(stuck)
        again = "fetches the same again" if stuck.back_to_offset >= stuck.fetch_offset else f"truncates to {stuck.back_to_offset}"
        yield (
            f"Later {self.follower} fetches from {stuck.fetch_offset}{last}; {self.leader} answers {answer}; {self.follower} {again}. "
            "This never ends (Partition.readRecords): it stays out of the ISR."
        )

    def _diverging(self, stuck: RefusedFetch) -> str:
        return f"diverging: {epoch(stuck.answered_epoch)} ends at {stuck.answered_end_offset}"


_WIDEST = len("4.7.1")
_MOST_ENTRIES = 4  # entries of a table that are listed
Told = tuple[str, str]


def document_step_blocks(explanation: Explanation) -> Iterator[Block]:
    """One line per step; nothing under a protocol that is older than the document."""
    point, outcome = explanation.applied, explanation.outcome
    leader, follower = explanation.leader.state, explanation.follower.state
    if point is None or outcome is None or leader is None or follower is None or point.protocol == Protocol.HIGH_WATERMARK:
        return
    if not point.is_recorded:
        return
    yield Heading(f"The steps of KIP-101{_INSTEAD.get(point.protocol, '')}")
    for number, text in _steps(explanation, point, outcome.steps, leader, follower):
        yield Sentence(text, label=f"{number:<{_WIDEST}} ")


_INSTEAD: dict[str, str] = {
    Protocol.KIP_279: " (4.2 to 4.6 as KIP-279 has them, its numbers in brackets)",
    Protocol.TRUNCATE_ON_FETCH: " (4.2 to 4.5 by the fetch itself)",
}


def _steps(
    explanation: Explanation, point: TruncationPoint, steps: Sequence[ExplainedStep], leader: LogState, follower: LogState
) -> Iterator[Told]:
    has_epochs = any(span.leader_epoch >= 0 for side in (explanation.leader, explanation.follower) for span in side.history)
    yield (
        "1",
        "batches carry the leader epoch of who wrote them" if has_epochs else "no batch carries a leader epoch, for want of format v2",
    )
    as_found = [entry for entry in explanation.follower.epochs if entry.checkpoint_start_offset is not None]
    yield "2", f"the sequence file of follower {explanation.follower.broker_id}: {_entries(_claimed(as_found))}"
    if leader.epochs:
        entered = leader.epochs[-1]
        yield "3", f"{leader_name(explanation.verdict)} entered epoch {entered.epoch} at {entered.start_offset}"
    yield "4.1", _recovered(as_found, follower)
    for step in steps:
        yield from asked(explanation, step)
    if point.stuck or point.fetcher_fails:
        return
    is_kip_279 = explanation.verdict.protocol == Protocol.KIP_279
    yield "4.6", f"{'(5) ' if is_kip_279 else ''}it fetches from {point.fetch_offset}"
    learnt = [EpochEntry(entry.epoch, entry.start_offset) for entry in point.learnt_epochs or ()]
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
    if len(said) > _MOST_ENTRIES:
        said = [*said[:2], f"{len(said) - _MOST_ENTRIES} more", *said[-2:]]
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


RULE_HEAD = ("", "", "cut\nto", "round\ntrips", "bytes", "falls\nback", "removed\noffsets", "then")
_PREFERRED = "leave-isr-on-preferred-election"  # its exchange is KIP-101's: what it changes is the election, which only its reason tells


def rule_blocks(explanation: Explanation) -> Iterator[Block]:
    """One row for each protocol and each rejected alternative; why the alternatives would have cut elsewhere."""
    if not explanation.points and not explanation.rejected:
        return
    yield Heading("Under the other protocols (> applies here" + (", x rejected by KIP-279)" if explanation.rejected else ")"))
    yield Rows(RULE_HEAD, rule_rows(explanation))
    if any(point.request_bytes is not None for point in (*explanation.points, *explanation.rejected)):
        yield Sentence(
            "Round trips: questions about epochs. Bytes: of this partition, in questions + in answers. Falls back: to the high "
            "watermark. Removed offsets: from the start of the batch that holds the truncation offset: batches are removed whole."
        )
    cut = None if explanation.applied is None else explanation.applied.truncation_offset
    for rule in explanation.rejected:
        if rule.protocol == _PREFERRED or rule.truncation_offset != cut:
            yield Sentence(f"{rule.protocol}: {rule.reason}")


def rule_rows(explanation: Explanation) -> list[tuple[str, ...]]:
    """The cells below RULE_HEAD: every protocol, then the rejected alternatives."""
    return [_rule_row(point) for point in (*explanation.points, *explanation.rejected)]


def _rule_row(point: TruncationPoint) -> tuple[str, ...]:
    then = (
        "" if point.restart_offset is None else f"restarts at {point.restart_offset}",
        "still differs" if point.still_diverged else "",
        "fetcher fails" if point.fetcher_fails else "",
    )
    return (
        "x" if point.kind is RuleKind.REJECTED else ">" if point.applies else "",
        point.protocol,
        _number(point.truncation_offset),
        _number(point.round_trips if point.epoch_requests is None else point.epoch_requests),
        "" if point.request_bytes is None else f"{point.request_bytes}+{_number(point.response_bytes)}",
        _answer(point.falls_back_to_high_watermark),
        "" if point.removed_offsets is None else str(point.removed_offsets),
        ", ".join(filter(None, then)),
    )


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _answer(value: bool) -> str:
    return "yes" if value else "no"


def observed_blocks(explanation: Explanation) -> Iterator[Block]:
    """What the follower's broker logged that it did, beside what the rule gives."""
    verdict, seen = explanation.verdict, explanation.verdict.observed_truncation_offset
    if seen is None:
        return
    yield Heading(f"What broker {verdict.follower_id} did, according to its server.log")
    cut = verdict.truncation_offset
    if seen == cut:
        yield Sentence(f"It truncated to {seen}, as {verdict.protocol} requires.")
        return
    gives = "no truncation" if cut is None else f"{cut}"
    yield Sentence(f"It truncated to {seen}; {verdict.protocol} gives {gives}.{_same(explanation, seen)}")
    is_known = explanation.applied is not None and explanation.applied.is_recorded
    if is_known and verdict.did_otherwise is None:
        yield Sentence("That alone is not a contradiction: server.log may show another exchange, before or after these copies.")


def _same(explanation: Explanation, seen: int) -> str:
    """The rules that give what was seen."""
    same = [point.protocol for point in explanation.points if point.truncation_offset == seen]
    return f" The same offset: {listed(same)}." if same else ""
