"""Answers of live leaders against a table: what happens to healthy clusters is never a difference, what is lost always is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.protocol.cluster.epoch_answers import AnswerCause, LeaderNow, LeaderThen, expected, judge
from replica_audit.protocol.epochs.epoch_table import (
    EMPTY,
    EpochEntry,
    EpochTable,
    assign,
    end_offset_for,
    table,
    truncate_from_end,
    truncate_from_start,
)

THEN = LeaderThen(leader_id=1, entries=table([(0, 0), (2, 10), (5, 40)]), log_end_offset=55)
SAME_LEADER = LeaderNow(leader_id=1, leader_epoch=5, log_start_offset=0, compacted=False)
OTHER_LEADER = LeaderNow(leader_id=2, leader_epoch=7, log_start_offset=0, compacted=False)


@pytest.mark.parametrize(
    ("now", "requested", "answer", "cause"),
    [
        (SAME_LEADER, 5, (5, 55), AnswerCause.SAME),
        (SAME_LEADER, 2, (2, 40), AnswerCause.SAME),
        (SAME_LEADER, 3, (2, 40), AnswerCause.SAME),
        (SAME_LEADER, 6, (-1, -1), AnswerCause.SAME),
        (SAME_LEADER, 5, (5, 80), AnswerCause.GREW),
        (OTHER_LEADER, 5, (5, 60), AnswerCause.NEW_EPOCH),
        (OTHER_LEADER, 6, (5, 55), AnswerCause.NEW_EPOCH),
        (OTHER_LEADER, 6, (6, 70), AnswerCause.NEW_EPOCH),
        (replace(SAME_LEADER, log_start_offset=45), 2, (2, 45), AnswerCause.RETENTION),
        (replace(SAME_LEADER, log_start_offset=50), 2, (2, 45), AnswerCause.RETENTION),  # it moved on between the two questions
        (replace(OTHER_LEADER, compacted=True), 2, (0, 40), AnswerCause.COMPACTION),
        # what would excuse it is not known
        (replace(SAME_LEADER, log_start_offset=None), 2, (2, 45), AnswerCause.UNDECIDED),
        (replace(OTHER_LEADER, compacted=None), 2, (0, 40), AnswerCause.UNDECIDED),
        # a log that lost records, or another history
        (SAME_LEADER, 5, (5, 54), AnswerCause.DIFFERS),
        (replace(SAME_LEADER, compacted=None), 5, (5, 54), AnswerCause.DIFFERS),
        (SAME_LEADER, 2, (2, 39), AnswerCause.DIFFERS),
        (SAME_LEADER, 2, (2, 41), AnswerCause.DIFFERS),
        (SAME_LEADER, 2, (0, 40), AnswerCause.DIFFERS),
        (SAME_LEADER, 5, (-1, -1), AnswerCause.DIFFERS),
        (replace(SAME_LEADER, compacted=True), 2, (0, 40), AnswerCause.DIFFERS),
        (replace(SAME_LEADER, log_start_offset=None), 2, (2, 39), AnswerCause.DIFFERS),
        (replace(SAME_LEADER, log_start_offset=44), 2, (2, 45), AnswerCause.DIFFERS),
        (OTHER_LEADER, 6, (6, 54), AnswerCause.DIFFERS),
        (OTHER_LEADER, 6, (2, 55), AnswerCause.DIFFERS),
    ],
)
def test_causes(now: LeaderNow, requested: int, answer: tuple[int, int], cause: AnswerCause) -> None:
    found, why = judge(THEN, now, requested, EpochEntry(*answer))
    assert found is cause, why
    assert bool(why) is (cause is not AnswerCause.SAME)


def test_an_epoch_without_a_record_is_known_to_its_leader_alone() -> None:
    then = replace(THEN, entries=table([(0, 0), (2, 10), (6, 55)]))
    assert judge(then, OTHER_LEADER, 6, EpochEntry(2, 55))[0] is AnswerCause.NEW_EPOCH
    assert judge(then, OTHER_LEADER, 6, EpochEntry(2, 50))[0] is AnswerCause.DIFFERS


@dataclass(frozen=True, slots=True)
class _Log:
    """A leader's log, by Kafka's rules."""

    entries: EpochTable = EMPTY
    start: int = 0
    end: int = 0
    leader: int = 1
    epoch: int = -1

    def led_by(self, leader: int) -> _Log:
        entries = self.entries if leader == self.leader else tuple(one for one in self.entries if one.start_offset < self.end)
        return replace(self, entries=assign(entries, self.epoch + 1, self.end), leader=leader, epoch=self.epoch + 1)

    def grown(self, records: int) -> _Log:
        return replace(self, end=self.end + records)

    def retained(self, share: int) -> _Log:
        start = self.start + (self.end - self.start) * share // 100
        return replace(self, entries=truncate_from_start(self.entries, start), start=start)

    def now(self) -> LeaderNow:
        return LeaderNow(leader_id=self.leader, leader_epoch=self.epoch, log_start_offset=self.start, compacted=False)


_STEP = st.one_of(
    st.tuples(st.just("led_by"), st.integers(1, 3)),
    st.tuples(st.just("grown"), st.integers(1, 20)),
    st.tuples(st.just("retained"), st.integers(0, 100)),
)
_LEADING = st.tuples(st.just("led_by"), st.integers(1, 3))


def _after(log: _Log, steps: list[tuple[str, int]]) -> _Log:
    for name, value in steps:
        log = getattr(log, name)(value)
    return log


@given(_LEADING, st.lists(_STEP, max_size=8), st.lists(_STEP, max_size=8))
def test_a_healthy_history_never_differs(first: tuple[str, int], before: list[tuple[str, int]], since: list[tuple[str, int]]) -> None:
    log = _after(_Log(), [first, *before])
    then = LeaderThen(leader_id=log.leader, entries=log.entries, log_end_offset=log.end)
    now = _after(log, since)
    for epoch in range(now.epoch + 3):
        answer = end_offset_for(now.entries, epoch, now.end)
        cause, why = judge(then, now.now(), epoch, answer)
        assert cause is not AnswerCause.DIFFERS, (epoch, answer, why)
        assert (cause is AnswerCause.SAME) is (answer == expected(then, epoch))


@given(_LEADING, st.lists(_STEP, max_size=8), st.integers(1, 30), st.lists(_STEP.filter(lambda step: step[0] != "retained"), max_size=5))
def test_lost_records_always_differ(first: tuple[str, int], before: list[tuple[str, int]], lost: int, since: list[tuple[str, int]]) -> None:
    log = _after(_Log(), [first, *before]).grown(1)
    then = LeaderThen(leader_id=log.leader, entries=log.entries, log_end_offset=log.end)
    cut = max(log.start, log.end - lost)
    shorter = replace(log, entries=truncate_from_end(log.entries, cut), end=cut)
    now = _after(shorter, [("led_by", 2), *since])
    causes = {judge(then, now.now(), one.epoch, end_offset_for(now.entries, one.epoch, now.end))[0] for one in then.entries}
    assert AnswerCause.DIFFERS in causes
