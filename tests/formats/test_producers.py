"""The producers that the scan of a segment tells: the same from plain Python, columns, compiled code and text, and what a broker keeps."""

from __future__ import annotations

import io
import itertools
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from replica_audit.formats.dump import dump_log
from replica_audit.formats.dump.dump_log import scan_section, sections
from replica_audit.formats.native import scan_tables
from replica_audit.formats.replicas import segment_reader
from replica_audit.formats.segment import producer_sums, segment_fold
from replica_audit.formats.segment.segment_fold import Scan
from replica_audit.model import Producers, SequenceGap
from replica_audit.protocol.transactions.producer_spans import producers_of_log
from tests.formats import kafka_files as kf
from tests.formats.segment_readers import in_python, natively, one_by_one
from tests.formats.test_dump_log import START, line

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "clusters"
REAL = Path(__file__).parents[1] / "data"
MOST = 2**31 - 1


class Written(NamedTuple):
    """A batch of a producer: so many records from a sequence on, or a marker (sequence None)."""

    producer_id: int
    epoch: int
    sequence: int | None
    records: int = 1
    transactional: bool = True
    time: int = 1_000
    intact: bool = True
    emptied: bool = False


def content(written: Sequence[Written], first_offset: int = 0) -> bytes:
    """The bytes of a segment."""
    made, offset = b"", first_offset
    for batch in written:
        sequence = -1 if batch.sequence is None else batch.sequence
        one = bytearray(
            kf.batch(
                offset,
                0,
                deltas=() if batch.emptied else range(batch.records),
                producer=(batch.producer_id, batch.epoch, sequence),
                transactional=batch.transactional,
                timestamp=batch.time,
                value=b"",
            )
        )
        struct.pack_into(">i", one, 23, batch.records - 1)
        if batch.sequence is None:
            one[22] |= kf.CONTROL
        sealed = bytearray(kf.sealed(one))
        if not batch.intact:
            sealed[20] ^= 1
        made += sealed
        offset += batch.records
    return made


def as_text(written: Sequence[Written], *, old: bool = False) -> bytes:
    """The same as kafka-dump-log prints it; before 2.0 it told neither counts nor markers."""
    made, offset, position = [START], 0, 0
    for batch in written:
        sequence = -1 if batch.sequence is None else batch.sequence
        one = content([batch])
        size, (time,) = len(one), struct.unpack_from(">q", one, 35)
        flags = {"isTransactional": str(batch.transactional).lower(), "isControl": str(batch.sequence is None).lower()}
        numbers = {"producerId": batch.producer_id, "producerEpoch": batch.epoch, "baseSequence": sequence, "lastSequence": -1}
        times = {"CreateTime": time, "partitionLeaderEpoch": 0}
        changes = flags | numbers | times | {"count": 0 if batch.emptied else batch.records, "isvalid": str(batch.intact).lower()}
        changes |= {"isControl": None, "count": None, "deleteHorizonMs": None} if old else {}
        made.append(line(offset, offset + batch.records - 1, position, size, **changes))
        offset, position = offset + batch.records, position + size
    return b"".join(made)


def of_text(text: bytes, *, worth_it: int) -> Scan:
    (section,) = sections(io.BytesIO(text))
    with mock.patch.object(dump_log, "_WORTH_IT", worth_it):
        return scan_section(io.BytesIO(text), section)


def producers(folder: Path, written: Sequence[Written]) -> Producers:
    """What all readers agree on."""
    path = kf.segment(folder, 0, content(written))
    expected = one_by_one(path)
    assert in_python(path) == expected
    assert natively(path) == expected
    for worth_it in (1, 1 << 30):
        assert of_text(as_text(written), worth_it=worth_it).producers == expected.producers
    unverified = one_by_one(path, verify_crc=False)
    assert in_python(path, verify_crc=False) == unverified
    assert natively(path, verify_crc=False) == unverified
    if all(batch.intact for batch in written):
        assert unverified == expected
        if not any(batch.emptied for batch in written):
            assert of_text(as_text(written, old=True), worth_it=1).producers == expected.producers
            assert of_text(as_text(written, old=True), worth_it=1 << 30).producers == expected.producers
    return expected.producers


BATCHES = st.builds(
    Written,
    producer_id=st.sampled_from([-1, 0, 1, 2, 2**62]),
    epoch=st.integers(0, 2),
    sequence=st.one_of(st.none(), st.integers(0, 6), st.integers(MOST - 3, MOST)),
    records=st.integers(1, 4),
    transactional=st.booleans(),
    time=st.integers(0, 50),
    intact=st.sampled_from([True] * 9 + [False]),
    emptied=st.sampled_from([True] + [False] * 9),
).map(lambda one: one._replace(transactional=True) if one.sequence is None else one)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("segments")


@given(written=st.lists(BATCHES, max_size=40))
@example(written=[Written(1, 0, MOST - 1, 4), Written(1, 0, 2), Written(1, 0, 4)])
def test_every_reader_tells_the_same(folder: Path, written: list[Written]) -> None:
    with mock.patch.object(segment_reader, "_FIRST", 2):
        producers(folder, written)


@settings(max_examples=50)
@given(written=st.lists(BATCHES, min_size=10, max_size=40), rooms=st.sampled_from([(2, 1), (4, 3), (8, 40)]))
def test_however_little_is_read_at_once(folder: Path, written: list[Written], rooms: tuple[int, int]) -> None:
    room, batches = rooms
    with (
        mock.patch.object(scan_tables, "PRODUCER_ROOM", room),
        mock.patch.object(segment_fold, "_BATCHES", batches),
        mock.patch.object(segment_reader, "_FIRST", 1),
    ):
        producers(folder, written)


@settings(max_examples=50)
@given(written=st.lists(BATCHES, min_size=5, max_size=40), most=st.integers(0, 3))
def test_the_cap_on_gaps(folder: Path, written: list[Written], most: int) -> None:
    whole = producers(folder, written)
    with (
        mock.patch.object(producer_sums, "MAX_GAPS", most),
        mock.patch.object(producer_sums, "MAX_GAPS", most),
        mock.patch.object(scan_tables, "MAX_GAPS", most),
    ):
        assert producers(folder, written) == whole._replace(gaps=whole.gaps[:most])


@settings(max_examples=50)
@given(written=st.lists(BATCHES, min_size=5, max_size=40))
def test_the_cap_on_producers(folder: Path, written: list[Written]) -> None:
    whole = producers(folder, written)
    with mock.patch.object(producer_sums, "MAX_PRODUCERS", 2):
        found = producers(folder, written)
    assert found.spans == whole.spans[:2]
    assert found.gaps == tuple(gap for gap in whole.gaps if gap.producer_id in {span.producer_id for span in found.spans})
    left_out = sum(span.batch_count + span.marker_count for span in whole.spans[2:])
    assert found.untold_batches == whole.untold_batches + left_out


@given(written=st.lists(BATCHES, max_size=30), cuts=st.sets(st.integers(1, 29), max_size=3))
def test_segments_add_up_to_their_log(folder: Path, written: list[Written], cuts: set[int]) -> None:
    whole = one_by_one(kf.segment(folder, 0, content(written))).producers
    ends = [0, *sorted(cut for cut in cuts if cut < len(written)), len(written)]
    parts, offset = [], 0
    for begin, end in itertools.pairwise(ends):
        parts.append(one_by_one(kf.segment(folder / "parts", offset, content(written[begin:end], offset))).producers)
        offset += sum(batch.records for batch in written[begin:end])
    assert producers_of_log(parts) == whole


def test_of_a_log_with_a_segment_of_which_nothing_is_known_nothing_is_known() -> None:
    assert producers_of_log([Producers((), (), 0), None]) is None


# --- what they tell ---


def test_a_producer_whose_sequences_follow_each_other(tmp_path: Path) -> None:
    written = [Written(7, 3, MOST - 2, 2, transactional=False), Written(7, 3, MOST, 1, transactional=False)]
    found = producers(tmp_path, [*written, Written(7, 3, 0, 3, transactional=False, time=900)])
    (span,) = found.spans
    assert (span.first_epoch, span.first_sequence, span.last_sequence, span.last_data_offset) == (3, MOST - 2, 2, 5)
    assert (span.batch_count, span.record_count, span.min_timestamp_ms, span.max_timestamp_ms) == (3, 6, 902, 1_001)
    assert (span.gap_count, span.missing_count, span.open_first_offset, span.marker_count) == (0, 0, -1, 0)
    assert found == Producers((span,), (), 0)


def test_sequences_that_are_missing(tmp_path: Path) -> None:
    written = [Written(7, 0, 0, 2), Written(8, 0, 5), Written(7, 0, 5), Written(7, 0, 5), Written(7, 1, 0), Written(7, 2, 4)]
    found = producers(tmp_path, written)
    assert found.gaps == (
        SequenceGap(7, 1, 3, 0, 0, 2, 5, 3, 1_001, 1_000),
        SequenceGap(7, 3, 4, 0, 0, 6, 5, 0, 1_000, 1_000),  # it went back: nothing is missing
        SequenceGap(7, 5, 6, 1, 2, 0, 4, 4, 1_000, 1_000),
    )
    assert [(span.gap_count, span.missing_count) for span in found.spans] == [(3, 7), (0, 0)]


def test_a_marker_takes_no_sequence(tmp_path: Path) -> None:
    (span,) = producers(tmp_path, [Written(7, 0, 0), Written(7, 0, None), Written(7, 0, 1)]).spans
    assert (span.gap_count, span.last_sequence, span.marker_count) == (0, 1, 1)
    assert (span.first_marker_offset, span.last_marker_offset, span.open_first_offset) == (1, 1, 2)


@pytest.mark.parametrize(
    ("written", "opened"),
    [
        ([Written(7, 0, 0), Written(7, 0, 1)], (0, 1_000)),
        ([Written(7, 0, 0), Written(7, 0, None)], (-1, -1)),
        ([Written(7, 0, 0), Written(7, 1, None), Written(7, 1, 0, time=5)], (2, 5)),  # KIP-890: each has an epoch of its own
        ([Written(7, 0, 0), Written(8, 0, None)], (0, 1_000)),
        ([Written(7, 0, 0), Written(7, 5, 0), Written(7, 4, None)], (-1, -1)),  # whatever its epoch
        ([Written(7, 0, 0), Written(7, 0, None, emptied=True)], (0, 1_000)),  # of one that was emptied the records are gone, too
        ([Written(7, 0, 0, transactional=False)], (-1, -1)),
        ([Written(7, 0, None), Written(7, 0, 3)], (1, 1_000)),
    ],
)
def test_what_is_open_at_the_end(tmp_path: Path, written: list[Written], opened: tuple[int, int]) -> None:
    span = producers(tmp_path, written).spans[0]
    assert (span.open_first_offset, span.open_timestamp_ms) == opened


def test_a_batch_that_does_not_match_its_crc_is_of_nobody(tmp_path: Path) -> None:
    found = producers(tmp_path, [Written(7, 0, 0), Written(7, 0, 1, intact=False), Written(-1, -1, 0, intact=False, transactional=False)])
    assert (found.spans[0].batch_count, found.untold_batches) == (1, 1)


@pytest.mark.parametrize("root", [REAL, pytest.param(SHARED, marks=pytest.mark.clusters)], ids=["sample", "shared"])
def test_every_segment_of_real_brokers(root: Path) -> None:
    """No broker lost a record of an idempotent producer in them, but by elections that cut whole tails."""
    seen = 0
    for path in sorted({path.read_bytes(): path for path in root.rglob("[0-9]*.log")}.values()):
        expected = one_by_one(path)
        assert in_python(path) == expected, path
        assert natively(path) == expected, path
        seen += len(expected.producers.spans)
    assert seen > 20 or root == REAL or not root.is_dir()
