"""Digests: equal for equal batches wherever segments begin, different for anything that two replicas must not differ in."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.errors import DumpLogError
from replica_audit.formats.dump import dump_log
from replica_audit.formats.replicas.segment_reader import scan_file
from replica_audit.formats.segment import segment_fold
from replica_audit.formats.segment.segment_fold import WINDOW_BITS, WindowSums, batch_digest
from replica_audit.formats.segment.segment_scan import read_batches, scan
from replica_audit.model import BatchHeader, Window
from replica_audit.protocol.comparison.content import merged
from tests.formats import kafka_files as kf
from tests.formats.segment_readers import natively

WIDTH = 1 << WINDOW_BITS
SAMPLES = Path(__file__).parents[1] / "data" / "dump-samples"
LOG = [(i * 9_000, kf.batch(i * 9_000, i // 10, deltas=(0, 7_000), value=b"%d" % i)) for i in range(60)]


def windows(folder: Path, base: int, *batches: bytes) -> tuple[Window, ...]:
    path = kf.segment(folder, base, *batches)
    found = scan_file(path).windows
    assert natively(path).windows == found
    return found


def header(base: int, last: int, crc: int = 77, magic: int = 2) -> BatchHeader:
    return next(
        scan_header for scan_header in [BatchHeader(0, base, last, 70, magic, 0, 1, 5, crc, True, "none", False, False, -1, -1, -1)]
    )


def test_windows_are_aligned_and_count_the_batches_that_begin_in_them(tmp_path: Path):
    found = windows(tmp_path, 0, *(made for _, made in LOG))
    assert [(window.window_start_offset, window.window_end_offset) for window in found] == [(i * WIDTH, (i + 1) * WIDTH) for i in range(9)]
    assert [window.batch_count for window in found] == [sum(base // WIDTH == i for base, _ in LOG) for i in range(9)]
    assert all(-(2**63) <= window.digest < 2**63 for window in found)


def test_a_window_without_batches_has_no_row(tmp_path: Path):
    found = windows(tmp_path, 0, kf.batch(3, 0), kf.batch(10 * WIDTH, 0))
    assert [window.window_start_offset for window in found] == [0, 10 * WIDTH]


@pytest.mark.parametrize("cuts", [(30,), (1, 59), (7, 8, 9, 40), tuple(range(1, 60))])
def test_where_segments_begin_does_not_matter(tmp_path: Path, cuts: tuple[int, ...]):
    whole = windows(tmp_path, 0, *(made for _, made in LOG))
    parts = [LOG[first:last] for first, last in pairwise((0, *cuts, 60))]
    found = [window for part in parts for window in windows(tmp_path / "parts", part[0][0], *(made for _, made in part))]
    random.Random(3).shuffle(found)  # noqa: S311 -- the same order every time
    assert merged(found) == whole


@pytest.mark.parametrize(
    ("at", "form", "value", "differs"),
    [(0, ">q", 5, True), (17, ">I", 1, True), (23, ">i", 8, True), (12, ">i", 99, False)],
    ids=["base offset", "CRC", "last offset delta", "leader epoch"],
)
def test_what_differs_is_seen_in_its_window_alone(tmp_path: Path, at: int, form: str, value: int, differs: bool):
    made = [kf.batch(base, 0) for base in (0, WIDTH + 1, 2 * WIDTH)]
    changed = kf.with_field(made[1], form, at, value + (WIDTH if at == 0 else 0))
    before, after = windows(tmp_path, 0, *made), windows(tmp_path, 0, made[0], changed, made[2])
    assert [left == right for left, right in zip(before, after, strict=True)] == [True, not differs, True]


def test_a_changed_payload_is_seen_by_the_crc_that_comes_with_it(tmp_path: Path):
    assert windows(tmp_path, 0, kf.batch(0, 0, value=b"a")) != windows(tmp_path, 0, kf.batch(0, 0, value=b"b"))


def test_rotten_bytes_are_left_to_the_crc(tmp_path: Path):
    made = kf.batch(0, 0)
    rotten = kf.segment(tmp_path, 0, made[:-1] + b"\xff")
    assert scan_file(rotten).windows == windows(tmp_path / "sound", 0, made)
    assert scan_file(rotten).first_bad_crc == 0


def test_batches_missing_or_exchanged_are_seen():
    first, second = header(0, 4, crc=1), header(5, 9, crc=2)
    exchanged = header(0, 4, crc=2), header(5, 9, crc=1)
    digests = {scan(batches).windows for batches in ([first, second], [first], [second], exchanged, [])}
    assert len(digests) == 5


@pytest.mark.parametrize("magic", [0, 1])
def test_what_a_compressed_legacy_entry_is_taken_to_begin_with_does_not_matter(tmp_path: Path, magic: int):
    entry = kf.legacy(magic, [8, 9], codec=kf.GZIP)
    one = windows(tmp_path, 0, kf.legacy(magic, [0]), entry)
    other = windows(tmp_path, 0, kf.legacy(magic, [0])) + windows(tmp_path, 7, entry)
    assert merged(other) == one


@given(st.lists(st.tuples(st.integers(0, 2**63 - 2), st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1)), unique=True, max_size=50))
def test_batches_are_told_apart(fields: list[tuple[int, int, int]]):
    assert len({batch_digest(header(base, base + delta, crc)) for base, delta, crc in fields}) == len(fields)


def test_known_values():
    """Digests are stored and compared with those of later versions. The inner mix of offset 0 is the first number of SplitMix64 from 0."""
    assert scan([header(0, 0, crc=0)]).windows == (Window(0, WIDTH, 0x48218226FF3CD4BF, 1),)
    assert batch_digest(header(2**40 + 3, 2**40 + 9, crc=0xDEADBEEF)) == 0x4383E2959B9A8B41


# --- bounds ---


def test_windows_become_wider_where_there_would_be_too_many(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(segment_fold, "MAX_WINDOWS", 5)
    batches = [kf.batch(i * WIDTH + 1, 0) for i in range(40)]
    found = windows(tmp_path, 0, *batches)
    assert len(found) == 5
    assert {window.window_end_offset - window.window_start_offset for window in found} == {8 * WIDTH}
    assert [window.window_start_offset for window in found] == [i * 8 * WIDTH for i in range(5)]
    assert sum(window.batch_count for window in found) == 40
    monkeypatch.undo()
    fine = windows(tmp_path, 0, *batches)
    assert len(fine) == 40
    assert merged((*fine[:8], *found[1:])) == found


def test_windows_at_the_end_of_64_bits(tmp_path: Path):
    last = 2**63 - 2
    (only,) = windows(tmp_path, last, kf.batch(last, 0))
    assert only[:2] == (2**63 - WIDTH, 2**63 - 1)
    assert merged([only]) == (only,)
    sums = WindowSums()
    sums.add_batch(header(last, last))
    assert sums.windows()[0].window_start_offset == only.window_start_offset


def test_merging_nothing():
    assert merged([]) == ()


# --- text ---


def batches_told(text: Path) -> list[BatchHeader] | None:
    """The batches of a text; None where kafka-dump-log of its version could not read the segment."""
    with text.open("rb") as stream:
        try:
            (section,) = dump_log.sections(stream)
            return [item for item in dump_log.batches(stream, section) if isinstance(item, BatchHeader)]
        except DumpLogError:
            return None


TOLD = [(text, told) for text in sorted(SAMPLES.rglob("*shallow.txt")) if (told := batches_told(text)) is not None]


@pytest.mark.parametrize(("text", "from_text"), TOLD, ids=[f"{text.parent.name}/{text.name}" for text, _ in TOLD])
def test_text_gives_the_digests_of_its_segment(text: Path, from_text: list[BatchHeader]):
    from_raw = [item for item in read_batches(next(text.parent.glob("*.log"))) if isinstance(item, BatchHeader)]
    assert len(from_text) == len(from_raw)
    assert scan(from_text).windows == scan(from_raw).windows
