"""A replica's epoch table held against its own batches: every way in which they may differ, and what it is called."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.model import Segment
from replica_audit.protocol.epochs.checkpoint_repair import EpochDifference, ReconciledEpoch, reconcile
from replica_audit.protocol.epochs.epoch_table import table, truncate_from_end
from replica_audit.protocol.epochs.replica_log import load_log
from tests.protocol.lineages import batches, tables
from tests.protocol.logs import Batch, Pairs, segment


def _reconcile(
    parts: list[Segment],
    checkpoint: Pairs | None,
    *,
    log_start: int | None = None,
    recovers: bool = False,
    leads: bool = False,
    **options: Any,
) -> dict[int, ReconciledEpoch]:
    """As a broker loads the replica; a leader keeps the entry at its log end, everyone else drops it."""
    log = load_log(parts, checkpoint=table(checkpoint or ()), log_start_checkpoint=log_start, recovery_point=0, recovers=recovers)
    in_effect = log.epochs if leads else truncate_from_end(log.epochs, log.log_end_offset)
    found = reconcile(
        log, in_effect, None if checkpoint is None else table(checkpoint), **({"cleaned_until": 0, "compacted": False} | options)
    )
    assert [row.leader_epoch for row in found] == sorted({row.leader_epoch for row in found})
    return {row.leader_epoch: row for row in found}


TWO = [segment(0, (1, 0, 9), (3, 10, 19))]


def test_sources_that_agree() -> None:
    found = _reconcile(TWO, [(1, 0), (3, 10)])
    assert found == {1: ReconciledEpoch(1, 0, 10, 0, 0, True, None), 3: ReconciledEpoch(3, 10, 20, 10, 10, True, None)}
    assert all(row.agrees and row.source == "both" for row in found.values())


def test_a_trivial_epoch_at_the_log_end() -> None:
    for leads in (True, False):
        row = _reconcile(TWO, [(1, 0), (3, 10), (5, 20)], leads=leads)[5]
        assert (row.difference, row.in_effect, row.source, row.agrees) == (EpochDifference.TRIVIAL_EPOCH, leads, "checkpoint", False)
        assert (row.start_offset, row.end_offset) == (20, 20 if leads else None)


def test_an_entry_beyond_the_log_end_is_legal_lag() -> None:
    """An assignment is flushed before the records that it is for."""
    row = _reconcile(TWO, [(1, 0), (3, 10), (5, 25)])[5]
    assert (row.difference, row.in_effect, row.end_offset) == (EpochDifference.LEGAL_LAG, False, None)
    assert _reconcile(TWO, [(1, 0), (3, 10), (5, 25)], leads=True)[5].end_offset == 25, "never below its own start"


def test_an_epoch_that_recovery_learns_is_legal_lag() -> None:
    row = _reconcile(TWO, [(1, 0)], recovers=True)[3]
    assert row == ReconciledEpoch(3, 10, 20, None, 10, True, EpochDifference.LEGAL_LAG)
    assert row.source == "segments"
    assert _reconcile(TWO, [(1, 0)])[3].difference is EpochDifference.CORRUPT, "after a clean stop nothing is learned"


def test_the_log_start_moves_the_first_entry_and_ends_older_epochs() -> None:
    found = _reconcile(TWO, [(3, 15)], log_start=15)
    assert found[3] == ReconciledEpoch(3, 15, 20, 15, 10, True, EpochDifference.LOG_START)
    assert (found[1].difference, found[1].in_effect) == (EpochDifference.LOG_START, False)


def test_a_checkpoint_from_before_the_log_start_moved() -> None:
    found = _reconcile(TWO, [(1, 0), (3, 10)], log_start=15)
    assert [found[epoch].in_effect for epoch in (1, 3)] == [False, True]
    assert found[3].start_offset == 15
    retained = _reconcile([segment(10, (3, 10, 19))], [(1, 0), (3, 5)])
    assert {epoch: row.difference for epoch, row in retained.items()} == {1: EpochDifference.LOG_START, 3: EpochDifference.LOG_START}


def test_an_epoch_missing_at_the_log_start_is_corrupt() -> None:
    assert _reconcile(TWO, [], log_start=15)[3].difference is EpochDifference.CORRUPT
    assert _reconcile(TWO, [], log_start=15)[1].difference is EpochDifference.LOG_START


@pytest.mark.parametrize(
    ("parts", "checkpoint", "epoch"),
    [
        pytest.param([segment(0, (1, 0, 9), (3, 15, 19))], [(1, 0), (3, 10)], 3, id="its first batches are gone"),
        pytest.param([segment(0, (1, 0, 9), (3, 15, 19))], [(1, 0), (2, 10), (3, 12)], 2, id="all its batches are gone"),
    ],
)
def test_compaction(parts: list[Segment], checkpoint: Pairs, epoch: int) -> None:
    assert _reconcile(parts, checkpoint, cleaned_until=14)[epoch].difference is EpochDifference.COMPACTION
    assert _reconcile(parts, checkpoint, compacted=True)[epoch].difference is EpochDifference.COMPACTION
    assert _reconcile(parts, checkpoint)[epoch].difference is EpochDifference.CORRUPT
    assert _reconcile(parts, checkpoint, cleaned_until=10)[epoch].difference is EpochDifference.CORRUPT, "it starts above what was cleaned"


def test_compaction_never_makes_an_epoch_start_later_than_its_batches() -> None:
    assert _reconcile(TWO, [(1, 0), (3, 12)], cleaned_until=20, compacted=True)[3].difference is EpochDifference.CORRUPT
    assert _reconcile(TWO, [(1, 0)], cleaned_until=20, compacted=True)[3].difference is EpochDifference.CORRUPT


def test_a_refetched_compacted_range() -> None:
    """The follower learned its epochs from the batches that compaction left to it."""
    parts, checkpoint, leader = [segment(0, (1, 0, 9), (8, 58, 60))], [(1, 0), (8, 58)], table([(1, 0), (4, 28), (8, 54)])
    found = _reconcile(parts, checkpoint, cleaned_until=60, compacted=True, leader=leader)
    assert {epoch: row.difference for epoch, row in found.items()} == {1: None, 8: EpochDifference.REFETCHED_COMPACTED_RANGE}
    assert found[8].agrees, "with its own batches"
    assert _reconcile(parts, checkpoint, cleaned_until=58, compacted=True, leader=leader)[8].difference is None, "not below the cleaner"
    assert _reconcile(parts, checkpoint, cleaned_until=60, compacted=True)[8].difference is None, "the leader's own"
    gone = _reconcile(parts, checkpoint, cleaned_until=60, compacted=True, leader=table([(1, 0)]))
    assert gone[8].difference is None, "an epoch that the leader does not know"


def test_not_collected() -> None:
    found = _reconcile(TWO, None)
    assert {row.difference for row in found.values()} == {EpochDifference.NOT_COLLECTED}
    assert {row.source for row in found.values()} == {"segments"}
    assert not any(row.agrees for row in found.values())


@pytest.mark.parametrize(
    ("checkpoint", "epoch"),
    [
        pytest.param([(1, 0), (3, 12)], 3, id="starts late"),
        pytest.param([(1, 0), (3, 8)], 3, id="starts early"),
        pytest.param([(1, 0), (2, 5), (3, 10)], 2, id="an epoch that no batch has"),
        pytest.param([(3, 10)], 1, id="lost"),
    ],
)
def test_corrupt(checkpoint: Pairs, epoch: int) -> None:
    found = _reconcile(TWO, checkpoint)
    assert {e for e, row in found.items() if row.difference is not None} == {epoch}
    assert found[epoch].difference is EpochDifference.CORRUPT


def test_epochs_that_go_back_in_the_batches_are_told_by_their_first_batch() -> None:
    found = _reconcile([segment(0, (1, 0, 9), (2, 10, 14), (1, 15, 19))], [(1, 0), (2, 10)])
    assert (found[1].segment_start_offset, found[2].segment_start_offset) == (0, 10)


@given(batches(gaps=False), tables(), st.integers(0, 20), st.booleans())
def test_every_epoch_of_either_source_has_its_row(
    found: list[Batch], checkpoint: list[tuple[int, int]], cleaned: int, compacted: bool
) -> None:
    if not found:
        return
    rows = _reconcile([segment(found[0][1], *found)], checkpoint, cleaned_until=cleaned, compacted=compacted, leads=True)
    assert rows.keys() == {epoch for epoch, _base, _last in found if epoch >= 0} | {epoch for epoch, _start in checkpoint}
    for row in rows.values():
        assert row.agrees == (row.difference is None)
        assert row.source in ("both", "checkpoint", "segments")
        assert row.end_offset is None or row.end_offset >= row.start_offset
    effective = [row for row in rows.values() if row.in_effect]
    assert all(a.end_offset == b.start_offset for a, b in pairwise(effective))
