"""The exchange between a follower and its leader in words: who asks what, what is answered, what the follower does, by which rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from replica_audit.report.facts.exchange_steps import Exchange, ExplainedStep
from replica_audit.report.facts.explanation import Explanation
from replica_audit.report.layout.leader_words import leader_name
from replica_audit.report.layout.paragraphs import epoch, paragraph
from replica_audit.rows.codes import Case, FallsBack, OutOfRange, Protocol
from replica_audit.rows.pair_structs import RefusedFetch
from replica_audit.rows.pairs import TruncationPoint

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


def exchange_lines(explanation: Explanation) -> Iterator[str]:
    """The exchange under the protocol that applies."""
    point, outcome = explanation.applied, explanation.outcome
    document = DOCUMENTS.get(explanation.verdict.protocol)
    yield f"The exchange ({document or explanation.verdict.protocol})"
    if point is None or outcome is None:
        yield from paragraph("None: an exchange needs two readable logs.")
        return
    if not outcome.is_recorded:
        yield from paragraph(NOT_RECORDED)
        return
    words = StepWords(explanation, point)
    for step in outcome.exchange.steps:
        yield from words.step(step)
    yield from words.end(outcome.exchange)


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

    def step(self, step: ExplainedStep) -> Iterator[str]:
        """A step, in lines."""
        first = "fallback " if step.number is None else f"round {step.number}  "
        said = [] if step.number is None else [f"{self.follower} {self.asks(step)}", f"{self.leader} answers {self.answer(step)}"]
        said.append(f"{self.follower} {self.does(step)}")
        if step.case is not Case.UNDEFINED:  # the fallback that follows has the rule
            said.append(f"rule: {' ('.join(self.rule(step))})")
        for number, text in enumerate(said):
            yield from paragraph(text, first=first if not number else " " * len(first))

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

    def end(self, exchanged: Exchange) -> Iterator[str]:
        """How it ends, in lines."""
        for said in self.ending(exchanged):
            yield from paragraph(said)

    def ending(self, exchanged: Exchange) -> Iterator[str]:
        """How it ends."""
        at = exchanged.fetch_offset
        if at is None:
            return
        if exchanged.stuck and self.stuck is None and not self.point.ends_with_election:
            yield (
                "In the copied files this never ends. That proves nothing about the brokers: on a running one, table and log may "
                "be newer than their copies."
            )
        elif exchanged.stuck and self.stuck is None:
            yield (
                "This never ends with the leader's present table. The leader is down, and starts a new epoch when it leads again: then it "
                "answers differently."
            )
        elif exchanged.stuck:
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
