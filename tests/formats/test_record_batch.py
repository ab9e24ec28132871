"""Headers decoded by us against what kafka-python encoded, and against what it decodes from real brokers' segments."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.errors import SegmentError
from replica_audit.formats.segment.record_batch import SMALLEST_SIZE, checksum, codec_name, decode_header
from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.model import BatchHeader
from tests.formats import kafka_files as kf

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
INT64_LAST = 2**63 - 1


def test_every_field_of_a_batch():
    made = kf.batch(40, 3, deltas=(0, 1, 5), timestamp=1_700_000_000_000, producer=(77, 4, 12), transactional=True)
    crc = int.from_bytes(made[17:21], "big")
    assert decode_header(made, 1234, 0) == BatchHeader(
        position=1234,
        base_offset=40,
        last_offset=45,
        size_bytes=len(made),
        magic=2,
        leader_epoch=3,
        record_count=3,
        max_timestamp_ms=1_700_000_000_005,
        crc=crc,
        crc_valid=None,
        codec="none",
        is_transactional=True,
        is_control=False,
        producer_id=77,
        producer_epoch=4,
        base_sequence=12,
    )


def test_a_header_needs_no_more_than_its_61_bytes():
    made = kf.batch(7, 1, value=b"x" * 500)
    assert decode_header(made[:61], 0, 0) == decode_header(made, 0, 0)


def test_last_offset_is_base_plus_delta_never_base_plus_count():
    header = decode_header(kf.batch(100, 0, deltas=(0, 9)), 0, 0)
    assert (header.last_offset, header.record_count) == (109, 2)


def test_a_batch_emptied_by_the_cleaner_keeps_its_offsets_and_epoch():
    header = decode_header(kf.empty_batch(20, 4, last_delta=8), 0, 0)
    assert (header.base_offset, header.last_offset, header.record_count, header.leader_epoch, header.size_bytes) == (20, 28, 0, 4, 61)


def test_a_transaction_marker():
    header = decode_header(kf.control_batch(6, 2, producer_id=9), 0, 0)
    assert (header.is_control, header.is_transactional, header.producer_id) == (True, True, 9)


@pytest.mark.parametrize("epoch", [-1, 0, 1, 2**31 - 1])
def test_leader_epoch_is_signed(epoch: int):
    assert decode_header(kf.batch(0, epoch), 0, 0).leader_epoch == epoch


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        (0, "none"),
        (1, "gzip"),
        (2, "snappy"),
        (3, "lz4"),
        (4, "zstd"),
        (5, "unknown-5"),
        (7, "unknown-7"),
        (0x7FF8, "none"),
        (0x31, "gzip"),
    ],
)
def test_codec_is_the_lowest_three_bits(attributes: int, name: str):
    assert codec_name(attributes) == name
    made = kf.with_field(kf.batch(0, 0), ">h", 21, attributes)
    header = decode_header(made, 0, 0)
    assert (header.codec, header.is_transactional, header.is_control) == (name, bool(attributes & 0x10), bool(attributes & 0x20))


def test_gzip_is_told():
    made = kf.batch(0, 0, deltas=range(50), codec=kf.GZIP)
    assert len(made) < len(kf.batch(0, 0, deltas=range(50)))
    assert decode_header(made, 0, 0).codec == "gzip"


@pytest.mark.parametrize(("magic", "timestamp"), [(0, -1), (1, 4_321)])
def test_a_legacy_entry(magic: int, timestamp: int):
    made = kf.legacy(magic, [17], timestamp=4_321)
    header = decode_header(made, 90, 11)
    assert (header.base_offset, header.last_offset, header.record_count) == (17, 17, 1)
    assert (header.magic, header.leader_epoch, header.max_timestamp_ms, header.size_bytes) == (magic, -1, timestamp, len(made))
    assert (header.producer_id, header.is_transactional, header.is_control, header.codec) == (-1, False, False, "none")


@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_legacy_entry_begins_where_the_one_before_ended(magic: int):
    header = decode_header(kf.legacy(magic, [20, 21, 22], codec=kf.GZIP), 0, 20)
    assert (header.base_offset, header.last_offset, header.record_count, header.codec) == (20, 22, 3, "gzip")


@pytest.mark.parametrize("magic", [0, 1])
def test_a_legacy_entry_without_key_and_value(magic: int):
    size = (14, 22)[magic]
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", 5) if magic else b"") + struct.pack(">ii", -1, -1)
    made = struct.pack(">qiI", 3, size, 0) + body
    assert len(made) == size + 12
    assert decode_header(made, 0, 0).size_bytes == len(made)


@pytest.mark.parametrize("made", [kf.batch(0, 0), kf.batch(0, 0, deltas=range(90), codec=kf.GZIP), kf.legacy(1, [0]), kf.legacy(0, [0])])
@pytest.mark.parametrize("known", [61, 40, 26, 10_000])
def test_checksum_however_many_bytes_were_already_read(made: bytes, known: int):
    head = made[: max(known, 26)]
    header = decode_header(made, 0, 0)
    assert checksum(io.BytesIO(made[len(head) :] + b"the next batch"), header, head) == header.crc


def test_checksum_of_a_batch_larger_than_a_chunk():
    made = kf.batch(0, 0, value=b"\x5a" * (3 << 20))
    header = decode_header(made, 0, 0)
    stream = io.BytesIO(made + b"next")
    assert checksum(stream, header, stream.read(61)) == header.crc
    assert stream.tell() == len(made)


@pytest.mark.parametrize("magic", [3, 4, 127, 128, 255])
def test_an_unknown_magic_is_refused_at_its_byte(magic: int):
    made = kf.with_field(kf.batch(0, 0), ">B", 16, magic)
    with pytest.raises(SegmentError, match=f"magic byte {magic}") as caught:
        decode_header(made, 500, 0)
    assert caught.value.byte_offset == 516


@pytest.mark.parametrize(("magic", "least"), [(0, 14), (1, 22), (2, 49)])
def test_a_length_below_the_magics_minimum_is_refused_at_its_byte(magic: int, least: int):
    made = kf.with_field(kf.with_field(kf.batch(0, 0), ">B", 16, magic), ">i", 8, least - 1)
    with pytest.raises(SegmentError, match=f"length {least - 1}") as caught:
        decode_header(made, 100, 0)
    assert caught.value.byte_offset == 108
    assert decode_header(kf.with_field(made, ">i", 8, least), 100, 0).size_bytes == least + 12


def test_smallest_length_is_kafkas():
    assert SMALLEST_SIZE == (26, 34, 61)


@pytest.mark.parametrize(("at", "what"), [(23, "delta"), (57, "count")])
def test_negative_delta_and_count_are_refused(at: int, what: str):
    made = kf.with_field(kf.batch(0, 0), ">i", at, -1)
    with pytest.raises(SegmentError, match=what) as caught:
        decode_header(made, 10, 0)
    assert caught.value.byte_offset is not None
    assert 10 <= caught.value.byte_offset < 10 + len(made)


def test_an_offset_beyond_64_bits_is_refused():
    # bytes 0..7 are outside the CRC; a sum above 2^63 fits no table
    made = kf.with_field(kf.batch(0, 0, deltas=(0, 1)), ">q", 0, INT64_LAST)
    with pytest.raises(SegmentError):
        decode_header(made, 0, 0)


@given(st.binary(min_size=61, max_size=100), st.integers(0, INT64_LAST), st.integers(-1, 2))
def test_any_bytes_give_a_header_that_fits_the_tables_or_an_error(content: bytes, next_offset: int, magic: int):
    if magic >= 0:
        content = content[:16] + bytes([magic]) + content[17:]
    try:
        header = decode_header(content, 0, next_offset)
    except SegmentError as error:
        assert error.byte_offset is not None
        return
    assert header.last_offset >= header.base_offset
    assert -(2**63) <= header.base_offset <= header.last_offset <= INT64_LAST
    assert header.size_bytes >= 26


def _real_segments() -> list[Path]:
    return sorted(SAMPLE.rglob("*.log"))


def test_real_segments_as_kafka_python_decodes_them():
    compared = 0
    for path in _real_segments():
        theirs = kf.decoded(path.read_bytes())
        ours = [item for item in read_batches(path) if isinstance(item, BatchHeader)]
        assert len(ours) == len(theirs), path
        for our, their in zip(ours, theirs, strict=True):
            assert our.magic == 2
            assert our.crc_valid is True
            assert their.validate_crc()
            assert (our.base_offset, our.last_offset, our.size_bytes, our.leader_epoch, our.record_count, our.crc) == (
                their.base_offset,
                their.last_offset,
                their.size_in_bytes,
                their.leader_epoch,
                their.records_count,
                their.crc,
            ), path
            assert (our.max_timestamp_ms, our.producer_id, our.producer_epoch, our.base_sequence) == (
                their.max_timestamp,
                their.producer_id,
                their.producer_epoch,
                their.base_sequence,
            ), path
            assert (our.is_transactional, our.is_control) == (their.is_transactional, their.is_control_batch)
            compared += 1
    assert compared > 1_000
