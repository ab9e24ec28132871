"""What only a cleaner leaves in a log, and what comes near it."""

from __future__ import annotations

import pytest

from replica_audit.model import BatchRun, Segment
from replica_audit.protocol.comparison.compaction import shows_cleaning


def segment(base: int, *runs: tuple[int, int, int], lacking: int = 0) -> Segment:
    """Runs as epoch, first and last offset; of each so many records are missing."""
    made = [BatchRun(epoch, first, last, 1, last - first + 1 - lacking, 100, 0, 0, 2, True) for epoch, first, last in runs]
    return Segment(base_offset=base, runs=tuple(made))


@pytest.mark.parametrize(
    "segments",
    [
        pytest.param([segment(0, (0, 0, 9), lacking=1)], id="a batch with fewer records than offsets"),
        pytest.param([segment(0, (0, 0, 9)), segment(10, (0, 10, 11), (0, 14, 19))], id="offsets missing within an epoch and segment"),
        pytest.param([segment(0, (0, 4, 9)), segment(10, (0, 10, 19))], id="the first offsets"),
    ],
)
def test_what_a_cleaner_leaves(segments: list[Segment]) -> None:
    assert shows_cleaning(segments)


@pytest.mark.parametrize(
    "segments",
    [
        pytest.param([], id="nothing"),
        pytest.param([segment(0)], id="a segment without a batch"),
        pytest.param([segment(0, (0, 0, 9), (1, 10, 19)), segment(20, (1, 20, 29))], id="a whole log"),
        pytest.param([segment(40, (0, 40, 49))], id="retention"),
        pytest.param([segment(0, (0, 0, 9), (1, 12, 19))], id="a hole that a cut left (KAFKA-6361)"),
        pytest.param([segment(0, (0, 0, 9)), segment(10, (1, 12, 19))], id="the same at the beginning of a segment"),
        pytest.param([segment(0, (0, 0, 9)), segment(20, (0, 20, 29))], id="a segment is lost"),
        pytest.param([segment(0, (-1, 0, 9), (-1, 12, 19))], id="a hole in a log without epochs"),
    ],
)
def test_what_comes_near_it(segments: list[Segment]) -> None:
    assert not shows_cleaning(segments)
