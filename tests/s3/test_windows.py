"""A segment that is read through a stream in windows gives what the same file gives through the system's own reads."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.formats.native import native_code
from replica_audit.formats.replicas import segment_reader
from replica_audit.formats.replicas.segment_reader import scan_file, scan_stream
from replica_audit.formats.segment.segment_fold import Scan
from replica_audit.formats.segment.segment_scan import base_offset_of
from tests.house.checkout import ROOT

SEGMENTS = sorted((ROOT / "tests" / "data" / "sample").rglob("*.log"))
CONTENT = max((path.read_bytes() for path in SEGMENTS if path.name[0] == "0"), key=len)
WINDOWS = [64, 100, 1000, 1 << 23]
CHUNK = 1 << 18  # in which Python reads a batch that is larger than a window


@pytest.fixture(scope="module", autouse=True)
def native() -> None:
    """The scan is compiled before, so that every file is read by it."""
    assert native_code.scanner(1 << 60) is not None


class Counted(io.BytesIO):
    """Bytes in memory, of which no more than `most` are read at once."""

    most = 0

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(size)
        self.most = max(self.most, len(content))
        return content


def through_windows(content: bytes, base_offset: int, window: int, *, verify_crc: bool = True) -> Scan:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(segment_reader, "WINDOW_BYTES", window)
        stream = Counted(content)
        found = scan_stream(stream, len(content), base_offset, verify_crc=verify_crc)
        assert stream.most <= max(window, CHUNK)
        return found


def through_the_system(folder: Path, content: bytes, base_offset: int, *, verify_crc: bool = True) -> Scan:
    path = folder / f"{base_offset:020d}.log"
    path.write_bytes(content)
    return scan_file(path, verify_crc=verify_crc)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("verify_crc", [True, False])
def test_every_segment_of_the_sample(window: int, verify_crc: bool) -> None:
    assert len(SEGMENTS) > 100
    for path in SEGMENTS:
        found = through_windows(path.read_bytes(), base_offset_of(path), window, verify_crc=verify_crc)
        assert found == scan_file(path, verify_crc=verify_crc), path


@given(st.integers(0, len(CONTENT)), st.integers(0, len(CONTENT) - 1), st.integers(0, 255), st.sampled_from(WINDOWS))
def test_damaged_ones(cut: int, at: int, byte: int, window: int) -> None:
    content = bytearray(CONTENT[:cut])
    if at < cut:
        content[at] = byte
    with tempfile.TemporaryDirectory() as folder:
        expected = through_the_system(Path(folder), bytes(content), 0)
    assert through_windows(bytes(content), 0, window) == expected
