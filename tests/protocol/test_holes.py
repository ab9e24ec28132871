"""Holes: which offsets, in whose log, between which segments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_audit.protocol.comparison.pair import hole_at
from replica_audit.protocol.epochs.replica_log import load_log
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.verdict import Verdict, judge
from replica_audit.rows.pairs import MissingOffsets
from tests.protocol.logs import compare, replica, segment

WHOLE = replica(1, [(1, 0, 29)], epochs=[(1, 0)])


def _hole(before: int | None = None, after: int | None = None) -> MissingOffsets:
    return MissingOffsets(broker_id=2, first_offset=10, end_offset=20, segment_before=before, segment_after=after, is_cut=False)


def _of_segments(broker_id: int, *bases: tuple[int, int]) -> Replica:
    """A replica of segments (base, last offset), all of epoch 1."""
    segments = [segment(base, (1, base, last)) for base, last in bases]
    log = load_log(segments, checkpoint=WHOLE.log.epochs, log_start_checkpoint=None, recovery_point=0, recovers=False)
    return replace(replica(broker_id, [(1, base, last) for base, last in bases], epochs=[(1, 0)]), log=log)


@pytest.mark.parametrize("offset", [10, 14, 19])
def test_a_missing_segment(offset: int) -> None:
    assert hole_at(_of_segments(2, (0, 9), (20, 29)), offset) == _hole(0, 20)


def test_offsets_missing_inside_a_segment() -> None:
    assert hole_at(replica(2, [(1, 0, 9), (1, 20, 29)]), 12) == _hole()


def test_the_verdict_says_whose_log_has_the_hole() -> None:
    found = compare(WHOLE, _of_segments(2, (0, 9), (20, 29)))
    assert found.hole == _hole(0, 20)
    assert judge(found).verdict is Verdict.LOG_MATCHING_VIOLATION
    assert judge(found).reason == (
        "offsets 10..19 are missing from follower 2, a hole between its segments 00000000000000000000.log and 00000000000000000020.log; "
        "leader 1 holds 10 in epoch 1"
    )
    swapped = compare(_of_segments(2, (0, 9), (20, 29)), WHOLE)
    assert swapped.hole == _hole(0, 20)
    assert judge(swapped).reason.startswith("offsets 10..19 are missing from leader 2, a hole between its segments")


def test_what_only_compaction_can_have_taken_is_no_hole() -> None:
    found = compare(WHOLE, _of_segments(2, (0, 9), (20, 29)), compacted=True)
    assert found.hole is None
    assert judge(found).verdict is Verdict.CONSISTENT
    assert "keys not compared" in judge(found).reason


def test_another_epoch_is_no_hole() -> None:
    found = compare(WHOLE, replica(2, [(1, 0, 9), (2, 10, 19), (1, 20, 29)], epochs=[(1, 0)]))
    assert found.hole is None
    assert "batches from offset 10 on differ from the leader's and survive" in judge(found).reason
