"""Which transactions are open at a log's end, where consumers stand still, and which of them nobody will end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replica_audit.model import Producers, TransactionState
from replica_audit.protocol.transactions.open_transactions import (
    HangsBecause,
    OpenTransaction,
    hangs_because,
    last_stable_offset,
    may_be_committed,
    open_transactions,
    state_of,
)
from replica_audit.protocol.transactions.producer_spans import joined, of_batch

MINUTE = 60_000
OPENED = OpenTransaction(
    producer_id=7, producer_epoch=3, first_offset=10, last_offset=14, first_timestamp_ms=1_000, last_timestamp_ms=2_000
)
STATE = TransactionState(
    transactional_id="t",
    producer_id=7,
    producer_epoch=3,
    timeout_ms=60 * MINUTE,
    state="CompleteCommit",
    partitions=(),
    last_update_ms=5_000,
    start_ms=-1,
)
ONGOING = replace(STATE, state="Ongoing", partitions=(("t", 0),))


def data(producer: int, offset: int, sequence: int, epoch: int = 0) -> Any:
    return of_batch(producer, epoch, sequence, offset, offset + 1, 2, 1_000 + offset, 1, 0)


def marker(producer: int, offset: int, epoch: int = 0) -> Any:
    return of_batch(producer, epoch, -1, offset, offset, 1, 1_000 + offset, 1, 1)


def test_what_is_open() -> None:
    of_seven = joined(joined(data(7, 0, 0), marker(7, 4)), data(7, 5, 2))
    spans = (of_seven, data(8, 2, 0), joined(data(9, 7, 0), marker(9, 9)))
    found = open_transactions(Producers(spans, (), 0))
    assert found is not None
    assert [(one.producer_id, one.first_offset, one.last_offset, one.first_timestamp_ms) for one in found] == [
        (8, 2, 3, 1_002),
        (7, 5, 6, 1_005),
    ]
    assert last_stable_offset(found, 0, 10) == 2
    assert last_stable_offset(found, 3, 10) == 3, "the log start moved into the transaction"
    assert last_stable_offset((), 0, 10) == 10


def test_what_is_not_known_is_not_none_open() -> None:
    assert open_transactions(None) is None
    assert open_transactions(Producers((), (), 1)) is None


@pytest.mark.parametrize(
    ("state", "changes", "expected"),
    [
        (None, {}, None),
        (None, {"marker_is_removed": True}, HangsBecause.MARKER_REMOVED),
        (STATE, {"marker_is_removed": True}, HangsBecause.MARKER_REMOVED),
        (replace(STATE, state="PrepareCommit"), {"marker_is_removed": True}, None),  # it writes the marker again
        (replace(STATE, state="PrepareAbort", producer_epoch=4), {}, None),
        (ONGOING, {"marker_is_removed": True, "known_until_ms": 10**12}, None),
        (replace(STATE, producer_epoch=4), {}, HangsBecause.COORDINATOR_WENT_ON),
        (replace(STATE, producer_epoch=4), {"state_is_earlier": False}, None),  # the marker may have come after the copy
        (replace(ONGOING, producer_epoch=4), {}, HangsBecause.COORDINATOR_WENT_ON),
        (STATE, {}, None),
        (STATE, {"known_until_ms": 2_000 + 65 * MINUTE}, None),
        (STATE, {"known_until_ms": 2_001 + 65 * MINUTE}, HangsBecause.PAST_TIMEOUT),
        (STATE, {"known_until_ms": 2_001 + 65 * MINUTE, "state_is_earlier": False}, None),
        (replace(STATE, timeout_ms=1), {"known_until_ms": 2_001 + 20 * MINUTE}, HangsBecause.PAST_TIMEOUT),
        (replace(ONGOING, partitions=(("t", 1),)), {"known_until_ms": 10**12}, HangsBecause.PAST_TIMEOUT),
        (None, {"known_until_ms": 10**12}, None),  # a timeout of days is the producer's right
    ],
)
def test_who_will_end_it(state: TransactionState | None, changes: dict[str, Any], expected: HangsBecause | None) -> None:
    given: dict[str, Any] = {"marker_is_removed": False, "state_is_earlier": True, "known_until_ms": None} | changes
    assert hangs_because(OPENED, state, ("t", 0), **given) == expected


def test_the_state_of_the_producer() -> None:
    other, older = replace(STATE, producer_id=8), replace(STATE, producer_epoch=2, last_update_ms=9_000)
    assert state_of(OPENED, [older, other, STATE]) == STATE
    assert state_of(OPENED, [other]) is None


@pytest.mark.parametrize(
    ("state", "epoch", "may_be"),
    [
        ("CompleteCommit", 3, True),
        ("CompleteCommit", 4, True),  # bumped with the end of the transaction
        ("CompleteCommit", 5, False),  # of another transaction
        ("CompleteAbort", 3, False),
        ("Ongoing", 3, False),
        (None, None, False),
    ],
)
def test_whether_it_may_have_been_committed(state: str | None, epoch: int | None, may_be: bool) -> None:
    assert may_be_committed(3, state, epoch) is may_be
