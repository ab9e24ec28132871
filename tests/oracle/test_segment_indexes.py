"""What we call an index that misleads, against the reads of Kafka's own classes that follow it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replica_audit.formats.replicas.segment_reader import scan_file
from tests.formats import index_files as made
from tests.formats.test_segment_indexes import BASE, SHAPES, Segment
from tests.oracle.kafka_classes import Kafka, Refused

pytestmark = pytest.mark.oracle


def _reads(kafka: Kafka, segment: Segment, index: bytes) -> list[int | str | None]:
    """Where each offset of a segment is read, from the first on."""
    found: list[int | str | None] = []
    for offset in range(BASE, segment.batches[-1].last + 1):
        try:
            found.append(kafka.read_by_index(segment.path, index, BASE, offset))
        except Refused:
            found.append("refused")
    return found


def test_a_planted_entry_skips_records(kafka: Kafka, tmp_path: Path) -> None:
    segment = Segment(tmp_path, [(0, 2, 1000), (0, 3, 2000), (0, 1, 5000), (0, 2, 3000)])
    right = made.offset_index(BASE, segment.offsets)
    segment.offsets[0] = (segment.offsets[0][0], segment.offsets[1][1])
    wrong = made.offset_index(BASE, segment.offsets)
    assert _reads(kafka, segment, right) == _reads(kafka, segment, b"")
    assert _reads(kafka, segment, wrong)[4] == segment.batches[2].position != segment.batches[1].position
    (problem,) = segment.problems((".index",))
    assert (
        problem.detail
        == f"entry 0 leads reads of offset 104 to byte {segment.batches[2].position}, behind offset 104: they skip offsets 104..104"
    )


@settings(max_examples=60)
@given(shapes=SHAPES, entry=st.data())
def test_any_entry(
    kafka: Kafka, tmp_path_factory: pytest.TempPathFactory, shapes: list[tuple[int, int, int]], entry: st.DataObject
) -> None:
    segment = Segment(tmp_path_factory.mktemp("any"), shapes)
    last, size = segment.batches[-1].last, segment.path.stat().st_size
    positions = st.sampled_from([batch.position for batch in segment.batches]) | st.integers(0, size)
    segment.offsets = [(entry.draw(st.integers(BASE + 1, last + 1)), entry.draw(positions))]
    is_told = bool(segment.problems((".index",)))
    index = made.offset_index(BASE, segment.offsets)
    assert is_told is (_reads(kafka, segment, index) != _reads(kafka, segment, b""))
    assert scan_file(segment.path).index_problems == ()
