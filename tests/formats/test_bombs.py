"""Batches that would fill memory, or never end: read in a process of their own, whose memory is measured."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa
import pytest

from replica_audit.formats.coordinators.group_offsets import committed_offsets
from replica_audit.formats.segment import records as under_test
from replica_audit.formats.segment.records import REMEDIES, UnreadableRecords, read_records
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf

pytestmark = pytest.mark.slow  # all together
Packed = Literal["gzip", "snappy", "lz4", "zstd"]
GIB = 1 << 30
MOST_MORE = 250 << 20  # bytes that a process may grow by: a batch's limit, what it grew from, and its codec's window
READ = """
import json, resource, sys
from pathlib import Path
from replica_audit.formats.segment.records import UnreadableRecords, read_records
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
before, found = peak(), []
for item in read_records(Path(sys.argv[1])):
    found.append([item.code, item.byte_offset, item.detail] if isinstance(item, UnreadableRecords) else len(item[1]))
    del item
print(json.dumps([peak() - before, found]))
"""
ONE = rf.batch(0, (b"k", b"v"))
GOOD = rf.batch(9, (b"good", None))


class Found(NamedTuple):
    """What was read, and how many bytes the process grew by."""

    grew: int
    items: list[int | list[str | int]]


def read_apart(path: Path) -> Found:
    """Read a segment in a process of its own; that it comes to an end is half of the test."""
    done = subprocess.run([sys.executable, "-c", READ, str(path)], check=True, capture_output=True, text=True, timeout=300)
    return Found(*json.loads(done.stdout))


def bomb(codec: Packed, size: int) -> bytes:
    """So many zero bytes, compressed without being held."""
    if codec == "snappy":
        block = pa.Codec("snappy").compress(bytes(1 << 20), asbytes=True)
        return rf.XERIAL + (struct.pack(">i", len(block)) + block) * (size >> 20)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        for _ in range(size >> 20):
            stream.write(bytes(1 << 20))
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("codec", ["zstd", "snappy", *(pytest.param(codec, marks=pytest.mark.nightly) for codec in ("gzip", "lz4"))])
def test_a_gibibyte_out_of_a_few_is_not_decompressed(tmp_path: Path, codec: Packed) -> None:
    found = read_apart(kf.segment(tmp_path, 0, GOOD, kf.with_field(rf.with_codec(ONE, codec, bomb(codec, GIB)), ">q", 0, 20)))
    (good, unreadable) = found.items
    assert good == 1
    assert isinstance(unreadable, list)
    assert unreadable[:2] == ["records-beyond-limit", len(GOOD)]
    assert str(unreadable[2]).startswith("offsets 20..20: ")
    assert found.grew < MOST_MORE


@pytest.mark.parametrize("codec", ["lz4", *(pytest.param(codec, marks=pytest.mark.nightly) for codec in ("gzip", "snappy"))])
@pytest.mark.parametrize("magic", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_gibibyte_in_a_legacy_entry(tmp_path: Path, magic: int, codec: Packed) -> None:
    found = read_apart(kf.segment(tmp_path, 0, rf.wrapper(magic, 8, codec, b"", value=bomb(codec, GIB)), GOOD))
    assert [one if isinstance(one, int) else one[0] for one in found.items] == ["records-beyond-limit", 1]
    assert found.grew < MOST_MORE


def test_a_bomb_inside_a_compressed_entry_is_not_looked_at(tmp_path: Path) -> None:
    inner = rf.wrapper(1, 8, "gzip", b"", value=bomb("gzip", GIB))
    found = read_apart(kf.segment(tmp_path, 0, rf.wrapper(1, 8, "gzip", inner), GOOD))
    assert [one if isinstance(one, int) else one[0] for one in found.items] == ["bad-records", 1]
    assert found.grew < 64 << 20


def records(count: int, codec: Packed) -> bytes:
    """A batch of records with nothing in them, all at offset 0: seven bytes each."""
    body = rf.compress(b"\x0c\0\0\0\x01\x01\0" * count, codec)
    return kf.sealed(kf.with_field(rf.with_codec(ONE, codec, body), ">i", 57, count))


@pytest.mark.parametrize("codec", ["zstd", pytest.param("gzip", marks=pytest.mark.nightly)])
def test_as_many_records_as_are_read_at_most_and_one_more(tmp_path: Path, codec: Packed) -> None:
    most = under_test.MAX_RECORDS
    found = read_apart(kf.segment(tmp_path, 0, records(most, codec), kf.with_field(records(most + 1, codec), ">q", 0, 1)))
    assert [one if isinstance(one, int) else one[0] for one in found.items] == [most, "records-beyond-limit"]
    assert found.grew < MOST_MORE


def bombs(number: int, size: int) -> Iterator[bytes]:
    made = rf.with_codec(ONE, "zstd", bomb("zstd", size))
    return (kf.with_field(made, ">q", 0, 100 + at) for at in range(number))


def test_many_small_bombs_cost_no_more_than_a_file_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is below the limit of a batch; together they were a day's work for a MiB."""
    path = kf.segment(tmp_path, 0, *bombs(200, 32 << 20), kf.with_field(GOOD, ">q", 0, 9_000))
    spent: list[int] = []
    real = under_test.decompressed

    def counted(data: bytes, codec: str, magic: int, limit: int) -> bytes:
        spent.append(limit)
        found = real(data, codec, magic, limit)
        spent[-1] = len(found)
        return found

    monkeypatch.setattr(under_test, "decompressed", counted)
    items = list(read_records(path))
    assert len(items) == 201
    assert sum(spent) <= under_test.FREE_BYTES + under_test.MOST_TIMES * path.stat().st_size
    refused = [item for item in items if isinstance(item, UnreadableRecords) and item.code == "records-beyond-limit"]
    assert len(refused) >= 190
    assert all(item.remedy == REMEDIES["records-beyond-limit"] for item in refused)
    last = items[-1]
    assert isinstance(last, tuple)
    assert last[1][0].key == b"good"  # what is not compressed costs nothing of it


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_sound_records_that_are_all_alike_are_read(tmp_path: Path, codec: Packed) -> None:
    """A healthy near-miss: nothing compresses better than one message sent over and over."""
    made = rf.batch(0, *[(b"key", b"the same hundred bytes, over and over" * 3)] * 16_000, codec=codec)
    path = kf.segment(tmp_path, 0, *(kf.with_field(made, ">q", 0, 16_000 * at) for at in range(4)))
    assert [len(item[1]) for item in read_records(path) if isinstance(item, tuple)] == [16_000] * 4


def test_a_bomb_is_a_row_with_file_byte_offset_and_remedy(tmp_path: Path) -> None:
    path = kf.segment(tmp_path, 0, GOOD, kf.with_field(rf.with_codec(ONE, "zstd", bomb("zstd", GIB)), ">q", 0, 20))
    _commits, problems = committed_offsets(rf.raw(path))
    problem = next(one for one in problems if one.code == "records-beyond-limit")
    assert (problem.path, problem.byte_offset) == (str(path), len(GOOD))
    assert "offsets 20..20" in problem.detail
    assert problem.remedy
