"""What a broker makes of a replica's files at load: recovery, swap files, log start and end, damage (LogLoader, LogSegment.recover)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.model import BatchRun, Segment
from replica_audit.protocol.epochs.epoch_table import EMPTY, appended, recovered, table
from replica_audit.protocol.epochs.replica_log import LoadedLog, after_swaps, began_again, contradiction, epochs_from_runs, load_log
from tests.protocol.lineages import batches, tables
from tests.protocol.logs import Batch, Pairs, run, runs, segment


def _load(
    *segments: Segment, checkpoint: Pairs = (), log_start: int | None = None, recovery_point: int = 0, recovers: bool = False
) -> LoadedLog:
    return load_log(
        segments, checkpoint=table(checkpoint), log_start_checkpoint=log_start, recovery_point=recovery_point, recovers=recovers
    )


def _with_bad_crc(base: int, *found: tuple[Batch, bool]) -> Segment:
    return Segment(base_offset=base, runs=tuple(run(*batch, intact=intact) for batch, intact in found))


# --- offsets ------------------------------------------------------------------------------------------------------------------------------


def test_a_log_ends_after_its_last_batch_and_starts_at_its_first_segment() -> None:
    log = _load(segment(10, (1, 12, 19)), segment(20, (1, 20, 24), (3, 25, 29)), checkpoint=[(1, 10), (3, 25)])
    assert (log.log_start_offset, log.log_end_offset, log.first_segment_base) == (10, 30, 10)
    assert log.epochs == ((1, 10), (3, 25))
    assert log.runs == runs([(1, 12, 19)]) + runs([(1, 20, 24), (3, 25, 29)])
    assert (log.corrupt_offset, log.broken_segment, log.recovery_cut, log.missing) == (None, None, None, ())


def test_the_log_end_of_an_empty_last_segment_is_its_base() -> None:
    assert _load(segment(0, (1, 0, 9)), segment(10)).log_end_offset == 10
    assert _load(segment(0, (1, 0, 9)), segment(17)).log_end_offset == 17
    assert _load(segment(7)).log_end_offset == 7


def test_the_log_end_does_not_depend_on_how_many_records_are_left() -> None:
    compacted = run(1, 0, 9)._replace(record_count=1)
    assert _load(Segment(base_offset=0, runs=(compacted,))).log_end_offset == 10


@pytest.mark.parametrize(
    ("checkpoint", "start", "epochs"),
    [
        pytest.param(None, 10, ((1, 10), (3, 25)), id="none: the first segment"),
        pytest.param(0, 10, ((1, 10), (3, 25)), id="below the first segment"),
        pytest.param(17, 17, ((1, 17), (3, 25)), id="inside: the covering epoch moves up"),
        pytest.param(25, 25, ((3, 25),), id="at an epoch's start"),
        pytest.param(30, 30, ((3, 30),), id="at the log end: nothing is left, the log stays"),
    ],
)
def test_the_log_start_is_the_checkpoint_above_the_first_segment(checkpoint: int | None, start: int, epochs: Pairs) -> None:
    log = _load(segment(10, (1, 10, 24), (3, 25, 29)), checkpoint=[(1, 10), (3, 25)], log_start=checkpoint)
    assert (log.log_start_offset, log.log_end_offset, log.epochs) == (start, 30, epochs)
    assert log.first_segment_base == 10


def test_without_a_log_start_checkpoint_the_table_is_not_cut_at_the_first_segment() -> None:
    """From 3.0 on only the checkpointed value cuts it, so it may begin below."""
    assert _load(segment(100, (3, 100, 109)), checkpoint=[(1, 0), (3, 50)]).epochs == ((1, 0), (3, 50))


@pytest.mark.parametrize("recovers", [False, True])
def test_a_log_that_ends_below_its_log_start_is_discarded(recovers: bool) -> None:
    log = _load(segment(0, (1, 0, 9)), segment(10, (2, 10, 19)), checkpoint=[(1, 0), (2, 10)], log_start=21, recovers=recovers)
    assert log == LoadedLog(log_start_offset=21, log_end_offset=21, first_segment_base=21, epochs=EMPTY, runs=(), deleted_end=20)


# --- recovery -----------------------------------------------------------------------------------------------------------------------------


def test_after_a_clean_stop_the_checkpoint_is_believed_as_it_stands() -> None:
    log = _load(segment(0, (1, 0, 9), (3, 10, 19)), checkpoint=[(1, 0)])
    assert log.epochs == ((1, 0),)


def test_recovery_learns_epochs_above_the_latest_and_no_others() -> None:
    parts = segment(0, (1, 0, 9), (2, 10, 14), (3, 15, 19))
    assert _load(parts, recovers=True).epochs == ((1, 0), (2, 10), (3, 15))
    assert _load(parts, checkpoint=[(1, 0)], recovers=True).epochs == ((1, 0), (2, 10), (3, 15))
    assert _load(parts, checkpoint=[(1, 0), (3, 15)], recovers=True).epochs == ((1, 0), (3, 15)), "a lost middle epoch stays lost"
    assert _load(parts, checkpoint=[(2, 3)], recovers=True).epochs == ((2, 3), (3, 15))


def test_recovery_looks_at_no_segment_below_the_one_that_holds_the_recovery_point() -> None:
    parts = [segment(0, (1, 0, 9)), segment(10, (2, 10, 19)), segment(20, (3, 20, 29))]
    assert _load(*parts, recovers=True, recovery_point=0).epochs == ((1, 0), (2, 10), (3, 20))
    assert _load(*parts, recovers=True, recovery_point=9).epochs == ((1, 0), (2, 10), (3, 20))
    assert _load(*parts, recovers=True, recovery_point=10).epochs == ((2, 10), (3, 20))
    assert _load(*parts, recovers=True, recovery_point=19).epochs == ((2, 10), (3, 20))
    assert _load(*parts, recovers=True, recovery_point=500).epochs == ((3, 20),), "the last segment always"


def test_a_recovery_point_below_the_first_segment_recovers_all() -> None:
    assert _load(segment(50, (1, 50, 59)), recovers=True, recovery_point=7).epochs == ((1, 50),)


def test_a_bad_batch_in_a_recovered_segment_ends_the_log_and_later_segments_go() -> None:
    parts = [
        segment(0, (1, 0, 9)),
        _with_bad_crc(10, ((2, 10, 14), True), ((2, 15, 17), False), ((5, 18, 19), True)),
        segment(20, (6, 20, 29)),
    ]
    log = _load(*parts, recovers=True, recovery_point=10, checkpoint=[(1, 0)])
    assert (log.log_end_offset, log.recovery_cut, log.corrupt_offset, log.broken_segment) == (15, 15, None, None)
    assert log.epochs == ((1, 0), (2, 10)), "nothing is learned from what is cut off"
    assert log.runs == runs([(1, 0, 9)]) + runs([(2, 10, 14)])


def test_a_bad_batch_at_the_start_of_a_recovered_segment_leaves_it_empty() -> None:
    log = _load(segment(0, (1, 0, 9)), _with_bad_crc(10, ((2, 10, 14), False)), recovers=True, recovery_point=10)
    assert (log.log_end_offset, log.recovery_cut) == (10, 10)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"recovers": True, "recovery_point": 20}, id="below the recovery point"),
        pytest.param({"recovers": False, "recovery_point": 0}, id="after a clean stop"),
    ],
)
def test_a_bad_batch_that_is_not_recovered_stays_in_the_log(options: dict[str, Any]) -> None:
    parts = [segment(0, (1, 0, 9)), _with_bad_crc(10, ((2, 10, 14), True), ((2, 15, 19), False)), segment(20, (2, 20, 29))]
    log = _load(*parts, **options)
    assert (log.log_end_offset, log.corrupt_offset, log.recovery_cut) == (30, 15, None)


def test_a_damaged_end_is_harmless_in_the_last_segment() -> None:
    log = _load(segment(0, (1, 0, 9)), segment(10, (1, 10, 14), damaged=True))
    assert (log.log_end_offset, log.broken_segment) == (15, None)
    assert _load(segment(0, (1, 0, 9)), segment(10, (1, 10, 14), damaged=True), recovers=True).log_end_offset == 15


def test_a_damaged_end_inside_the_log_breaks_it() -> None:
    parts = [segment(0, (1, 0, 6), damaged=True), segment(10, (1, 10, 14))]
    assert _load(*parts).broken_segment == 0
    assert _load(*parts, recovers=True, recovery_point=10).broken_segment == 0, "recovery does not look there"
    recovered_log = _load(*parts, recovers=True, recovery_point=9)
    assert (recovered_log.broken_segment, recovered_log.log_end_offset, recovered_log.recovery_cut) == (None, 7, 7)


@pytest.mark.parametrize(
    ("second", "broken"),
    [
        pytest.param(segment(10, (1, 10, 14)), None, id="adjacent"),
        pytest.param(segment(15, (1, 15, 19)), None, id="a gap is no overlap"),
        pytest.param(segment(9, (1, 10, 14)), 9, id="its base below the end of the one before"),
        pytest.param(segment(10, (1, 8, 14)), 10, id="its first batch below the end of the one before"),
        pytest.param(segment(10), None, id="empty"),
    ],
)
def test_segments_that_overlap_break_the_log(second: Segment, broken: int | None) -> None:
    assert _load(segment(0, (1, 0, 9)), second).broken_segment == broken


def test_offsets_that_no_segment_holds_are_missing() -> None:
    log = _load(segment(0, (1, 0, 9)), segment(20, (1, 20, 29)), segment(30), segment(35, (1, 36, 39)))
    assert log.missing == ((10, 19), (30, 34))
    assert _load(segment(0, (1, 0, 9)), segment(20, (1, 20, 29)), recovers=True).missing == ((10, 19),)


# --- swap files ---------------------------------------------------------------------------------------------------------------------------


def _names(segments: list[Segment]) -> list[str]:
    return [f"{part.base_offset}{'.swap' if part.swap else ''}" for part in segments]


def test_without_swap_files_segments_are_only_put_in_order() -> None:
    assert _names(after_swaps([segment(20), segment(0, (1, 0, 9)), segment(10)])) == ["0", "10", "20"]


@pytest.mark.parametrize(
    ("swaps", "left"),
    [
        pytest.param([segment(0, (1, 0, 9), swap=True)], ["0.swap", "10", "20", "30"], id="one for one"),
        pytest.param([segment(0, (1, 0, 3), (1, 25, 29), swap=True)], ["0.swap", "30"], id="one for three: by its last batch"),
        pytest.param([segment(10, (1, 12, 20), swap=True)], ["0", "10.swap", "30"], id="a base below the next offset goes"),
        pytest.param([segment(10, (1, 12, 19), swap=True)], ["0", "10.swap", "20", "30"], id="a base at the next offset stays"),
        pytest.param(
            [segment(0, (1, 0, 4), swap=True), segment(20, (1, 20, 24), swap=True)], ["0.swap", "20.swap", "30"], id="all between two"
        ),
        pytest.param([segment(5, (1, 5, 9), swap=True)], ["0", "5.swap", "10", "20", "30"], id="beside: a split that had not replaced yet"),
        pytest.param(
            [segment(0, swap=True)],
            ["0.swap", "10", "20", "30"],
            id="emptied: renamed over the segment of its name",
        ),
    ],
)
def test_swap_files_replace_what_they_were_made_from(swaps: list[Segment], left: list[str]) -> None:
    ordinary = [segment(base, (1, base, base + 9)) for base in (0, 10, 20, 30)]
    assert _names(after_swaps([*ordinary, *swaps])) == left
    assert _names(after_swaps([*swaps, *ordinary])) == left


# --- tables from batches, tables against batches ------------------------------------------------------------------------------------------


def test_the_table_of_batches_is_the_first_batch_of_each_epoch() -> None:
    assert epochs_from_runs(runs([(-1, 0, 9), (2, 10, 14), (2, 20, 24), (5, 25, 29)])) == ((2, 10), (5, 25))
    assert epochs_from_runs([]) == EMPTY


def test_the_table_of_batches_begins_behind_the_last_batch_of_an_old_format() -> None:
    found = runs([(1, 0, 9), (-1, 10, 19), (3, 20, 29)])
    by_append = EMPTY
    for held in found:
        by_append = appended(by_append, held.leader_epoch, held.first_offset, held.magic)
    assert epochs_from_runs(found) == by_append == ((3, 20),)


@given(batches(gaps=False, lowest_epoch=0))
def test_recovery_of_everything_gives_what_recovery_of_each_batch_gives(found: list[Batch]) -> None:
    expected = EMPTY
    for epoch, base, _last in found:
        expected = recovered(expected, epoch, base, 2)
    if found:
        assert _load(segment(found[0][1], *found), recovers=True).epochs == expected


@pytest.mark.parametrize(
    ("epochs", "floor", "expected"),
    [
        pytest.param([(1, 0), (3, 10)], 0, None, id="agrees"),
        pytest.param([(1, 0), (2, 5), (3, 10)], 0, (0, 9, 2), id="an epoch too many"),
        pytest.param([(1, 0), (2, 5), (3, 10)], 10, None, id="an epoch too many, below the floor"),
        pytest.param([(1, 0)], 0, (10, 10, 1), id="an epoch lost"),
        pytest.param([(1, 0)], 20, None, id="an epoch lost, below the floor"),
        pytest.param([(1, 0)], 15, (10, 15, 1), id="an epoch lost, the floor inside its run"),
        pytest.param([], 0, (0, 0, None), id="everything lost"),
        pytest.param([(1, 4), (3, 10)], 0, (0, 0, None), id="begins above the log"),
        pytest.param([(1, 4), (3, 10)], 4, None, id="begins at the log start"),
        pytest.param([(1, 0), (3, 12)], 0, (10, 10, 1), id="starts late"),
        pytest.param([(1, 0), (3, 8)], 0, (0, 9, 3), id="starts early"),
        pytest.param([(1, 0), (3, 10), (7, 20)], 0, None, id="an epoch without a record at the end"),
    ],
)
def test_a_table_contradicts_its_batches(epochs: Pairs, floor: int, expected: tuple[int, int, int | None] | None) -> None:
    found = contradiction(table(epochs), runs([(1, 0, 9), (3, 10, 19)]), floor)
    assert (found and (found[0].first_offset, found[1], found[2])) == expected


def test_a_table_copied_before_its_log_lacks_only_later_epochs() -> None:
    found = runs([(1, 0, 9), (3, 10, 19), (4, 20, 29)])
    assert contradiction(table([(1, 0), (3, 10)]), found, 0, copied_apart=True) is None
    assert contradiction(table([(1, 0), (3, 10)]), found, 0) is not None
    for lacks_another in ([(3, 10)], [(1, 0), (4, 20)], [(1, 0), (3, 12)]):
        assert contradiction(table(lacks_another), found, 0, copied_apart=True) is not None
    assert contradiction(EMPTY, found, 0, copied_apart=True) is not None, "an emptied table is not an older one"


def test_a_table_copied_after_its_log_tells_where_that_was_cut_since() -> None:
    found = runs([(1, 0, 9), (3, 10, 19), (4, 20, 29)])
    for since_cut in ([(1, 0), (3, 10), (6, 20)], [(1, 0), (3, 10), (4, 20), (6, 25)], [(1, 0), (6, 10)]):
        assert contradiction(table(since_cut), found, 0, copied_apart=True) is None
        assert contradiction(table(since_cut), found, 0) is not None
    for wrong_below in ([(1, 0), (6, 20)], [(1, 0), (3, 12), (6, 20)], [(3, 0), (6, 20)]):
        assert contradiction(table(wrong_below), found, 0, copied_apart=True) is not None


def test_batches_below_one_of_an_old_format_contradict_nothing() -> None:
    found = runs([(1, 0, 9), (-1, 10, 19), (3, 20, 29)])
    assert contradiction(table([(3, 20)]), found, 0) is None
    assert contradiction(table([(3, 22)]), found, 0) is not None


def test_batches_without_an_epoch_contradict_nothing() -> None:
    assert contradiction(EMPTY, runs([(-1, 0, 9)]), 0) is None
    assert contradiction(table([(2, 10)]), runs([(-1, 0, 9), (2, 10, 19)]), 0) is None


@given(batches(), st.integers(0, 30), tables())
def test_contradictions_by_every_offset(found: list[Batch], floor: int, entries: list[tuple[int, int]]) -> None:
    """The table's epoch at each offset from the floor on must be the batch's; batches below one of an old format do not count."""

    def said(offset: int) -> int | None:
        return max((epoch for epoch, start in entries if start <= offset), default=None)

    since = max((index + 1 for index, (epoch, _base, _last) in enumerate(found) if epoch < 0), default=0)
    wrong = [
        (epoch, offset)
        for epoch, base, last in found[since:]
        if epoch >= 0
        for offset in range(max(base, floor), last + 1)
        if said(offset) != epoch
    ]
    got = contradiction(table(entries), [run(*batch) for batch in found], floor)
    assert (got is None) == (not wrong)
    if got:
        assert (got[0].leader_epoch, got[1]) in wrong
        assert isinstance(got[0], BatchRun)
        assert got[2] == said(got[1])


def test_a_running_broker_knows_every_epoch_of_its_batches() -> None:
    """Its table may have been copied before its log; one without any entry is not completed, for it may really be lost."""
    found = [Segment(base_offset=0, runs=(run(3, 0, 9), run(5, 10, 19)))]

    def loaded(checkpoint: Pairs) -> Pairs:
        log = load_log(found, checkpoint=table(checkpoint), log_start_checkpoint=None, recovery_point=0, recovers=False, runs_on=True)
        return list(log.epochs)

    assert loaded([(3, 0)]) == [(3, 0), (5, 10)]
    assert loaded([]) == []


@pytest.mark.parametrize("apart", [False, True])
def test_a_later_epoch_in_the_middle_contradicts_the_table(apart: bool) -> None:
    """Of a running broker, too: the table knows the batches behind it, so it is not older than that one."""
    runs = tuple(run(*batch) for batch in [(0, 0, 1), (7, 2, 2), (1, 3, 6)])
    found = contradiction(table([(0, 0), (1, 3)]), runs, 0, copied_apart=apart)
    assert found is not None
    assert found[1:] == (2, 0)
    assert contradiction(table([(0, 0), (1, 3)]), (*runs[::2], run(7, 7, 9)), 0, copied_apart=True) is None, "its copy is older"


@pytest.mark.parametrize(
    ("entries", "batches", "expected"),
    [
        pytest.param([(0, 90)], [(0, 0, 49), (5, 50, 89), (0, 90, 99)], 90, id="the table begins there"),
        pytest.param([(0, 0), (1, 3)], [(0, 0, 1), (7, 2, 2), (1, 3, 6)], None, id="it knows what was before"),
        pytest.param([(0, 0), (5, 50)], [(0, 0, 49), (5, 50, 89)], None, id="epochs grow"),
        pytest.param([(3, 90)], [(0, 0, 49), (5, 50, 89), (3, 90, 99)], None, id="not below all before"),
        pytest.param([], [(5, 0, 9), (0, 10, 19)], None, id="no table"),
    ],
)
def test_where_epochs_began_again(entries: list[tuple[int, int]], batches: list[tuple[int, int, int]], expected: int | None) -> None:
    assert began_again(table(entries), tuple(run(*batch) for batch in batches)) == expected
