"""Native code against Python: the same rows of any segment, sound or damaged, however it lies in the buffers."""

from __future__ import annotations

import ctypes
import itertools
import os
import random
import signal
import tracemalloc
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import crc32c
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba import njit

from replica_audit.files.opened import NotAFileError
from replica_audit.formats.native import kernels, native_code, scan_tables
from replica_audit.formats.native.native_code import SegmentScan
from replica_audit.formats.replicas import segment_reader
from replica_audit.formats.replicas.segment_reader import scan_file, scan_stream
from replica_audit.formats.segment import segment_fold, segment_scan
from replica_audit.formats.segment.record_batch import codec_name
from replica_audit.formats.segment.segment_fold import Scan, SegmentFold
from replica_audit.formats.segment.segment_scan import scan
from replica_audit.model import BatchHeader
from tests.formats import kafka_files as kf
from tests.formats.segment_readers import in_python, native_code_for_tests, natively, one_by_one

DATA = Path(__file__).parents[1] / "data"
REAL = sorted({path.read_bytes(): path for path in DATA.rglob("[0-9]*.log")}.values())
MANY = settings(max_examples=max(600, settings().max_examples))


def mixed_segment() -> bytes:
    """Batches of all kinds and sizes: headers that Python reads one by one and those that a read skips to lie side by side."""
    chance, made, offset = random.Random(5), bytearray(), 0  # noqa: S311 -- the same bytes every time
    for magic in (0, 1):
        made += kf.legacy(magic, [offset]) + kf.legacy(magic, range(offset + 1, offset + 20), codec=kf.GZIP)
        offset += 30
    for number in range(120):
        size = chance.choice([0, 1, 40, 300, 4000, 5000, 20_000, 140_000] if number % 8 == 0 else [0, 10, 300, 700])
        deltas = range(chance.randint(1, 3))
        producer = chance.choice([(-1, -1, -1), (7, 0, number), (8, 1, 5)])
        content: dict[str, Any] = {"value": chance.randbytes(size), "timestamp": chance.randint(0, 10**12)}
        made += kf.batch(offset, number // 30, deltas=deltas, producer=producer, transactional=producer[0] == 8, **content)
        offset += len(deltas) + (chance.random() < 0.05)
    return bytes(made + kf.empty_batch(offset, 9, last_delta=3) + kf.control_batch(offset + 70_000, 9))


MIXED = mixed_segment()
SMALL = b"".join(kf.batch(i, i // 3, value=b"v" * i) for i in range(12)) + kf.legacy(1, [12]) + kf.legacy(1, [13, 15], codec=kf.GZIP)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("segments")


def assert_same(path: Path, **options: SegmentScan) -> Scan:
    """Scan in every way; what they agree on."""
    for verify_crc in (False, True):
        expected = one_by_one(path, verify_crc=verify_crc)
        assert in_python(path, verify_crc=verify_crc) == expected, verify_crc
        assert natively(path, verify_crc=verify_crc, **options) == expected, verify_crc
    return expected


# --- sound segments ---


def test_segments_of_real_brokers() -> None:
    assert len(REAL) > 100
    assert sum(run.batch_count for path in REAL for run in assert_same(path).runs) > 900


@pytest.mark.parametrize("content", [b"", MIXED, SMALL, SMALL[:40], bytes(100)], ids=["empty", "mixed", "small", "torn", "zeros"])
def test_made_segments(tmp_path: Path, content: bytes) -> None:
    assert_same(kf.segment(tmp_path, 0, content))


def test_a_scan_is_the_fold_of_the_batches(tmp_path: Path) -> None:
    path = kf.segment(tmp_path, 0, MIXED, b"tail")
    assert natively(path) == scan(segment_scan.read_batches(path))


@pytest.mark.parametrize("buffer", [64, 65, 100, 4096, 1 << 15])
def test_wherever_the_buffer_ends(tmp_path: Path, buffer: int) -> None:
    path = kf.segment(tmp_path, 0, MIXED)
    with mock.patch.object(segment_reader, "BUFFER_BYTES", buffer):
        assert_same(path)


def test_wherever_the_buffer_ends_in_a_header(tmp_path: Path) -> None:
    path = kf.segment(tmp_path, 0, SMALL)
    for buffer in range(64, 400):
        with mock.patch.object(segment_reader, "BUFFER_BYTES", buffer):
            assert natively(path) == one_by_one(path)


@pytest.mark.parametrize(("runs", "windows", "at_once"), [(2, 1, 1), (2, 1, 1 << 26), (3, 2, 500), (128, 256, 1)])
def test_however_few_rows_and_bytes_a_call_gives(tmp_path: Path, runs: int, windows: int, at_once: int) -> None:
    path = kf.segment(tmp_path, 0, MIXED)
    with (
        mock.patch.object(scan_tables, "RUN_ROOM", runs),
        mock.patch.object(scan_tables, "WINDOW_ROOM", windows),
        mock.patch.object(segment_reader, "CALL_BYTES", at_once),
    ):
        assert_same(path)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("room", [2, 3, 128])
def test_the_cap_on_runs(tmp_path: Path, most: int, room: int) -> None:
    path = kf.segment(tmp_path, 0, *(kf.batch(2 * i, i // 7) for i in range(20)))
    with mock.patch.object(segment_fold, "MAX_RUNS", most), mock.patch.object(scan_tables, "RUN_ROOM", room):
        assert_same(path)


def test_compiled_code_goes_on_where_python_is(tmp_path: Path) -> None:
    path, native = kf.segment(tmp_path, 0, MIXED, b"torn"), native_code_for_tests()
    for until in (1, 2, 5):
        asked = itertools.count()
        with (
            mock.patch.object(segment_fold, "_BATCHES", 10),
            mock.patch.object(segment_fold, "_WINDOWS", 1),
            mock.patch.object(segment_fold, "_WINDOW", 10_000),
            mock.patch.object(segment_reader, "_STRANGE", 3),
            mock.patch.object(native_code, "scanner", lambda _batches, asked=asked, until=until: native if next(asked) >= until else None),
        ):
            assert scan_file(path) == one_by_one(path)


@pytest.mark.parametrize(("window", "windows", "batches"), [(61, 1, 1), (5_000, 2, 3), (30_000, 16, 50), (1 << 20, 1, 4096)])
def test_however_many_columns_hold(tmp_path: Path, window: int, windows: int, batches: int) -> None:
    content = bytearray(MIXED)
    content[len(content) // 2] ^= 1
    path = kf.segment(tmp_path, 0, bytes(content), *(kf.batch(100_000 + 2 * i, i // 9, value=bytes(i)) for i in range(60)), b"torn")
    with (
        mock.patch.object(segment_fold, "_WINDOW", window),
        mock.patch.object(segment_fold, "_WINDOWS", windows),
        mock.patch.object(segment_fold, "_BATCHES", batches),
        mock.patch.object(segment_reader, "_FIRST", 1),
        mock.patch.object(segment_reader, "_STRANGE", 1),
    ):
        assert assert_same(path).first_bad_crc is not None


class Kept:
    """Takes headers as an index does."""

    def __init__(self) -> None:
        self.batches: list[BatchHeader] = []

    def add(self, header: BatchHeader) -> None:
        self.batches.append(header)

    def add_columns(self, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        attributes = columns["attributes"].astype(int)
        told = {
            "crc_valid": np.full(len(attributes), None),
            **columns,
            "codec": np.array([codec_name(each) for each in attributes]),
            "is_transactional": attributes & 16 != 0,
            "is_control": attributes & 32 != 0,
        }
        self.batches += map(BatchHeader._make, zip(*(told[name].tolist() for name in BatchHeader._fields), strict=True))


@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize(("room", "buffer"), [(1, 64), (3, 100), (8192, 1 << 18)])
@pytest.mark.parametrize("tail", [b"", b"torn behind the last batch", bytes(100)])
def test_headers_of_all_batches(tmp_path: Path, is_native: bool, room: int, buffer: int, tail: bytes) -> None:
    content = bytearray(MIXED)
    content[-1] ^= 1
    path = kf.segment(tmp_path, 0, bytes(content), tail)
    chosen = native_code_for_tests() if is_native else None
    for verify_crc in (False, True):
        kept = Kept()
        with (
            mock.patch.object(segment_reader, "HEADER_ROOM", room),
            mock.patch.object(segment_reader, "BUFFER_BYTES", buffer),
            mock.patch.object(native_code, "scanner", lambda _batches: chosen),
            path.open("rb") as stream,
        ):
            segment_reader.SegmentReader(stream, path.stat().st_size, SegmentFold(0), verify_crc=verify_crc, index=kept).read()
        batches = [item for item in segment_scan.read_batches(path, verify_crc=verify_crc) if isinstance(item, BatchHeader)]
        assert kept.batches == batches


# --- which way is gone ---


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For how many batches compiled code was asked for, in a process that has read nothing yet."""
    counts: list[int] = []
    monkeypatch.setattr(segment_reader, "_read_in_python", 0)
    monkeypatch.setattr(native_code, "scanner", lambda batches: counts.append(batches))
    return counts


def test_a_small_file_is_not_worth_it(tmp_path: Path, asked: list[int]) -> None:
    scan_file(kf.segment(tmp_path, 0, SMALL))
    assert max(asked) < 100


def test_a_large_file_is_known_by_its_first_batches(tmp_path: Path, asked: list[int]) -> None:
    path = kf.segment(tmp_path, 0, *(kf.batch(i, 0) for i in range(64)))
    size = path.stat().st_size
    with path.open("r+b") as stream:
        stream.truncate(size * 1000)
    scan_file(path)
    assert asked[0] == 0
    assert asked[1] == pytest.approx(64_000, rel=0.01)


def test_many_small_files_add_up(tmp_path: Path, asked: list[int]) -> None:
    path = kf.segment(tmp_path, 0, *(kf.batch(i, 0) for i in range(100)))
    for _ in range(50):
        scan_file(path)
    assert asked[-1] > 49 * 100
    assert max(asked) < 51 * 100


# --- files that change, and huge ones ---


@pytest.mark.parametrize("missing", [1, 17, 18, 60, 61, 62, 1000, 1 << 17, 1 << 30])
@pytest.mark.parametrize("verify_crc", [False, True])
def test_a_file_that_is_shorter_than_it_was(tmp_path: Path, missing: int, verify_crc: bool) -> None:
    last = kf.batch(len(SMALL), 0, value=b"x" * 5000)
    content = SMALL + last
    for left in (len(SMALL), len(SMALL) + 5, len(SMALL) + 61, len(SMALL) + 3000, len(content)):
        path = kf.segment(tmp_path, 0, content[:left])
        found = []
        for scanner in (None, native_code_for_tests()):
            with path.open("rb") as stream, mock.patch.object(native_code, "scanner", lambda _batches, scanner=scanner: scanner):
                found.append(scan_stream(stream, left + missing, 0, verify_crc=verify_crc))
        assert found == [found[0]] * 2


def test_a_file_that_has_grown_is_read_as_far_as_it_went(tmp_path: Path) -> None:
    path, native = kf.segment(tmp_path, 0, MIXED), native_code_for_tests()
    with path.open("rb") as stream, mock.patch.object(native_code, "scanner", lambda _batches: native):
        before = scan_stream(stream, len(SMALL), 0, verify_crc=True)
    assert before == in_python(kf.segment(tmp_path, 0, MIXED[: len(SMALL)]))


def test_what_cannot_be_read_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").mkdir()
    with pytest.raises(NotAFileError):
        natively(tmp_path / "00000000000000000000.log")
    writable = os.open(tmp_path / "1.log", os.O_WRONLY | os.O_CREAT)  # every read of it fails
    try:
        os.truncate(writable, 1000)
        with os.fdopen(writable, "wb", closefd=False) as stream, pytest.raises(OSError, match="read"):
            scan_stream(stream, 1000, 0, verify_crc=True)
    finally:
        os.close(writable)


def test_a_segment_of_more_than_four_gib(tmp_path: Path) -> None:
    """Sparse: two batches of the largest size there is, and a small one behind them."""
    path, size = tmp_path / "00000000000000000000.log", 2**31 - 1
    with path.open("wb") as stream:
        for number in range(2):
            stream.write(kf.with_field(kf.batch(number, 3), ">i", 8, size))
            stream.seek((number + 1) * (size + 12))
        stream.write(kf.batch(2, 4))
    found = natively(path, verify_crc=False)
    assert found == in_python(path, verify_crc=False)
    assert [(run.leader_epoch, run.size_bytes) for run in found.runs] == [(3, 2 * (size + 12)), (4, len(kf.batch(2, 4)))]
    assert (found.damage, found.first_bad_crc) == (None, None)


def test_record_counts_beyond_64_bits(tmp_path: Path) -> None:
    """Only damage makes such: the sum stays a number that a table can hold."""
    wrapper = kf.with_field(kf.legacy(0, [0, 1], codec=kf.GZIP), ">q", 0, 2**63 - 2)
    found = assert_same(kf.segment(tmp_path, 0, kf.batch(0, -1, deltas=range(5)), kf.batch(5, -1), wrapper))
    assert found.runs[-1].record_count <= 2**63 - 1
    assert found.runs[-1].last_offset == 2**63 - 2
    assert found.windows[-1].window_end_offset == 2**63 - 1
    crowded = kf.sealed(kf.with_field(kf.empty_batch(0, -1, last_delta=0), ">i", 57, 2**31 - 1))
    whole = kf.with_field(wrapper, ">q", 0, 2**63 - 4)
    after = [kf.with_field(crowded, ">q", 0, 2**63 - 3), kf.with_field(crowded, ">q", 0, 2**63 - 2)]
    found = assert_same(kf.segment(tmp_path, 0, crowded, whole, *after))
    assert found.runs[-1].record_count == 2**63 - 1
    assert found.damage is None


def test_memory_stays_bounded(tmp_path: Path) -> None:
    native_code_for_tests()
    path = tmp_path / "00000000000000000000.log"
    with path.open("wb") as stream:
        stream.write(kf.with_field(kf.batch(0, 0), ">i", 8, (1 << 28) - 12))
        stream.truncate((1 << 28) + 100)
    tracemalloc.start()
    try:
        found = natively(path)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.first_bad_crc == 0
    assert peak < 4 << 20


# --- other threads, signals, machines ---


def test_a_signal_is_heard_while_a_file_is_read(tmp_path: Path) -> None:
    path = kf.segment(tmp_path, 0, MIXED)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        with pytest.raises(KeyboardInterrupt), mock.patch.object(segment_reader, "CALL_BYTES", 1 << 12):
            for _ in range(100_000):
                natively(path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def portable() -> Iterator[SegmentScan]:
    """The scan as other processors run it, without an instruction for CRC-32C."""
    with mock.patch.object(kernels, "_v2_crc", kernels.crc_by_tables(kernels.CRC32C_POLYNOMIAL)):
        yield njit(kernels.scan.py_func)


@pytest.mark.slow
def test_a_processor_without_the_instruction(tmp_path: Path, portable: SegmentScan) -> None:
    assert_same(kf.segment(tmp_path, 0, MIXED), scanner=portable)
    rotten = bytearray(MIXED)
    rotten[-10] ^= 1
    assert assert_same(kf.segment(tmp_path, 0, bytes(rotten)), scanner=portable).first_bad_crc is not None


@pytest.fixture(scope="module")
def checksums() -> dict[str, tuple[Callable[[int, int, int], int], Callable[[bytes], int]]]:
    def called(function: Callable[[int, int, int], int]) -> Callable[[int, int, int], int]:
        @njit
        def call(crc: int, address: int, size: int) -> int:
            return function(crc, address, size)

        return call  # type: ignore[no-any-return]

    return {
        "instruction": (called(kernels.crc32c_by_instruction), crc32c.crc32c),
        "tables": (called(kernels.crc_by_tables(kernels.CRC32C_POLYNOMIAL)), crc32c.crc32c),
        "legacy": (called(kernels.crc_by_tables(kernels.CRC32_POLYNOMIAL)), zlib.crc32),
    }


HAS_INSTRUCTION = kernels.has_instructions()


@pytest.mark.parametrize("kind", [*(["instruction"] if HAS_INSTRUCTION else []), "tables", "legacy"])
def test_checksums_of_any_length_anywhere(checksums: dict[str, tuple[Callable[..., int], Callable[[bytes], int]]], kind: str) -> None:
    ours, theirs = checksums[kind]
    content = random.Random(1).randbytes(1 << 16)  # noqa: S311 -- the same bytes every time
    buffer = ctypes.create_string_buffer(content, len(content))
    for size in [*range(1200), 3071, 3072, 3073, 6144, 9000, 65_000]:
        at = size % 11
        expected = theirs(content[at : at + size])
        first = ours(0xFFFFFFFF, ctypes.addressof(buffer) + at, size // 3)
        assert ours(first, ctypes.addressof(buffer) + at + size // 3, size - size // 3) ^ 0xFFFFFFFF == expected, size


# --- any damage anywhere ---

SEGMENTS = {"mixed": MIXED, "small": SMALL} | {str(path.relative_to(DATA)): path.read_bytes() for path in REAL}
NAMES = sorted(name for name, content in SEGMENTS.items() if content)
NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1), st.sampled_from([2**31 - 1, 2**31, 2**62, 2**63 - 2, 2**63 - 1, 2**63]))
FIELDS = st.sampled_from([(0, 8), (8, 4), (12, 4), (16, 1), (17, 4), (18, 8), (21, 2), (23, 4), (35, 8), (57, 4)])
EDITS = st.one_of(
    st.tuples(st.just("flip"), st.floats(0, 1), st.integers(1, 255)),
    st.tuples(st.just("field"), st.integers(0, 20), FIELDS, NUMBERS),
    st.tuples(st.just("insert"), st.floats(0, 1), st.binary(min_size=1, max_size=80)),
    st.tuples(st.just("remove"), st.floats(0, 1), st.integers(1, 300)),
    st.tuples(st.just("repeat"), st.floats(0, 1), st.integers(1, 300)),
    st.tuples(st.just("cut"), st.floats(0, 1)),
    st.tuples(st.just("zeros"), st.integers(1, 200)),
)


def starts(content: bytes) -> list[int]:
    """Where the batches of a sound segment begin."""
    found, at = [], 0
    while at + 12 < len(content):
        found.append(at)
        at += 12 + int.from_bytes(content[at + 8 : at + 12], "big")
    return found


def edited(content: bytes, edit: tuple[object, ...]) -> bytes:
    """The bytes after one edit; places are told as a part of the whole."""
    match edit:
        case ("flip", float(place), int(mask)):
            at = min(int(place * len(content)), len(content) - 1)
            return content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :] if content else content
        case ("field", int(number), (int(offset), int(width)), int(value)):
            known = starts(content) or [0]
            at = known[number % len(known)] + offset
            return content[:at] + (value % (1 << 8 * width)).to_bytes(width, "big") + content[at + width :]
        case ("insert", float(place), bytes(more)):
            return content[: int(place * len(content))] + more + content[int(place * len(content)) :]
        case ("remove", float(place), int(count)):
            return content[: int(place * len(content))] + content[int(place * len(content)) + count :]
        case ("repeat", float(place), int(count)):
            at = int(place * len(content))
            return content[:at] + content[at : at + count] + content[at:]
        case ("cut", float(place)):
            return content[: int(place * len(content))]
        case ("zeros", int(count)):
            return content + bytes(count)
        case _:
            raise AssertionError(edit)


@MANY
@given(
    name=st.sampled_from(NAMES),
    base=st.sampled_from([0, 0, 0, 3, 2**63 - 1]),
    edits=st.lists(EDITS, min_size=1, max_size=3),
    buffer=st.sampled_from([64, 100, 512, 1 << 17]),
    room=st.sampled_from([2, 128]),
)
@example(name="small", base=0, edits=[("field", 0, (0, 8), 2**63 - 1)], buffer=64, room=2)
def test_damaged_segments(folder: Path, name: str, base: int, edits: list[tuple[object, ...]], buffer: int, room: int) -> None:
    content = SEGMENTS[name]
    for edit in edits:
        content = edited(content, edit)
    path = kf.segment(folder, base, content)
    with mock.patch.object(segment_reader, "BUFFER_BYTES", buffer), mock.patch.object(scan_tables, "RUN_ROOM", room):
        found = assert_same(path)
    assert sum(run.batch_count for run in found.runs) == sum(window.batch_count for window in found.windows) <= len(content) // 26
    path.unlink()


@MANY
@given(st.binary(max_size=400), st.sampled_from([64, 1 << 17]))
def test_any_bytes_at_all(folder: Path, content: bytes, buffer: int) -> None:
    with mock.patch.object(segment_reader, "BUFFER_BYTES", buffer):
        assert_same(kf.segment(folder, 0, content))


def test_every_bit_of_every_header_field(folder: Path) -> None:
    places = starts(SMALL)
    for start, byte, bit in itertools.product((places[0], places[5], places[-1]), range(61), range(8)):
        if start + byte < len(SMALL):
            changed = bytearray(SMALL)
            changed[start + byte] ^= 1 << bit
            path = kf.segment(folder, 0, bytes(changed))
            assert natively(path) == in_python(path), (start, byte, bit)


def test_every_cut(folder: Path) -> None:
    for length in range(len(SMALL)):
        path = kf.segment(folder, 0, SMALL[:length])
        assert natively(path) == in_python(path), length
