"""How the transactions of lost records ended, held against a count that looks at each record alone."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.model import BatchHeader, Producers
from replica_audit.protocol.epochs.lineage import Span
from replica_audit.protocol.salvage import may_have_transactions, records_by_transaction
from replica_audit.protocol.transactions.producer_spans import of_batch
from replica_audit.rows.pairs import RecordsByTransaction
from tests.protocol.logs import header

COMMIT, ABORT, UNREAD = "committed", "aborted", "unknown"
IS_ABORT = {COMMIT: False, ABORT: True, UNREAD: None}
# producer id (-1: no transaction), how many records, and of a marker what it says
Made = tuple[int, int, str | None]
BATCHES = st.lists(
    st.one_of(
        st.tuples(st.integers(-1, 2), st.integers(1, 4), st.none()),
        st.tuples(st.integers(0, 2), st.just(1), st.sampled_from([COMMIT, ABORT, UNREAD])),
    ),
    max_size=20,
)


def log_of(made: list[Made]) -> list[tuple[BatchHeader, bool | None]]:
    found, at = [], 0
    for producer, size, marker in made:
        one = header(1, at, at + size - 1, is_transactional=producer >= 0, producer_id=producer, is_control=marker is not None)
        found.append((one, None if marker is None else IS_ABORT[marker]))
        at += size
    return found


def counted_alone(made: list[Made], spans: list[Span], *, is_end_known: bool) -> Counter[str]:
    records = [(producer, marker) for producer, size, marker in made for _ in range(size)]
    found: Counter[str] = Counter()
    for offset, (producer, marker) in enumerate(records):
        if not any(span.first_offset <= offset < span.end_offset for span in spans):
            continue
        ends = (said for one, said in records[offset:] if said is not None and one == producer)
        default = "open" if is_end_known else "unknown"
        found["markers" if marker else "plain" if producer < 0 else next(ends, default)] += 1
    return found


@given(BATCHES, st.lists(st.integers(0, 60), max_size=6, unique=True).map(sorted), st.booleans())
def test_each_record_is_counted_as_if_it_were_alone(made: list[Made], edges: list[int], is_end_known: bool) -> None:
    log, spans = log_of(made), [Span(1, *edge) for edge in zip(edges[::2], edges[1::2], strict=False)]
    end = log[-1][0].last_offset + 1 if log else 0
    found = records_by_transaction(log, spans, end, is_end_known=is_end_known)
    expected = RecordsByTransaction(**counted_alone(made, spans, is_end_known=is_end_known))
    assert found == expected
    assert found.total == sum(min(span.end_offset, end) - span.first_offset for span in spans if span.first_offset < end)


def test_what_lies_behind_the_end_of_the_log_ends_nothing() -> None:
    log = log_of([(0, 3, None), (0, 1, COMMIT)])
    whole = [Span(1, 0, 4)]
    assert records_by_transaction(log, whole, 4, is_end_known=True) == RecordsByTransaction(committed=3, markers=1)
    assert records_by_transaction(log, whole, 3, is_end_known=True) == RecordsByTransaction(open=3)


def test_no_more_is_read_than_tells_something() -> None:
    left = iter(log_of([(-1, 2, None), (0, 2, None), (0, 1, COMMIT), (1, 1, None), (-1, 5, None)]))
    assert records_by_transaction(left, [Span(1, 0, 3)], 11, is_end_known=True) == RecordsByTransaction(plain=2, committed=1)
    assert [one.base_offset for one, _marker in left] == [6], "it stops at the first batch behind the marker"


@pytest.mark.parametrize(
    ("made", "expected"),
    [(None, True), ((False, False, 0), False), ((True, False, 0), True), ((True, True, 0), True), ((False, False, 1), True)],
)
def test_where_a_log_may_have_transactions(made: tuple[bool, bool, int] | None, expected: bool) -> None:
    span = None if made is None else of_batch(7, 0, 0, 10, 12, 3, 1000, *made[:2])
    producers = None if span is None or made is None else Producers((span,), (), made[2])
    assert may_have_transactions(producers, 5) is expected
    assert may_have_transactions(producers, 13) is (producers is None or producers.untold_batches > 0), "all of it lies below"
