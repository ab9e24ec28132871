"""What a cut takes away, measured on batch headers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.model import BatchHeader
from replica_audit.protocol.epochs.replica_log import truncate_batches
from replica_audit.protocol.exchange.cuts import Removal, can_fail_to_append, lies_inside_a_batch, measure_removal, records_in
from replica_audit.protocol.exchange.replay import high_watermark, truncate_on_fetch
from tests.protocol.lineages import batches
from tests.protocol.logs import TIME, Batch, header, state

LOG = [header(1, 0, 10, size_bytes=500), header(2, 11, 25, size_bytes=300, max_timestamp_ms=TIME + 7), header(2, 26, 29, size_bytes=40)]


def _transactional(base: int, last: int, producer: int, *, marker: bool = False) -> BatchHeader:
    return header(1, base, last, is_transactional=True, producer_id=producer, is_control=marker)


@pytest.mark.parametrize(
    ("offset", "physical", "offsets", "records", "size"),
    [
        pytest.param(30, 30, 0, 0, 0, id="at the log end"),
        pytest.param(29, 26, 4, 4, 40, id="at the last offset: the batch goes"),
        pytest.param(26, 26, 4, 4, 40, id="at a batch's start"),
        pytest.param(25, 11, 19, 19, 340, id="at the last offset of a batch"),
        pytest.param(21, 11, 19, 19, 340, id="inside a batch"),
        pytest.param(11, 11, 19, 19, 340, id="at the next batch's start"),
        pytest.param(0, 0, 30, 30, 840, id="everything"),
    ],
)
def test_a_batch_goes_whole(offset: int, physical: int, offsets: int, records: int, size: int) -> None:
    found = measure_removal(LOG, offset, 30)
    assert (found.physical_offset, found.offsets, found.records, found.size_bytes) == (physical, offsets, records, size)


def test_a_cut_in_a_gap_takes_what_follows() -> None:
    found = measure_removal([header(1, 0, 9), header(1, 20, 29)], 15, 30)
    assert (found.physical_offset, found.offsets, found.records) == (15, 15, 10)


def test_nothing_removed_has_no_times() -> None:
    assert measure_removal(LOG, 30, 30) == Removal(
        physical_offset=30, offsets=0, records=0, size_bytes=0, first_timestamp_ms=None, last_timestamp_ms=None, open_producer_ids=()
    )


def test_times_are_the_smallest_and_largest_of_the_removed_batches() -> None:
    found = measure_removal([header(1, 0, 9, max_timestamp_ms=1), *LOG[1:]], 11, 30)
    assert (found.first_timestamp_ms, found.last_timestamp_ms) == (TIME, TIME + 7)
    assert measure_removal([header(1, 0, 9, max_timestamp_ms=0)], 5, 10).first_timestamp_ms == 0, "the epoch of time is a time"


def test_batches_before_the_cut_and_at_or_beyond_the_log_end_do_not_count() -> None:
    """Recovery may have ended the log before its last bytes."""
    assert measure_removal(LOG, 11, 26).records == 15
    assert measure_removal(iter(LOG), 26, 30).records == 4


def test_records_are_counted_by_the_header_and_estimated_without_it() -> None:
    compacted = [header(1, 0, 9, record_count=2), header(1, 10, 19, record_count=0), header(1, 20, 29, record_count=None)]
    assert measure_removal(compacted, 0, 30).records == 12
    assert [records_in(batch) for batch in compacted] == [2, 0, 10]


@pytest.mark.parametrize(
    ("removed", "left_open"),
    [
        pytest.param([_transactional(20, 20, 7, marker=True)], (7,), id="the marker alone goes"),
        pytest.param([_transactional(18, 19, 7), _transactional(20, 20, 7, marker=True)], (7,), id="data and marker go, other data stays"),
        pytest.param([_transactional(18, 19, 9), _transactional(20, 20, 9, marker=True)], (), id="a whole transaction goes"),
        pytest.param([_transactional(18, 20, 7)], (), id="data goes, no marker was there"),
        pytest.param([], (), id="nothing goes"),
        pytest.param([header(1, 18, 20)], (), id="not transactional"),
        pytest.param([header(1, 18, 18, is_control=True, producer_id=7)], (), id="a control batch of no transaction"),
        pytest.param(
            [_transactional(18, 18, 7, marker=True), _transactional(19, 19, 7), _transactional(20, 20, 7, marker=True)],
            (7,),
            id="the marker of the one before, then a whole transaction",
        ),
        pytest.param(
            [_transactional(18, 18, 7, marker=True), _transactional(19, 19, 5, marker=True), _transactional(20, 20, 7, marker=True)],
            (7, 5),
            id="several producers, each once",
        ),
    ],
)
def test_a_marker_that_goes_without_its_data_leaves_the_transaction_open(removed: list[BatchHeader], left_open: tuple[int, ...]) -> None:
    log = [_transactional(0, 9, 7), _transactional(10, 17, 5), *removed]
    assert measure_removal(log, 18, 21).open_producer_ids == left_open


def test_data_below_the_cut_is_of_a_transaction_that_ended_there() -> None:
    log = [_transactional(0, 8, 7), _transactional(9, 9, 7, marker=True), _transactional(18, 19, 7), _transactional(20, 20, 7, marker=True)]
    assert measure_removal(log, 18, 21).open_producer_ids == ()


def test_a_transaction_that_began_in_an_earlier_segment_is_known_by_its_marker_alone() -> None:
    whole = [_transactional(18, 19, 7), _transactional(20, 20, 7, marker=True)]
    assert measure_removal(whole, 18, 21).open_producer_ids == ()
    assert measure_removal(whole[1:], 18, 21).open_producer_ids == (7,)


def test_a_marker_without_data_since_the_last_marker_leaves_nothing_open() -> None:
    log = [_transactional(18, 18, 7), _transactional(19, 19, 7, marker=True), _transactional(20, 20, 7, marker=True)]
    assert measure_removal(log, 18, 21).open_producer_ids == ()


@pytest.mark.parametrize(
    ("offset", "inside"), [(0, False), (1, True), (10, True), (11, False), (12, True), (25, True), (26, False), (30, False)]
)
def test_inside_a_batch(offset: int, inside: bool) -> None:
    assert lies_inside_a_batch(LOG, offset) is inside


def test_inside_no_batch_where_there_is_a_gap() -> None:
    assert not lies_inside_a_batch([header(1, 0, 9), header(1, 20, 29)], 15)
    assert not lies_inside_a_batch([], 0)


def test_the_append_of_a_legacy_batch_does_not_fail_for_its_base() -> None:
    assert not lies_inside_a_batch([header(-1, 0, 9, magic=1)], 5)


def test_a_fetcher_can_fail_only_with_a_log_that_is_kept_and_fetched_for() -> None:
    leader = state([(1, 0), (5, 20)], 30)
    kept = truncate_on_fetch(leader, state([(1, 0)], 25))
    assert can_fail_to_append(kept)
    assert not can_fail_to_append(truncate_on_fetch(leader, state([(3, 0)], 25))), "cut to nothing: the log restarts at the batch"
    restarts = truncate_on_fetch(state([(5, 50)], 80, start=50), state([(1, 0)], 25))
    assert not can_fail_to_append(restarts), "restarted"
    assert not can_fail_to_append(truncate_on_fetch(state([(1, 0)], 31), state([(9, 0)], 20, high_watermark=10))), (
        "no fetch is ever answered"
    )
    assert not can_fail_to_append(replace(kept, stuck=True))
    assert can_fail_to_append(high_watermark(leader, state([], 25, high_watermark=12))), "the fallback keeps what is below it"


@given(batches(), st.integers(0, 40), st.data())
def test_a_removal_is_what_a_truncation_does_not_leave(found: list[Batch], offset: int, data: st.DataObject) -> None:
    end = found[-1][2] + 1 if found else 0
    offset = min(offset, end)
    kept, _end = truncate_batches([(base, last) for _epoch, base, last in found], offset)
    gone = found[len(kept) :]
    headers = [header(*batch) for batch in found]
    skipped = data.draw(st.integers(0, len(kept)))
    removal = measure_removal(headers[skipped:], offset, end)
    assert removal == measure_removal(headers, offset, end), "earlier batches may be left out"
    assert removal.records == sum(last - base + 1 for _epoch, base, last in gone)
    assert removal.size_bytes == 100 * len(gone)
    assert removal.physical_offset == min([offset, *(base for _epoch, base, _last in gone)])
    assert removal.offsets == end - removal.physical_offset
