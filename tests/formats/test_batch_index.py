"""The index of a segment's batches: every header comes back, whichever way it went in."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from replica_audit.collect.live_file import LiveFile
from replica_audit.collect.pace import Pace
from replica_audit.collect.segment_reading import read_segment
from replica_audit.formats.native import native_code
from replica_audit.formats.replicas.segment_reader import scan_file
from replica_audit.formats.segment.batch_index import BatchIndexWriter, read_index, synthetic
from replica_audit.formats.segment.record_batch import RAW_HEADER
from replica_audit.formats.segment.segment_fold import BatchColumns
from replica_audit.formats.segment.segment_scan import base_offset_of, read_batches
from replica_audit.model import BatchHeader
from tests.formats import kafka_files as kf
from tests.formats.segment_readers import native_code_for_tests

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
SEGMENTS = sorted({path.stat().st_size: path for path in SAMPLE.rglob("*.log") if path.name[0].isdigit()}.values())


def indexed(segment: Path, index: Path, *, verify_crc: bool = True) -> list[BatchHeader]:
    writer = BatchIndexWriter(index)
    with LiveFile(os.open(segment, os.O_RDONLY), segment.stat().st_size, Pace(None), is_sequential=verify_crc) as file:
        fold = read_segment(file, base_offset_of(segment), writer, verify_crc=verify_crc)
    writer.close()
    assert fold.scan() == scan_file(segment, verify_crc=verify_crc)
    found = list(read_index(index, may_go_back=fold.scan().went_back is not None))
    assert writer.count == len(found)
    return found


def expected(segment: Path, *, verify_crc: bool = True) -> list[BatchHeader]:
    return [item for item in read_batches(segment, verify_crc=verify_crc) if isinstance(item, BatchHeader)]


@pytest.fixture(params=["python", "native"])
def _reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = native_code_for_tests() if request.param == "native" else None
    monkeypatch.setattr(native_code, "scanner", lambda _batches: chosen)


@pytest.mark.usefixtures("_reading")
@pytest.mark.parametrize("verify_crc", [True, False])
def test_real_segments(tmp_path: Path, verify_crc: bool) -> None:
    assert len(SEGMENTS) > 20
    for segment in SEGMENTS:
        assert indexed(segment, tmp_path / "i.parquet", verify_crc=verify_crc) == expected(segment, verify_crc=verify_crc), segment


MADE = {
    "empty": b"",
    "control": kf.control_batch(0, 3) + kf.empty_batch(1, 3, last_delta=8) + kf.batch(10, 4, transactional=True, producer=(2**40, 7, 9)),
    "legacy": kf.legacy(0, [0, 1]) + kf.legacy(1, [2, 3, 4], codec=kf.GZIP) + kf.legacy(1, [5]),
    "mixed": kf.legacy(1, [0], value=b"") + kf.batch(1, 0) + kf.legacy(1, [2], value=b""),
    "bad CRC": kf.batch(0, 0) + kf.with_field(kf.batch(1, 0), ">I", 17, 1) + kf.batch(2, 0),
    "torn": kf.batch(0, 0) + kf.batch(1, 0)[:-1],
    "zeros": kf.batch(0, 0) + bytes(5_000),
    "overlap": kf.batch(5, 0) + kf.batch(4, 0),
    "large": kf.batch(0, 0, value=os.urandom(3 << 20)) + kf.batch(1, 0, value=b"x" * (5 << 20)) + kf.batch(2, 1),
}


@pytest.mark.usefixtures("_reading")
@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("verify_crc", [True, False])
def test_made_segments(tmp_path: Path, name: str, verify_crc: bool) -> None:
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(MADE[name])
    assert indexed(segment, tmp_path / "i.parquet", verify_crc=verify_crc) == expected(segment, verify_crc=verify_crc)


@pytest.mark.slow
def test_many_row_groups(tmp_path: Path) -> None:
    writer = BatchIndexWriter(tmp_path / "i.parquet")
    header = expected(SEGMENTS[-1])[0]
    for number in range(200_000):
        writer.add(header._replace(base_offset=number, last_offset=number))
    writer.close()
    assert [found.base_offset for found in read_index(tmp_path / "i.parquet")] == list(range(200_000))


@pytest.mark.parametrize("cut", [0, 4, 100, -1])
def test_a_damaged_index_is_an_error_that_can_be_caught(tmp_path: Path, cut: int) -> None:
    index = tmp_path / "i.parquet"
    indexed(SEGMENTS[-1], index)
    index.write_bytes(index.read_bytes()[:cut])
    with pytest.raises(OSError):
        list(read_index(index))


def test_flipped_bytes_are_told_or_change_nothing(tmp_path: Path) -> None:
    index = tmp_path / "i.parquet"
    whole = indexed(SEGMENTS[-1], index)
    content = index.read_bytes()
    for at in range(0, len(content), max(1, len(content) // 97)):
        changed = bytearray(content)
        changed[at] ^= 0x20
        index.write_bytes(changed)
        try:
            found = list(read_index(index))
        except OSError:
            continue
        assert found == whole


def test_made_up_batches_are_parted_at_the_cut() -> None:
    run = expected(SEGMENTS[-1])[0]._replace(base_offset=10, last_offset=19, record_count=10, size_bytes=1001)
    parts = list(synthetic([run], 13))
    assert [(part.base_offset, part.last_offset, part.record_count) for part in parts] == [(10, 12, 3), (13, 19, 7)]
    assert sum(part.size_bytes for part in parts) == 1001
    assert list(synthetic([run], 10)) == list(synthetic([run], 20)) == [run]


def test_what_fails_while_the_next_rows_are_read_is_not_lost(tmp_path: Path) -> None:
    index = tmp_path / "i.parquet"
    writer = BatchIndexWriter(index)
    (opened,) = (int(fd.name) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink() and os.path.realpath(fd) == str(index))
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, opened)  # from here on there is no room
    os.close(full)
    rows = np.zeros(1 << 17, RAW_HEADER)
    try:
        with pytest.raises(OSError, match="No space left"):
            for _ in range(3):
                writer.add_columns(BatchColumns(np.zeros(len(rows), np.int64), rows, None).for_index())
    finally:
        writer.stop()
