"""Indexes of aborted transactions against their segment."""

from __future__ import annotations

import pytest

from replica_audit.model import AbortedTransaction, BatchHeader
from replica_audit.protocol.transactions.producer_spans import index_contradictions
from tests.protocol.logs import header

Item = tuple[BatchHeader, bool | None]


def data(producer: int, base: int, last: int) -> Item:
    return header(0, base, last, producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True), None


def marker(producer: int, offset: int, *, aborts: bool) -> Item:
    return header(0, offset, offset, producer_id=producer, producer_epoch=0, is_transactional=True, is_control=True), aborts


LOG = [
    data(7, 0, 3),
    data(8, 4, 4),
    data(7, 5, 6),
    marker(7, 7, aborts=True),
    data(7, 8, 8),
    marker(8, 9, aborts=False),
    marker(7, 10, aborts=True),
    marker(9, 11, aborts=True),
]
INDEX = [AbortedTransaction(7, 0, 7, 4), AbortedTransaction(7, 8, 10, 11)]


def told(
    entries: list[AbortedTransaction], *, log: list[Item] = LOG, opened: dict[int, int] | None = None, start: int = 0, sealed: bool = True
) -> list[str]:
    return list(index_contradictions(entries, log, opened or {}, log_start_offset=start, is_sealed=sealed))


def test_an_index_that_agrees() -> None:
    """A marker without records has no entry."""
    assert told(INDEX) == []


def test_a_transaction_that_began_in_an_earlier_segment() -> None:
    entry = AbortedTransaction(9, -50 + 100, 11, 12)
    assert told([*INDEX, entry], opened={9: 50}) == []
    assert len(told(INDEX, opened={9: 50})) == 1
    assert told([*INDEX, AbortedTransaction(9, 2, 11, 12)], start=5) == [], "it began below the log start"


WRONG = {
    "another marker": (AbortedTransaction(8, 4, 9, 10), "aborted at offset 9, where the log has a COMMIT marker of it"),
    "no marker": (AbortedTransaction(8, 4, 8, 10), "aborted at offset 8, where the log has no ABORT marker of it"),
    "another producer": (AbortedTransaction(6, 0, 7, 4), "producer 6 aborted at offset 7, where the log has no ABORT marker of it"),
    "another beginning": (AbortedTransaction(7, 5, 7, 4), "began at offset 5, by the log at 0"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_entry_that_is_wrong(name: str) -> None:
    entry, detail = WRONG[name]
    kept = [one for one in INDEX if one.last_offset != entry.last_offset]
    (found,) = told(sorted([*kept, entry], key=lambda one: one.last_offset))
    assert detail in found


def test_an_entry_that_is_missing() -> None:
    (found,) = told(INDEX[1:])
    assert found.startswith("the transaction of producer 7 that aborted at offset 7 is not in it")


def test_copies_of_other_moments() -> None:
    """The index may be older than the newest segment, and the segment older than the index."""
    assert told(INDEX[:1], sealed=False) == []
    assert len(told(INDEX[:1], sealed=True)) == 1
    assert told(INDEX, log=LOG[:5]) == []
