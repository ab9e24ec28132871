"""The batches of a replica with their bytes at hand, and what stands where a segment stops being a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.formats.replicas.replica_reader import stored_batches
from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.model import BatchHeader, StoredBatch, StoredDamage
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf

PAIRS = [(b"key", b"value"), (None, b""), (b"", None)]


def test_headers_are_those_of_the_scan_and_bodies_their_own(tmp_path: Path) -> None:
    legacy = kf.legacy(1, [0, 1])
    path = kf.segment(tmp_path, 0, legacy, *(rf.batch(2 + 3 * i, *PAIRS, codec=codec) for i, codec in enumerate(rf.CODECS)))
    found = [(item, item.read()) for item in stored_batches(rf.raw(path), 0) if isinstance(item, StoredBatch) and item.read]
    assert [item.header for item, _body in found] == [one for one in read_batches(path, verify_crc=False) if isinstance(one, BatchHeader)]
    assert all(body.computed_crc == item.header.crc and body.unreadable is None for item, body in found)
    for item, body in found[2:]:
        assert [(one.key_bytes, one.value_bytes) for one in body.records] == [(3, 5), (None, 0), (0, None)]
        assert [one.offset for one in body.records] == list(range(item.header.base_offset, item.header.last_offset + 1))
        assert len({one.key for one in body.records}) == 2, "a key of no bytes and none are told apart by their sizes"


def test_a_changed_byte_gives_another_crc_and_no_error(tmp_path: Path) -> None:
    made = bytearray(rf.batch(0, (b"k", b"v")))
    made[-2] ^= 1
    found = stored_batches(rf.raw(kf.segment(tmp_path, 0, bytes(made))), 0)
    item = next(found)
    assert isinstance(item, StoredBatch)
    assert item.read is not None
    assert item.read().computed_crc != item.header.crc


@pytest.mark.parametrize("offset", [0, 1, 4_999, 5_000, 9_999])
def test_many_batches_before_an_offset_are_passed_over(tmp_path: Path, offset: int) -> None:
    path = kf.segment(tmp_path, 0, *(kf.with_field(rf.batch(0, (b"k", b"v")), ">q", 0, i) for i in range(10_000)))
    found = (item for item in stored_batches(rf.raw(path), offset) if isinstance(item, StoredBatch))
    item = next(item for item in found if item.header.last_offset >= offset)
    assert item.header.base_offset == offset
    assert item.read is not None
    assert item.read().records[0].offset == offset


def test_where_a_segment_stops_its_bytes_are_told(tmp_path: Path) -> None:
    good, bad = rf.batch(0, (b"k", b"v")), bytearray(rf.batch(1, (b"k", b"v")))
    bad[16] = 9  # the magic byte
    first = kf.segment(tmp_path, 0, good, bytes(bad))
    second = kf.segment(tmp_path, 5, rf.batch(5, (b"k", b"v")), b"xx")
    items = list(stored_batches(rf.raw(first, second), 0))
    assert [type(item) for item in items] == [StoredBatch, StoredDamage, StoredBatch, StoredDamage]
    damage, tail = items[1], items[3]
    assert isinstance(damage, StoredDamage)
    assert isinstance(tail, StoredDamage)
    assert (damage.next_offset, damage.position, damage.damage.byte_offset) == (1, len(good), len(good) + 16)
    assert damage.header is not None
    assert (damage.header.base_offset, damage.header.magic) == (1, 9)
    assert (tail.next_offset, tail.header) == (6, None)
