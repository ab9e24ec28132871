"""Which removed records are for a replay, and how the transactions of a part of a log began and ended."""

from __future__ import annotations

import pytest

from replica_audit.model import BatchHeader
from replica_audit.protocol.salvage import (
    UNKNOWN_OFFSET,
    EarlierStarts,
    KeptBack,
    LeadersKey,
    OnLeader,
    TransactionEnds,
    TransactionOutcome,
    TransactionSpan,
    is_newer,
    kept_back,
)

OPEN, COMMITTED, ABORTED, NONE = (TransactionOutcome(name) for name in ("open", "committed", "aborted", "none"))


@pytest.mark.parametrize(
    ("on_leader", "transaction", "newer", "expected"),
    [
        (OnLeader.OTHER, NONE, False, None),
        (OnLeader.MISSING, COMMITTED, False, None),
        (OnLeader.MISSING, COMMITTED, True, KeptBack.NEWER_ON_LEADER),
        (OnLeader.SAME, NONE, True, KeptBack.ON_LEADER),
        (OnLeader.RESENT, OPEN, False, KeptBack.ON_LEADER),
        (OnLeader.OTHER, ABORTED, True, KeptBack.ABORTED),
        (OnLeader.OTHER, OPEN, False, KeptBack.OPEN),
        (OnLeader.BELOW_LOG_START, NONE, False, KeptBack.BELOW_LOG_START),
        (OnLeader.UNKNOWN, NONE, False, KeptBack.LEADER_UNKNOWN),
    ],
)
def test_what_is_kept_back(on_leader: OnLeader, transaction: TransactionOutcome, newer: bool, expected: KeptBack | None) -> None:
    assert kept_back(on_leader, transaction, has_newer_key=newer) == expected


@pytest.mark.parametrize(
    ("leaders", "own", "expected"),
    [
        ((5, 100), (4, 200), True),  # a later leader wrote later, whatever the clocks say
        ((3, 300), (4, 200), False),
        ((4, 200), (4, 200), True),
        ((4, 199), (4, 200), False),
        ((-1, 199), (-1, 200), False),
        ((-1, 201), (4, 200), True),
        ((-1, -1), (-1, -1), True),  # nothing tells: no value is rolled back
    ],
)
def test_which_of_two_values_is_newer(leaders: tuple[int, int], own: tuple[int, int], expected: bool) -> None:
    key = LeadersKey(offset=9, leader_epoch=leaders[0], timestamp_ms=leaders[1])
    assert is_newer(key, *own) is expected


def batch(base: int, producer: int, *, sequence: int = 5, control: bool = False, count: int = 1, transactional: bool = True) -> BatchHeader:
    return BatchHeader(0, base, base + count - 1, 100, 2, 1, count, 1000, 0, None, "none", transactional, control, producer, 0, sequence)


def marker(base: int, producer: int) -> BatchHeader:
    return batch(base, producer, control=True)


def test_a_marker_ends_the_transaction_of_its_producer_alone() -> None:
    ends = TransactionEnds()
    for one, aborts in (
        (batch(10, 1, sequence=0, count=3), None),
        (batch(13, 2, sequence=7), None),
        (batch(14, 1, sequence=3), None),
        (marker(15, 1), False),
        (batch(16, 1), None),
        (batch(17, 3, transactional=False), None),
        (marker(18, 1), True),
        (batch(19, 1), None),
    ):
        ends.add(one, aborts)
    assert ends.of(1, 11) == ends.of(1, 14) == TransactionSpan(10, 15, COMMITTED)
    assert ends.of(1, 16) == TransactionSpan(16, 18, ABORTED)
    assert ends.of(1, 19) == TransactionSpan(19, UNKNOWN_OFFSET, OPEN)
    assert ends.of(2, 13) == TransactionSpan(UNKNOWN_OFFSET, UNKNOWN_OFFSET, OPEN)
    assert (ends.open_producers, ends.unknown_starts) == ({1, 2}, {2})
    ends.settle_starts({2: 4}.get)
    assert ends.of(2, 13).first_offset == 4


def test_a_transaction_is_followed_back_as_far_as_it_goes() -> None:
    starts = EarlierStarts({1, 2, 3, 4})
    for one in (batch(50, 1), marker(55, 2), batch(56, 2), batch(57, 3), marker(58, 3)):
        starts.add(one)
    starts.end_segment()
    assert (starts.found, starts.wanted) == ({1: 50, 2: 56}, {1, 4})
    for one in (batch(30, 1), batch(31, 1), batch(32, 4), marker(33, 4), batch(34, 4)):
        starts.add(one)
    starts.end_segment()
    assert (starts.found, starts.wanted) == ({1: 30, 2: 56, 4: 34}, {1})
    starts.add(marker(20, 1))
    starts.end_segment()
    assert (starts.found[1], starts.wanted) == (30, set())
