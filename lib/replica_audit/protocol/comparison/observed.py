"""What a broker did with a replica by its own server.log, compared with what the rule says.

Sources: the messages of AbstractFetcherThread, ReplicaFetcherThread, AbstractFetcherManager, Partition, UnifiedLog (Log until 2.8) and
LogManager from 0.10.2 to 4.2. A leader's answer is told in the line that orders the cut since 3.1; before that only at DEBUG, if at all,
and the cut itself by the log alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import groupby, takewhile
from typing import NamedTuple

from replica_audit.model import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
from replica_audit.protocol.exchange.replay import Step, Truncation
from replica_audit.rows.pairs import ContradictingLine

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def millis_of(time: str) -> int | None:
    """Milliseconds since 1970 of the time of an event, taken as UTC; None for what is none."""
    with suppress(ValueError):
        moment = datetime.strptime(time, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    return None


class EventKind(StrEnum):
    """What a line of a server.log says about one replica.

    `fetcher_added` and `fetcher_removed` tell of a change of role where state.change.logger has a file of its own. `epoch_response` is any
    line that tells the leader's answer and orders nothing by itself. `below_high_watermark` and `high_watermark_fell` are lines about one
    truncation that removes committed records, `truncation_refused` is that a broker exits rather than truncate (unclean elections are
    disabled; until 1.0), and `unclean_election` is the controller's line, which names the elected leader.
    """

    FETCHER_TRUNCATION = "fetcher_truncation"
    HIGH_WATERMARK_TRUNCATION = "high_watermark_truncation"
    MORE_ROUNDS = "more_rounds"
    EPOCH_RESPONSE = "epoch_response"
    OUT_OF_RANGE_RESET = "out_of_range_reset"
    FULL_TRUNCATION = "full_truncation"
    LOG_TRUNCATION = "log_truncation"
    NO_EFFECT = "no_effect"
    BELOW_HIGH_WATERMARK = "below_high_watermark"
    HIGH_WATERMARK_FELL = "high_watermark_fell"
    TRUNCATION_REFUSED = "truncation_refused"
    UNCLEAN_ELECTION = "unclean_election"
    FETCHER_FAILED = "fetcher_failed"
    UNCLEAN_RECOVERY = "unclean_recovery"
    BECAME_LEADER = "became_leader"
    BECAME_FOLLOWER = "became_follower"
    FETCHER_ADDED = "fetcher_added"
    FETCHER_REMOVED = "fetcher_removed"
    LOADED = "loaded"
    RECOVERY_TRUNCATION = "recovery_truncation"


class LogEvent(NamedTuple):
    """What one line says of one replica; None where it does not say.

    `offset` is the one that the line is about: truncated to, started from, or fetched from. `log_end_offset` is where the log ended before
    it, exclusive; `high_watermark` the one before it. `time` is the line's own, `YYYY-MM-DD HH:MM:SS,mmm` in a zone that it does not have,
    or empty: the layout has no date. `line` counts from 1, `byte_offset` from 0 in the uncompressed text. `log_dir` is the log directory of
    a line that the log itself wrote: a replica that is being moved has two. `text` is the beginning of the line. `newest_first`: its file
    has the newest line first. `time_ms`: the same time as milliseconds since 1970, UTC, where the log tells its zone.
    """

    broker_id: int | None
    topic: str
    partition: int
    kind: EventKind
    time: str
    line: int
    byte_offset: int
    leader_id: int | None = None
    offset: int | None = None
    complete: bool | None = None
    answered_epoch: int | None = None
    answered_end_offset: int | None = None
    leader_epoch: int | None = None
    log_end_offset: int | None = None
    log_dir: str | None = None
    high_watermark: int | None = None
    text: str = ""
    path: str = ""
    newest_first: bool = False
    time_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCut:
    """One truncation that a broker logged.

    `event` is the line that ordered it, one of the kind `log_truncation` where only the log told of it and the cause is unknown.
    `effective` is False where the log said that nothing was there to cut. `exchange` numbers the stretches between two loads or changes of
    the leader; `log_end_offset` is where the log ended before the cut, None where the lines do not tell for sure.
    """

    event: LogEvent
    offset: int
    leader_id: int | None
    leader_epoch: int | None
    log_end_offset: int | None
    effective: bool
    exchange: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTruncation:
    """What a broker did with one replica, in the order of its log.

    `cuts` leaves out what was cut to the replica's own high watermark; the last of those is `high_watermark_cut`. `restart_offset` is where
    the log began again after it was truncated fully, `restart` the line that tells it. `fetcher_failed`: fetched records could
    not be appended, and fetching stopped.
    """

    cuts: tuple[ObservedCut, ...]
    high_watermark_cut: ObservedCut | None
    restart_offset: int | None
    fetcher_failed: bool
    restart: ObservedCut | None = None

    @property
    def high_watermark_offset(self) -> int | None:
        """The high watermark that was fallen back to, whether or not that cut anything."""
        return self.high_watermark_cut.offset if self.high_watermark_cut else None

    @property
    def truncation_offset(self) -> int | None:
        """The last offset to which the log was really cut; a restart does not count."""
        return self.last_cut.offset if self.last_cut else None

    @property
    def last_cut(self) -> ObservedCut | None:
        """The last one by which the log was really cut; a restart does not count."""
        effective = [cut for cut in self.cuts if cut.effective]
        fallback = self.high_watermark_cut
        return effective[-1] if effective else fallback if fallback and fallback.effective else None


def observe(events: Iterable[LogEvent]) -> ObservedTruncation:
    """Fold the events of one replica.

    Args:
        events: of one broker and one topic-partition, in the order of the log; rotated files one after the other.
    """
    fold, logged = _Fold(), list(events)
    for event in logged:
        fold.take(event)
    fallback = EventKind.HIGH_WATERMARK_TRUNCATION
    return ObservedTruncation(
        cuts=tuple(cut for cut in fold.cuts if cut.event.kind is not fallback),
        high_watermark_cut=next((cut for cut in reversed(fold.cuts) if cut.event.kind is fallback), None),
        restart_offset=fold.restart.offset if fold.restart else None,
        restart=fold.restart,
        fetcher_failed=any(event.kind is EventKind.FETCHER_FAILED for event in logged),
    )


@dataclass(slots=True)
class _Fold:
    """The state of one replica while its lines are read.

    `answer` waits for the log to say what came of it; with `awaits` the last cut does, which is taken down when the fetcher orders it.
    """

    cuts: list[ObservedCut] = field(default_factory=list)
    restart: ObservedCut | None = None
    answer: LogEvent | None = None
    awaits: bool = False
    exchange: int = 0
    leader_id: int | None = None
    leader_epoch: int | None = None
    log_end_offset: int | None = None
    log_dir: str | None = None
    fetched: bool = False
    removed: bool = False

    def take(self, event: LogEvent) -> None:
        self.log_dir = event.log_dir if self.log_dir is None or event.kind is EventKind.LOADED else self.log_dir
        if event.log_dir not in (None, self.log_dir):
            return  # of the copy that the replica is being moved to
        if event.log_end_offset is not None:
            self.log_end_offset = event.log_end_offset
        match event.kind:
            case EventKind.FETCHER_TRUNCATION | EventKind.HIGH_WATERMARK_TRUNCATION | EventKind.OUT_OF_RANGE_RESET:
                self.ordered(event)
            case EventKind.LOG_TRUNCATION | EventKind.NO_EFFECT:
                self.logged(event)
            case EventKind.EPOCH_RESPONSE:
                self.answer = event._replace(complete=True)
            case EventKind.MORE_ROUNDS:
                self.answer = (self.answer or event)._replace(complete=False, offset=event.offset)
            case EventKind.FULL_TRUNCATION:
                self.restart, self.answer, self.awaits, self.log_end_offset = self._made(event, effective=True), None, False, None
            case EventKind.FETCHER_REMOVED:  # comes with every change: the second in a row was the end of leading
                self.log_end_offset = None if self.removed else self.log_end_offset
                self.removed = True
            case EventKind.LOADED | EventKind.BECAME_LEADER | EventKind.BECAME_FOLLOWER | EventKind.FETCHER_ADDED:
                self.changed(event)

    def changed(self, event: LogEvent) -> None:
        """The log was loaded, or the leader changed. Where the log ends stays known until records can have come."""
        is_new = event.leader_epoch is None or event.leader_epoch != self.leader_epoch
        if is_new:
            self.exchange += 1
            self.answer, self.awaits = None, False
        self.leader_id, self.leader_epoch = event.leader_id, event.leader_epoch
        fetches = event.kind is EventKind.FETCHER_ADDED
        if event.kind is EventKind.BECAME_LEADER or (fetches and self.fetched and is_new):
            self.log_end_offset = None
        self.fetched, self.removed = fetches, fetches and self.removed

    def ordered(self, event: LogEvent) -> None:
        """The fetcher said what it cuts to. An undefined answer leaves it the offset where it stands: its high watermark."""
        if event.answered_end_offset == UNDEFINED_EPOCH_OFFSET:
            event = event._replace(kind=EventKind.HIGH_WATERMARK_TRUNCATION)
        if not (self.awaits and (self.cuts[-1].event.kind, self.cuts[-1].offset) == (event.kind, event.offset)):
            self._cut(event, effective=event.kind is not EventKind.HIGH_WATERMARK_TRUNCATION)
            self.awaits = True

    def logged(self, event: LogEvent) -> None:
        """The log said that it was cut, or that there was nothing to cut."""
        effective = event.kind is EventKind.LOG_TRUNCATION
        if self.awaits and self.cuts[-1].offset == event.offset:
            self.cuts[-1] = replace(self.cuts[-1], effective=effective)
            self.log_end_offset = event.offset if self.cuts[-1].event.complete is False else None
        elif self.answer is not None and self.answer.offset in (None, event.offset):
            self._cut(
                self.answer._replace(offset=event.offset, line=event.line, time=event.time, time_ms=event.time_ms, path=event.path),
                effective=effective,
            )
        elif effective:
            self._cut(event, effective=True)
        self.answer, self.awaits = None, False

    def _cut(self, event: LogEvent, *, effective: bool) -> None:
        self.cuts.append(self._made(event, effective=effective))
        self.answer = None
        self.log_end_offset = event.offset if event.complete is False else None  # records flow once it is complete

    def _made(self, event: LogEvent, *, effective: bool) -> ObservedCut:
        return ObservedCut(
            event=event,
            offset=event.offset or 0,
            leader_id=self.leader_id if event.leader_id is None else event.leader_id,
            leader_epoch=self.leader_epoch,
            log_end_offset=self.log_end_offset,
            effective=effective,
            exchange=self.exchange,
        )


def agrees(
    observed: ObservedTruncation,
    truncation: Truncation,
    log_end_offset: int,
    *,
    leader_id: int | None = None,
    leader_epoch: int | None = None,
    after_copy: bool = False,
) -> ContradictingLine | None:
    """Hold what a broker logged against the rule. Returns None, or what differs.

    What can have another reason proves nothing: cuts without effect; cuts to the high watermark, which moves between copy and start; cuts
    after OFFSET_OUT_OF_RANGE, which go to the leader's end of that moment; restarts; missing lines; cuts beyond the rule's, which a later
    leader orders; an exchange that did not, by the log's own lines, start from `log_end_offset` under this leader, or is not the only such
    one. A leader's answer for an epoch rises while the epoch is written and while retention takes earlier ones, and never falls: a cut
    above the rule's counts only where the leader is known to have answered the same.

    Args:
        observed: of the follower.
        truncation: the rule's, for a follower whose log ends at `log_end_offset`.
        log_end_offset: of the follower, exclusive.
        leader_id: the leader that the rule took, if known.
        leader_epoch: in which epoch it leads, if known.
        after_copy: the lines are younger than the files. Without that a cut where the rule has none is taken for an older one.
    """
    cuts = _comparable(observed.cuts, log_end_offset, (leader_id, leader_epoch))
    steps = [step for step in truncation.steps if step.truncate_to is not None]
    if truncation.falls_back_to_high_watermark and any(cut.event.kind is EventKind.LOG_TRUNCATION for cut in cuts):
        return None
    if cuts and not steps and after_copy and truncation.restart_offset is None and not truncation.stuck:
        return _contradiction(cuts[0], None)
    for cut in cuts:
        same = [
            i for i, step in enumerate(steps) if step.truncate_to == cut.offset and (i == 0 or cut.event.complete in (None, step.complete))
        ]
        if not same:
            return _contradiction(cut, steps[0].truncate_to) if steps and _contradicts(cut, steps) else None
        steps = steps[same[0] + 1 :]
    return None


def _contradiction(cut: ObservedCut, rule_offset: int | None) -> ContradictingLine:
    return ContradictingLine(offset=cut.offset, path=cut.event.path, line=cut.event.line, rule_offset=rule_offset)


def _comparable(cuts: Sequence[ObservedCut], log_end_offset: int, leader: tuple[int | None, int | None]) -> list[ObservedCut]:
    """The effective cuts of the one exchange that started from this log end under this leader, up to one that hangs on the moment."""
    exchanges = [list(group) for _, group in groupby((cut for cut in cuts if cut.effective), key=lambda cut: cut.exchange)]
    started = [
        exchange
        for exchange in exchanges
        if exchange[0].log_end_offset == log_end_offset > exchange[0].offset
        and all(None in pair or pair[0] == pair[1] for pair in zip(leader, (exchange[0].leader_id, exchange[0].leader_epoch), strict=True))
    ]
    return list(takewhile(lambda cut: cut.event.kind is not EventKind.OUT_OF_RANGE_RESET, started[0])) if len(started) == 1 else []


def _contradicts(cut: ObservedCut, steps: Sequence[Step]) -> bool:
    line = cut.event
    same_answer = line.answered_end_offset is not None and any(
        line.answered_end_offset == step.answered_end_offset and line.answered_epoch in (None, UNDEFINED_EPOCH, step.answered_epoch)
        for step in steps
    )
    alike = [step.truncate_to or 0 for step in steps if line.complete in (None, step.complete)]
    return same_answer or cut.offset < min(alike, default=0)
