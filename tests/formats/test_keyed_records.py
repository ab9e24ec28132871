"""Records as hashes of their keys: compiled code and Python alike, whatever the bytes, and what of a transaction counts."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from replica_audit.formats.native import native_code
from replica_audit.formats.replicas import keyed_records
from replica_audit.formats.replicas.keyed_records import FLAGS, HIGH, LOW, OFFSET, TIMESTAMP, VALUE, KeyedRecords, newest
from replica_audit.formats.segment.records import MARKER, PENDING, TOMBSTONE, Record, Rows, key_hash, read_records
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf

EVER_SO_MANY = 1 << 60
A, B = b"a", b"b"


def decoder() -> native_code.RecordDecoder:
    found = native_code.record_decoder(EVER_SO_MANY)
    assert found is not None, "there is no native code for this machine"
    return found


@pytest.fixture(params=["native", "python"])
def _way(request: pytest.FixtureRequest) -> Iterator[None]:
    chosen = decoder() if request.param == "native" else None
    with mock.patch.object(native_code, "record_decoder", lambda _records: chosen):
        yield


def read(path: Path, *bounds: int, end_offset: int = 1 << 60, way: object = None) -> tuple[Rows, KeyedRecords]:
    reader = KeyedRecords(bounds, end_offset)
    return np.concatenate(list(reader.read(path))), reader


def both_ways(path: Path) -> tuple[Rows, list[str]]:
    """What compiled code and Python give, which must be the same."""
    found = []
    for chosen in (decoder(), None):
        with mock.patch.object(native_code, "record_decoder", lambda _records, chosen=chosen: chosen):
            rows, reader = read(path)
            found.append((rows.tolist(), [one.detail for one in reader.unreadable]))
    assert found[0] == found[1]
    return rows, [one.detail for one in reader.unreadable]


def offsets(rows: Rows) -> list[int]:
    return sorted(rows[:, OFFSET].tolist())


@pytest.mark.parametrize("size", [*range(70), 100, 255, 256, 1000])
def test_hashes_are_those_of_xxhash(size: int) -> None:
    from replica_audit.formats.native.kernels import xxh64

    data = np.frombuffer(bytes(range(7, 7 + size % 200)) * 6, np.uint8)[:size] if size else np.zeros(0, np.uint8)
    for seed in (0, 1, 0x5BD1E995, (1 << 64) - 3):
        signed = seed - (1 << 64) if seed >> 63 else seed
        assert xxh64(data.ctypes.data, len(data), signed) % (1 << 64) == xxh64_intdigest(data.tobytes(), seed)


@pytest.mark.parametrize("codec", rf.CODECS)
@pytest.mark.usefixtures("_way")
def test_a_record_is_its_key_and_its_value(tmp_path: Path, codec: rf.Codec) -> None:
    pairs = [(A, b"1"), (B, None), (b"", b""), (None, b"no key")]
    path = kf.segment(tmp_path, 10, rf.batch(10, *pairs, codec=codec), rf.batch(20, (A, b"1"), headers=[("h", b"x"), ("i", None)]))
    rows, reader = read(path, 20)
    assert not reader.unreadable
    by_offset = {row[OFFSET]: row for row in rows.tolist()}
    assert sorted(by_offset) == [10, 11, 12, 20]
    for offset, key in ((10, A), (11, B), (12, b""), (20, A)):
        assert (by_offset[offset][HIGH], by_offset[offset][LOW]) == key_hash(key)
    assert by_offset[10][VALUE] != by_offset[20][VALUE], "headers count"
    assert [offset for offset, row in by_offset.items() if row[FLAGS] & TOMBSTONE] == [11]
    assert by_offset[12][TIMESTAMP] == rf.TIMESTAMP + 2


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [kf.NONE, kf.GZIP])
@pytest.mark.usefixtures("_way")
def test_formats_before_v2(tmp_path: Path, magic: int, codec: int) -> None:
    rows, _reader = read(kf.segment(tmp_path, 0, kf.legacy(magic, [0, 1, 2], codec=codec)))
    assert offsets(rows) == [2], "all have one key"


@pytest.mark.usefixtures("_way")
def test_the_newest_below_each_bound_counts(tmp_path: Path) -> None:
    path = kf.segment(tmp_path, 0, *(rf.batch(at, (A, b"%d" % at)) for at in range(30)))
    assert offsets(read(path)[0]) == [29]
    assert offsets(read(path, 10)[0]) == [9, 29]
    assert offsets(read(path, 10, 25)[0]) == [9, 24, 29]
    assert offsets(read(path, 10, end_offset=15)[0]) == [9, 14]


@pytest.mark.usefixtures("_way")
class TestTransactions:
    def test_aborted_records_are_none(self, tmp_path: Path) -> None:
        first = rf.batch(0, (A, b"kept"))
        aborted = rf.batch(1, (A, b"aborted"), producer_id=7)
        rows, _reader = read(kf.segment(tmp_path, 0, first, aborted, rf.control_batch(2, rf.ABORT, producer_id=7)))
        assert offsets(rows[rows[:, FLAGS] & MARKER == 0]) == [0]
        assert offsets(rows[rows[:, FLAGS] & MARKER != 0]) == [2]

    def test_committed_records_are_as_others(self, tmp_path: Path) -> None:
        written = rf.batch(1, (A, b"new"), producer_id=7)
        rows, _reader = read(kf.segment(tmp_path, 0, rf.batch(0, (A, b"old")), written, rf.control_batch(2, rf.COMMIT, producer_id=7)))
        assert offsets(rows[rows[:, FLAGS] & MARKER == 0]) == [1]

    def test_those_of_a_transaction_without_an_end_are_pending(self, tmp_path: Path) -> None:
        open_, other = rf.batch(1, (A, b"open"), producer_id=7), rf.batch(2, (B, b"other"), producer_id=8)
        path = kf.segment(tmp_path, 0, rf.batch(0, (A, b"old")), open_, other, rf.control_batch(3, rf.COMMIT, producer_id=8))
        rows, _reader = read(path)
        assert {row[OFFSET]: bool(row[FLAGS] & PENDING) for row in rows.tolist() if not row[FLAGS] & MARKER} == {
            0: False,
            1: True,
            2: False,
        }
        # one whose marker lies beyond what counts, too
        assert all(row[FLAGS] & PENDING for row in read(path, end_offset=3)[0].tolist() if row[OFFSET])

    def test_one_that_is_open_is_a_row_at_its_last_record(self, tmp_path: Path) -> None:
        written = [rf.batch(at, (b"%d" % at, b""), producer_id=7) for at in range(3)]
        ended = [rf.batch(3, (B, b""), producer_id=8), rf.control_batch(4, rf.ABORT, producer_id=8)]
        rows, _reader = read(kf.segment(tmp_path, 0, *written, *ended))
        is_open = rows[:, FLAGS] == MARKER | PENDING
        assert rows[is_open][:, [HIGH, OFFSET]].tolist() == [[7, 2]]

    @pytest.mark.parametrize(
        ("marker", "kept"), [(rf.COMMIT, [195, 196, 197, 198, 199]), (rf.ABORT, []), (None, [195, 196, 197, 198, 199])]
    )
    def test_of_a_long_one_only_the_newest_record_of_each_key_is_held(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marker: bytes | None, kept: list[int]
    ) -> None:
        monkeypatch.setattr(keyed_records, "_MOST", 20)
        held: list[int] = []
        drop = KeyedRecords._drop_older_undecided

        def dropping(reader: KeyedRecords) -> None:
            drop(reader)
            held.append(reader._undecided)

        monkeypatch.setattr(KeyedRecords, "_drop_older_undecided", dropping)
        written = [rf.batch(at, (b"%d" % (at % 5), b"%d" % at), producer_id=7) for at in range(200)]
        path = kf.segment(tmp_path, 0, *written, *([rf.control_batch(200, marker, producer_id=7)] if marker else []))
        rows, _reader = read(path)
        assert offsets(newest(rows[rows[:, FLAGS] & MARKER == 0], np.array([], np.int64))) == kept
        assert len(held) > 5
        assert max(held) <= 5


@pytest.mark.usefixtures("_way")
def test_many_keys_come_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_records, "_MOST", 10)
    path = kf.segment(tmp_path, 0, *(rf.batch(at, (b"%d" % (at % 40), b"%d" % at)) for at in range(200)))
    parts = list(KeyedRecords([]).read(path))
    assert len(parts) > 5
    assert max(map(len, parts)) <= 11
    assert offsets(newest(np.concatenate(parts), np.array([], np.int64))) == list(range(160, 200))


def test_real_segments(tmp_path: Path) -> None:
    path = kf.segment(tmp_path, 0, *(rf.batch(at * 3, (A, None), (B, b"x" * at), codec=codec) for at, codec in enumerate(rf.CODECS)))
    rows, problems = both_ways(path)
    assert not problems
    expected = {item.key: item for _header, records in _records(path) for item in records}
    assert {(row[HIGH], row[LOW]): row[OFFSET] for row in rows.tolist()} == {key_hash(k or b""): r.offset for k, r in expected.items()}


def _records(path: Path) -> Iterator[tuple[object, tuple[Record, ...]]]:
    for item in read_records(path):
        assert isinstance(item, tuple)
        yield item


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_records_are_the_same_to_both(tmp_path: Path, data: st.DataObject) -> None:
    key = st.none() | st.binary(max_size=40)
    pairs = data.draw(st.lists(st.tuples(key, key), min_size=1, max_size=4))
    headers = data.draw(st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2))
    made = bytearray(rf.batch(5, *pairs, headers=headers))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(57, len(made) - 1))
        made[at] = data.draw(st.integers(0, 255) | st.sampled_from([0x80, 0xFF, 0x7F]))
    made[57:61] = struct.pack(">i", data.draw(st.integers(0, 6) | st.just(struct.unpack(">i", made[57:61])[0] & 0x7FFFFFFF)))
    both_ways(kf.segment(tmp_path, 0, kf.sealed(made)))


def test_absurd_counts_and_sizes_are_refused(tmp_path: Path) -> None:
    sound = rf.batch(0, (A, b"x"))
    for field, at, value in ((">i", 57, 0x7FFFFFFF), (">i", 57, 2), (">B", 61, 0xFF), (">B", 61, 1)):
        path = kf.segment(tmp_path, 0, kf.sealed(kf.with_field(sound, field, at, value)), rf.batch(1, (B, b"y")))
        rows, problems = both_ways(path)
        assert offsets(rows) == [1]
        assert len(problems) == 1
