"""Which transactions are open at a log's end, where consumers stand still, and which of them nobody will end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replica_audit.model import Producers, TransactionState
from replica_audit.protocol.transactions.open_transactions import (
    HangsBecause,
    OpenTransaction,
    hanging_sentence,
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


COMPLETE = replace(STATE, start_ms=1_500)  # the last batch was written later than that


@pytest.mark.parametrize(
    ("state", "commits", "may_be"),
    [
        (STATE, [], True),
        (replace(STATE, producer_epoch=4), [], True),  # bumped with the end of the transaction
        (replace(STATE, producer_epoch=5), [], None),  # of another transaction
        (replace(COMPLETE, state="CompleteAbort"), [], False),
        (replace(COMPLETE, state="CompleteAbort", producer_epoch=4), [], False),
        (replace(COMPLETE, state="CompleteAbort", start_ms=2_001), [], None),  # of a later transaction
        (replace(STATE, state="CompleteAbort"), [], None),
        (replace(STATE, state="Ongoing"), [], None),
        (None, [], None),
        (None, [True], True),
        (STATE, [False], False),  # the marker says more than the coordinator
        (replace(STATE, state="CompleteAbort"), [False, True], True),
        (replace(STATE, producer_id=8, previous_producer_id=7, producer_epoch=0), [], True),
        (replace(STATE, producer_id=8, previous_producer_id=7, producer_epoch=1), [], None),
        (replace(STATE, producer_id=6, next_producer_id=7), [], None),  # of the transaction before
    ],
)
def test_whether_it_may_have_been_committed(state: TransactionState | None, commits: list[bool], may_be: bool | None) -> None:
    assert may_be_committed(OPENED, state, commits) is may_be


def test_the_state_of_a_producer_that_has_changed_its_id() -> None:
    before, then = replace(STATE, producer_id=8, previous_producer_id=7), replace(STATE, producer_id=6, next_producer_id=7)
    assert state_of(OPENED, [then, before]) == before
    assert state_of(OPENED, [then]) == then
    assert state_of(OPENED, [then, before, STATE]) == STATE
    assert state_of(OPENED, [replace(STATE, producer_id=8, previous_producer_id=9, next_producer_id=10)]) is None


@pytest.mark.parametrize(
    ("state", "changes", "expected"),
    [
        # its id was used up and another one is in use: the coordinator has completed what it wrote
        (replace(STATE, producer_id=8, producer_epoch=0, previous_producer_id=7), {}, HangsBecause.COORDINATOR_WENT_ON),
        (replace(STATE, producer_id=8, producer_epoch=0, previous_producer_id=7), {"state_is_earlier": False}, None),
        (
            replace(ONGOING, producer_id=8, producer_epoch=0, previous_producer_id=7),
            {"state_is_earlier": False, "marker_is_removed": True},
            HangsBecause.MARKER_REMOVED,
        ),
        # the producer goes on with this id once the transaction before is completed: the state is older than this one
        (replace(STATE, producer_id=6, producer_epoch=32767, state="PrepareCommit", next_producer_id=7), {}, None),
        (
            replace(STATE, producer_id=6, producer_epoch=32767, state="PrepareCommit", next_producer_id=7),
            {"marker_is_removed": True},
            HangsBecause.MARKER_REMOVED,
        ),
        (replace(STATE, producer_id=6, next_producer_id=7), {"known_until_ms": 10**12}, None),
    ],
)
def test_a_producer_that_has_changed_its_id(state: TransactionState, changes: dict[str, Any], expected: HangsBecause | None) -> None:
    given: dict[str, Any] = {"marker_is_removed": False, "state_is_earlier": True, "known_until_ms": None} | changes
    assert hangs_because(OPENED, state, ("t", 0), **given) == expected


def test_the_sentence_of_a_finding() -> None:
    assert hanging_sentence([(10, 7, 3)], 10) == (
        "the transaction from offset 10 (producer 7, epoch 3) hangs: read_committed consumers stop at the last stable offset 10"
    )
    many = hanging_sentence([(offset, 7, 3) for offset in range(10, 17)], 10)
    assert many.startswith("7 transactions hang, from offsets 10 (producer 7, epoch 3), 11 (")
    assert "14 (producer 7, epoch 3) and 2 more: read_committed consumers stop at the last stable offset 10" in many
