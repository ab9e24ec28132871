"""The corrected lines of a leader-epoch-checkpoint: what the batches determine, what the file keeps, what other replicas know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.model import BatchRun
from replica_audit.protocol.epochs.checkpoint_repair import CorrectedEntry, EntrySource, Undetermined, corrected
from replica_audit.protocol.epochs.epoch_table import table
from replica_audit.protocol.epochs.replica_log import LoadedLog, contradiction
from tests.protocol.lineages import BROKERS, Partition, partitions
from tests.protocol.logs import Batch, Pairs, run, runs

BATCHES, FILE, FIRST_LEFT = EntrySource.BATCHES, EntrySource.FILE, EntrySource.FIRST_BATCH_LEFT


def log(batches: Sequence[Batch], *, start: int = 0, end: int | None = None, held: tuple[BatchRun, ...] | None = None) -> LoadedLog:
    last = batches[-1][2] + 1 if batches else start
    found = runs(batches) if held is None else held
    return LoadedLog(log_start_offset=start, log_end_offset=last if end is None else end, first_segment_base=start, epochs=(), runs=found)


def lines(found: tuple[CorrectedEntry, ...] | Undetermined) -> list[tuple[int, int]]:
    assert not isinstance(found, Undetermined), found
    return [(entry.epoch, entry.start_offset) for entry in found]


WHOLE = [(0, 0, 9), (2, 10, 19), (3, 20, 29)]
COMPACTED = [(0, 4, 9), (2, 15, 19), (5, 28, 29)]


@pytest.mark.parametrize(
    "written",
    [
        pytest.param([], id="an empty file"),
        pytest.param([(0, 0), (2, 10)], id="the last epoch is missing"),
        pytest.param([(0, 0), (3, 20)], id="one in the middle is missing"),
        pytest.param([(3, 20), (0, 0), (2, 10)], id="out of order"),
        pytest.param([(0, 0), (2, 12), (3, 18)], id="starts too late and too early"),
        pytest.param([(0, 0), (1, 5), (2, 10), (3, 20), (3, 25)], id="epochs that the batches contradict"),
        pytest.param([(0, 0), (2, 10), (3, 20), (9, 31)], id="an entry beyond the log end"),
    ],
)
def test_where_no_offset_is_missing_the_batches_decide(written: Pairs) -> None:
    found = corrected(written, log(WHOLE))
    assert found == tuple(CorrectedEntry(epoch, first, BATCHES) for epoch, first, _last in WHOLE)


def test_the_entry_of_a_leader_that_has_not_written_stays() -> None:
    assert lines(corrected([(0, 0), (2, 10), (3, 20), (5, 30)], log(WHOLE))) == [(0, 0), (2, 10), (3, 20), (5, 30)]
    assert lines(corrected([(5, 30)], log(WHOLE))) == [(0, 0), (2, 10), (3, 20), (5, 30)]


def test_the_last_epoch_that_a_leader_lost_comes_back() -> None:
    """A production case: the table of a leader ends below the epoch of its own last batches, and no follower rejoins."""
    log_7 = log([(5, 1_000, 1_499), (6, 1_500, 1_799), (7, 1_800, 2_100)], start=1_000)
    assert lines(corrected([(5, 1_000), (6, 1_500)], log_7)) == [(5, 1_000), (6, 1_500), (7, 1_800)]


def test_below_a_compacted_range_the_file_is_believed_where_no_batch_contradicts_it() -> None:
    written = [(0, 0), (1, 10), (2, 12), (3, 22), (4, 26), (5, 27)]
    found = corrected(written, log(COMPACTED))
    assert lines(found) == written
    assert {entry.source for entry in found if isinstance(entry, CorrectedEntry)} == {FILE}
    wrong = [(0, 5), (1, 14), (2, 16), (3, 30), (5, 27)]
    assert lines(corrected(wrong, log(COMPACTED))) == [(0, 4), (1, 14), (2, 15), (5, 27)]


def test_of_two_empty_epochs_that_contradict_each_other_the_later_stays() -> None:
    assert lines(corrected([(0, 4), (3, 25), (4, 22)], log(COMPACTED))) == [(0, 4), (2, 15), (4, 22), (5, 28)]


def test_other_replicas_give_the_start_of_an_epoch_that_this_log_has_and_no_other_epoch() -> None:
    others = {2: table([(0, 0), (1, 10), (2, 13), (5, 27)]), 3: table([(0, 3), (2, 12), (4, 25), (5, 28)])}
    assert corrected([], log(COMPACTED), others) == (
        CorrectedEntry(0, 0, EntrySource.OTHER_REPLICA, 2),
        CorrectedEntry(2, 12, EntrySource.OTHER_REPLICA, 3),
        CorrectedEntry(5, 27, EntrySource.OTHER_REPLICA, 2),
    )
    assert corrected([], log(COMPACTED), {2: table([(0, 5), (2, 9), (5, 20)])}) == (
        CorrectedEntry(0, 4, FIRST_LEFT),
        CorrectedEntry(2, 15, FIRST_LEFT),
        CorrectedEntry(5, 20, EntrySource.OTHER_REPLICA, 2),
    )


def test_the_first_entry_moves_up_to_the_log_start() -> None:
    assert lines(corrected([(0, 0), (2, 10), (3, 20)], log(WHOLE, start=14))) == [(2, 14), (3, 20)]
    assert lines(corrected([(0, 0), (1, 5)], log([(2, 15, 19)], start=12))) == [(1, 12), (2, 15)]


def test_logs_without_batches_and_without_epochs() -> None:
    assert corrected([], log([])) == ()
    assert lines(corrected([(0, 3), (1, 12)], log([], start=12))) == [(1, 12)]
    assert corrected([], log([(-1, 0, 9)])) == ()
    assert lines(corrected([], log([(-1, 0, 9), (4, 10, 12)]))) == [(4, 10)]
    assert lines(corrected([(0, 0)], log([(-1, 0, 9), (4, 10, 12)]))) == [(0, 0), (4, 10)]  # batches without an epoch contradict nothing


@pytest.mark.parametrize(
    ("unusable", "why"),
    [
        pytest.param(log([(1, 0, 10), (2, 11, 15), (1, 16, 20)]), Undetermined.EPOCHS_GO_BACKWARDS, id="two histories in one log"),
        pytest.param(log(WHOLE, held=(run(0, 0, 9), run(2, 10, 19, intact=False))), Undetermined.CORRUPT_BATCH, id="a batch fails its CRC"),
        pytest.param(log(WHOLE, held=(run(0, 0, 9), run(-1, 10, 19, magic=2))), Undetermined.BATCH_WITHOUT_EPOCH, id="no epoch"),
    ],
)
def test_no_table_is_made_of_a_log_that_determines_none(unusable: LoadedLog, why: Undetermined) -> None:
    corrupt = next((one.first_offset for one in unusable.runs if not one.intact), None)
    damaged = LoadedLog(
        log_start_offset=0,
        log_end_offset=unusable.log_end_offset,
        first_segment_base=0,
        epochs=(),
        runs=unusable.runs,
        corrupt_offset=corrupt,
    )
    assert corrected([(0, 0)], damaged) is why
    assert corrected([(0, 0)], replace(log(WHOLE), broken_segment=10)) is Undetermined.BROKEN_SEGMENT


def _replica(partition: Partition, broker: int, without: frozenset[int] = frozenset()) -> tuple[LoadedLog, list[tuple[int, int]]]:
    """A replica of a real lineage, less some of its batches, which compaction took; its table stays as it was."""
    own = partition.replicas[broker]
    kept = [batch for place, batch in enumerate(own.batches) if place not in without or place == len(own.batches) - 1]
    return log(kept, start=own.start, end=own.end), sorted(own.table.items())


REMOVED = st.frozensets(st.integers(0, 30), max_size=12)


@given(partitions(retention=True), st.sampled_from(BROKERS), REMOVED)
def test_a_right_table_stays_as_it_is(partition: Partition, broker: int, removed: frozenset[int]) -> None:
    found, written = _replica(partition, broker, removed)
    assert lines(corrected(written, found)) == written


@given(partitions(retention=True), st.sampled_from(BROKERS), st.data())
def test_damage_is_undone_wherever_the_batches_decide(partition: Partition, broker: int, data: st.DataObject) -> None:
    found, written = _replica(partition, broker)
    junk = st.tuples(st.integers(0, 12), st.integers(0, 40))
    damaged = data.draw(st.lists(st.one_of(st.sampled_from(written), junk) if written else junk, max_size=8))
    held = {epoch for epoch, _base, _last in partition.replicas[broker].batches}
    repaired = lines(corrected(damaged, found))
    assert [entry for entry in repaired if entry[0] in held] == [entry for entry in written if entry[0] in held]


@given(
    partitions(retention=True), st.sampled_from(BROKERS), REMOVED, st.lists(st.tuples(st.integers(0, 12), st.integers(0, 40)), max_size=8)
)
def test_every_table_fits_its_batches_and_no_epoch_starts_before_it_began(
    partition: Partition, broker: int, removed: frozenset[int], junk: Pairs
) -> None:
    found, _ = _replica(partition, broker, removed)
    others = {other: table(_replica(partition, other)[1]) for other in BROKERS if other != broker}
    for written in (junk, []):
        repaired = corrected(written, found, others)
        entries = lines(repaired)
        assert entries == sorted(set(entries))
        assert all(one[1] < other[1] for one, other in pairwise(entries))
        assert contradiction(table(entries), found.runs, found.log_start_offset) is None
        assert all(found.log_start_offset <= start <= found.log_end_offset for _, start in entries)
    began = {
        epoch: min(start for log_ in partition.replicas.values() for e, start in log_.table.items() if e == epoch) for epoch, _ in entries
    }
    assert all(start >= began[epoch] for epoch, start in entries)
