"""The epoch table by the rules of LeaderEpochFileCache: 2.0 and later, and 0.11 to 1.1."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.protocol.epochs import epoch_table as et
from tests.protocol.lineages import partitions, tables
from tests.protocol.logs import Pairs

THREE = ((1, 0), (2, 5), (3, 9))
GAP = ((2, 10), (5, 20), (9, 30))


@pytest.mark.parametrize(
    ("before", "epoch", "start", "after"),
    [
        pytest.param((), 0, 0, ((0, 0),), id="epoch 0 is a real epoch"),
        pytest.param(((2, 9),), 3, 9, ((3, 9),), id="equal start: the older epoch wrote nothing"),
        pytest.param(((1, 5), (2, 6)), 1, 7, ((1, 7),), id="an old epoch again: its start moves up"),
        pytest.param(THREE, 5, 4, ((1, 0), (5, 4)), id="later epoch, earlier start"),
        pytest.param(THREE, 3, 12, THREE, id="same epoch, later start: ignored"),
        pytest.param(THREE, 3, 9, THREE, id="same epoch, same start: ignored"),
        pytest.param(THREE, 3, 7, ((1, 0), (2, 5), (3, 7)), id="same epoch, earlier start: moves down"),
        pytest.param(THREE, 3, 5, ((1, 0), (3, 5)), id="same epoch, earlier start: conflicting entries go"),
        pytest.param(THREE, 1, 20, ((1, 20),), id="lower epoch, higher start: all from it on go, its own entry too"),
        pytest.param(THREE, 4, 10, (*THREE, (4, 10)), id="ordinary"),
        pytest.param(THREE, 4, 0, ((4, 0),), id="nothing is below the new start"),
    ],
)
def test_assign(before: Pairs, epoch: int, start: int, after: Pairs) -> None:
    assert et.assign(et.table(before), epoch, start) == tuple(after)


@pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (0, -1)])
def test_assign_refuses_what_kafka_refuses(epoch: int, start: int) -> None:
    with pytest.raises(ValueError, match="negative"):
        et.assign(et.EMPTY, epoch, start)


@pytest.mark.parametrize(
    ("lines", "loaded"),
    [
        pytest.param((), (), id="empty"),
        pytest.param(THREE, THREE, id="in order"),
        pytest.param(((3, 9), (1, 0), (2, 5)), ((1, 0), (2, 5)), id="out of order: the later line wins"),
        pytest.param(((1, 0), (2, 9), (3, 5)), ((1, 0), (3, 5)), id="decreasing starts"),
        pytest.param(((1, 5), (2, 5)), ((2, 5),), id="two epochs of one start"),
    ],
)
def test_load_heals(lines: Pairs, loaded: Pairs) -> None:
    assert et.load(lines) == tuple(loaded)


def test_load_refuses_a_negative_line() -> None:
    with pytest.raises(ValueError, match="negative"):
        et.load([(0, 0), (-1, 3)])


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        pytest.param(9, ((1, 0), (2, 5)), id="exactly at a start: that entry goes"),
        pytest.param(10, THREE, id="one above a start: it stays, though no record is left"),
        pytest.param(5, ((1, 0),), id="two go"),
        pytest.param(0, (), id="all go"),
        pytest.param(-1, THREE, id="undefined: nothing"),
        pytest.param(99, THREE, id="above everything"),
    ],
)
def test_truncate_from_end(offset: int, left: Pairs) -> None:
    assert et.truncate_from_end(et.table(THREE), offset) == tuple(left)


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        pytest.param(5, ((2, 5), (3, 9)), id="exactly at a start: that entry becomes the first"),
        pytest.param(7, ((2, 7), (3, 9)), id="inside: the covering epoch moves up"),
        pytest.param(40, ((3, 40),), id="beyond the last: the last epoch survives there"),
        pytest.param(-1, THREE, id="undefined: nothing"),
        pytest.param(0, THREE, id="at the first start"),
    ],
)
def test_truncate_from_start(offset: int, left: Pairs) -> None:
    assert et.truncate_from_start(et.table(THREE), offset) == tuple(left)


def test_truncate_from_start_below_the_first_entry_keeps_it_where_it_is() -> None:
    assert et.truncate_from_start(et.table(GAP), 4) == GAP
    assert et.truncate_from_start(et.EMPTY, 4) == et.EMPTY


@pytest.mark.parametrize(
    ("requested", "answer"),
    [
        pytest.param(-1, (-1, -1), id="undefined"),
        pytest.param(9, (9, 40), id="latest: the log end"),
        pytest.param(10, (-1, -1), id="above the latest: undefined, never the log end"),
        pytest.param(1, (1, 10), id="below the first: echoed with the first start"),
        pytest.param(0, (0, 10), id="epoch 0 below the first"),
        pytest.param(-2, (-2, 10), id="any other negative is an epoch below the first"),
        pytest.param(2, (2, 20), id="known"),
        pytest.param(3, (2, 20), id="in a gap: the floor with the start of the next"),
        pytest.param(8, (5, 30), id="in the last gap"),
    ],
)
def test_end_offset_for(requested: int, answer: tuple[int, int]) -> None:
    assert et.end_offset_for(et.table(GAP), requested, 40) == answer


@pytest.mark.parametrize("requested", [-1, 0, 7])
def test_an_empty_table_knows_no_end(requested: int) -> None:
    assert et.end_offset_for(et.EMPTY, requested, 40) == et.UNDEFINED
    assert et.kip101_end_offset_for(et.EMPTY, requested, 40) == -1


def test_the_end_of_the_latest_epoch_is_not_held_against_its_start() -> None:
    assert et.end_offset_for(et.table([(1, 0), (2, 50)]), 2, 40) == (2, 40)


@pytest.mark.parametrize(
    ("requested", "answer"),
    [
        pytest.param(-1, -1, id="undefined"),
        pytest.param(9, 40, id="latest: the log end"),
        pytest.param(10, -1, id="above the latest"),
        pytest.param(1, -1, id="below the first: undefined, not the first start"),
        pytest.param(2, 20, id="known"),
        pytest.param(3, 20, id="in a gap: the start of the next, of whatever epoch"),
    ],
)
def test_kip101_end_offset_for(requested: int, answer: int) -> None:
    assert et.kip101_end_offset_for(et.table(GAP), requested, 40) == answer


@pytest.mark.parametrize(
    ("epoch", "start", "after"),
    [
        pytest.param(4, 9, (*THREE, (4, 9)), id="equal start allowed"),
        pytest.param(4, 8, THREE, id="earlier start: ignored"),
        pytest.param(3, 20, THREE, id="known epoch: ignored"),
        pytest.param(2, 20, THREE, id="lower epoch: ignored"),
    ],
)
def test_kip101_assign(epoch: int, start: int, after: Pairs) -> None:
    assert et.kip101_assign(et.table(THREE), epoch, start) == tuple(after)


def test_kip101_assign_to_an_empty_table_and_of_a_negative_epoch() -> None:
    assert et.kip101_assign(et.EMPTY, 0, 7) == ((0, 7),)
    with pytest.raises(ValueError, match="negative"):
        et.kip101_assign(et.EMPTY, -1, 0)


@pytest.mark.parametrize(("offset", "epoch"), [(9, None), (10, 2), (19, 2), (20, 5), (99, 9)])
def test_epoch_for_offset(offset: int, epoch: int | None) -> None:
    assert et.epoch_for_offset(et.table(GAP), offset) == epoch


def test_entries_in_range_begin_at_the_range() -> None:
    assert et.entries_in_range(et.table(GAP), 15, 30) == ((2, 15), (5, 20))


def test_an_append_of_an_old_format_clears_the_table_and_recovery_only_adds() -> None:
    known = et.table(THREE)
    assert et.appended(known, -1, 12, magic=1) == et.EMPTY
    assert et.appended(known, 4, 12, magic=2) == (*THREE, (4, 12))
    assert et.appended(known, -1, 12, magic=2) == THREE
    assert et.recovered(known, -1, 12, magic=1) == THREE
    assert et.recovered(known, 4, 12, magic=2) == (*THREE, (4, 12))
    assert et.recovered(known, 2, 12, magic=2) == THREE, "recovery ignores what is not above the latest"
    assert et.recovered(known, 3, 4, magic=2) == THREE
    assert et.recovered(et.EMPTY, 0, 7, magic=2) == ((0, 7),)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 12))))
def test_assigned_tables_ascend_in_both_and_hold_the_last_line(lines: list[tuple[int, int]]) -> None:
    loaded = et.load(lines)
    assert all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(loaded))
    if lines:
        assert loaded[-1].epoch == lines[-1][0]
        assert loaded[-1].start_offset <= lines[-1][1]


@given(tables(), st.integers(0, 12), st.integers(0, 30))
def test_assign_keeps_exactly_what_is_older_in_both(before: list[tuple[int, int]], epoch: int, start: int) -> None:
    after = et.assign(et.table(before), epoch, start)
    if before and before[-1][0] == epoch and before[-1][1] <= start:
        assert after == tuple(before)
    else:
        assert after == (*(entry for entry in before if entry[0] < epoch and entry[1] < start), (epoch, start))


@given(tables(), st.integers(-1, 30), st.integers(-1, 30))
def test_truncations_leave_the_epoch_of_every_offset_between(before: list[tuple[int, int]], start: int, end: int) -> None:
    known = et.table(before)
    left = et.truncate_from_start(et.truncate_from_end(known, end), start)
    for offset in range(max(start, 0), end):
        assert et.epoch_for_offset(left, offset) == et.epoch_for_offset(known, offset)


@given(partitions(), st.integers(0, 40))
def test_a_lookup_answers_where_the_records_of_an_epoch_end(partition, requested: int) -> None:
    """By the records themselves: no record at or above the answer is of an epoch up to the requested one, and the one below it is."""
    log = partition.replicas[partition.leader]
    known, records = et.table(log.table.items()), log.records
    epoch, end = et.end_offset_for(known, requested, log.end)
    if requested > max(log.table):
        assert (epoch, end) == (-1, -1)
        return
    assert epoch <= requested
    assert all(records[offset] > requested for offset in records if offset >= end)
    assert all(records[offset] <= requested for offset in records if offset < end)


@given(tables(), st.integers(-1, 20), st.integers(30, 40))
def test_the_two_generations_of_lookups_differ_only_below_the_first_epoch(before: list[tuple[int, int]], requested: int, end: int) -> None:
    known = et.table(before)
    old, new = et.kip101_end_offset_for(known, requested, end), et.end_offset_for(known, requested, end)
    if known and 0 <= requested < known[0].epoch:
        assert (old, new) == (-1, (requested, known[0].start_offset))
    else:
        assert old == new.start_offset
