"""Our reading of segment files against FileRecords: segments of real brokers, and the same after they were damaged.

Kafka yields whatever has room for itself, and finds out later. We stop where a header cannot be true or offsets do not rise, and the
tests hold that we stop there and nowhere else.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from replica_audit.formats.segment.segment_scan import base_offset_of, read_batches
from replica_audit.model import BatchHeader, Damage
from tests.oracle.kafka_classes import Batch, Kafka
from tests.oracle.strategies import mostly

pytestmark = pytest.mark.oracle

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
MANY = settings(max_examples=max(600, settings().max_examples))
SMALLEST_BY_MAGIC = (14, 22, 49)


def legacy_entry(magic: int, codec: int, offset: int, value: bytes) -> bytes:
    timestamp = struct.pack(">q", 1_000 + offset) if magic else b""
    body = struct.pack(">bb", magic, codec) + timestamp + struct.pack(">i3si", 3, b"key", len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def legacy_segment(magic: int, codec: int) -> bytes:
    """Message sets as brokers before 0.11 wrote them; a compressed entry holds three records and has the offset of the last one."""
    content = b""
    for first in range(0, 12, 3):
        # Inside a compressed entry of magic 1 offsets are relative.
        offsets = range(3) if codec and magic else range(first, first + 3)
        entries = b"".join(legacy_entry(magic, 0, offset, b"value" * number) for number, offset in enumerate(offsets))
        content += legacy_entry(magic, codec, first + 2, gzip.compress(entries, mtime=0)) if codec else entries
    return content


GZIP = 1
LEGACY = {f"magic-{magic}-codec-{codec}/{0:020}.log": legacy_segment(magic, codec) for magic in (0, 1) for codec in (0, GZIP)}
REAL = {str(path.relative_to(SAMPLE)): path.read_bytes() for path in sorted(SAMPLE.rglob("*.log"))}
# The replicas of a partition are mostly alike: one name for each content, for a failure to tell which.
REAL_NAMES = sorted({content: name for name, content in REAL.items() if content}.values())
SHORT = min(REAL_NAMES, key=lambda name: abs(len(REAL[name]) - 300))


def faults(batch: Batch, content: bytes, next_offset: int) -> dict[str, range]:
    """Why we end the log at a batch that Kafka yields: the codes, and the byte offsets that may be given."""
    position, head = batch.position, content[batch.position : batch.position + 61]
    (base_offset,) = struct.unpack_from(">q", head)
    last_offset: int = base_offset
    impossible = batch.magic not in (0, 1, 2) or batch.size_bytes - 12 < SMALLEST_BY_MAGIC[batch.magic]
    if not impossible and batch.magic == 2:
        (last_offset_delta,), (record_count,) = struct.unpack_from(">i", head, 23), struct.unpack_from(">i", head, 57)
        impossible = last_offset_delta < 0 or record_count < 0
        last_offset += last_offset_delta
    # The offset after it must be one, too: Kafka's wraps around.
    impossible = impossible or last_offset >= 2**63 - 1
    if impossible:
        return {"bad-batch-header": range(position, position + len(head))}
    # What a compressed legacy entry stores is its last offset.
    return {"offsets-not-increasing": range(position, position + 1)} if base_offset < next_offset else {}


def assert_same_batch(ours: BatchHeader, theirs: Batch) -> None:
    if theirs.magic == 2:
        assert ours == theirs.header(reads_base_offset=True)
        return
    # To tell where a compressed legacy entry begins Kafka decompresses it, which the headers of a damaged file say nothing about.
    compressed = ours.codec != "none"
    header = theirs.header(reads_base_offset=not compressed)._replace(record_count=ours.last_offset - ours.base_offset + 1)
    assert ours == (header._replace(base_offset=ours.base_offset) if compressed else header)


def assert_same_reading(kafka: Kafka, path: Path) -> None:
    """Kafka's own reader has no rule for offsets that go back: there ours says so, and both read on."""
    content, items = path.read_bytes(), iter(list(read_batches(path)))
    next_offset = base_offset_of(path)
    with kafka.segment(path) as reading:
        for theirs in reading.batches:
            item = next(items)
            if expected := faults(theirs, content, next_offset):
                assert isinstance(item, Damage)
                assert item.byte_offset in expected[item.code]
                if not item.goes_on:
                    assert next(items, None) is None
                    return
                assert item.code == "offsets-not-increasing"
                item = next(items)
            assert isinstance(item, BatchHeader)
            assert_same_batch(item, theirs)
            next_offset = item.last_offset + 1
    damage = next(items, None)
    assert damage is None or isinstance(damage, Damage)
    assert_same_end(damage, reading.end, content, next_offset, threw=reading.threw)
    assert next(items, None) is None


def assert_same_end(damage: Damage | None, end: int, content: bytes, next_offset: int, *, threw: bool) -> None:
    if end == len(content):
        assert damage is None
        assert not threw
        return
    assert damage is not None
    assert damage.byte_offset == end
    if threw:
        assert damage.code == ("bad-batch-length" if any(content[end:]) else "zero-filled-tail")
    else:
        is_short = len(content) - end <= 17
        assert damage.code == (
            "trailing-bytes" if is_short else "torn-batch" if _begins(content[end:], next_offset) else "bad-batch-length"
        )


def _begins(content: bytes, next_offset: int) -> bool:
    """Kafka does not tell apart what begins like a batch and what does not, where the length reaches beyond the end of the file."""
    return content[16] <= 2 and 0 <= int.from_bytes(content[:8], signed=True) < next_offset + (1 << 31)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("segments")


@pytest.mark.parametrize("cluster", sorted(path.name for path in SAMPLE.iterdir()))
def test_segments_of_real_brokers(kafka: Kafka, cluster: str) -> None:
    for path in sorted((SAMPLE / cluster).rglob("*.log")):
        assert_same_reading(kafka, path)


@pytest.mark.parametrize("name", LEGACY)
def test_legacy_segments(kafka: Kafka, folder: Path, name: str) -> None:
    path = folder / Path(name).name
    path.write_bytes(LEGACY[name])
    assert_same_reading(kafka, path)
    ours = [(item.base_offset, item.last_offset) for item in read_batches(path) if isinstance(item, BatchHeader)]
    with kafka.segment(path) as reading:
        headers = [batch.header(reads_base_offset=True) for batch in reading.batches]
    assert ours == [(header.base_offset, header.last_offset) for header in headers]
    assert ours[-1][1] == 11


@pytest.mark.parametrize("name", [SHORT, *list(LEGACY)[1:3]])
def test_every_cut_and_every_tail_of_zeros(kafka: Kafka, folder: Path, name: str) -> None:
    content, path = LEGACY.get(name) or REAL[name], folder / Path(name).name
    for changed in [*(content[:length] for length in range(len(content))), *(content + bytes(length) for length in range(1, 64))]:
        path.write_bytes(changed)
        assert_same_reading(kafka, path)


# Byte ranges of a header: offset, length, epoch, magic, CRC, attributes, last offset delta, max timestamp, producer, count.
BASE_OFFSET = (0, 8)
FIELDS = [BASE_OFFSET, (8, 4), (12, 4), (16, 1), (17, 4), (21, 2), (23, 4), (35, 8), (43, 8), (51, 2), (53, 4), (57, 4)]
VALUES = st.one_of(
    st.integers(0, 70), st.sampled_from([-(2**63), -(2**31), -2, -1, 127, 128, 2**31 - 1, 2**31, 2**62, 2**63 - 2, 2**63 - 1, 2**64 - 1])
)
POSITIONS = st.integers(0, 2**11)
FIELD_EDITS = st.tuples(st.just("field"), st.integers(0, 7), st.sampled_from(FIELDS), VALUES)
BYTE_EDITS = st.one_of(
    st.tuples(st.just("flip"), POSITIONS, st.integers(0, 7)),
    st.tuples(st.just("cut"), POSITIONS),
    st.tuples(st.just("insert"), POSITIONS, st.binary(min_size=1, max_size=80)),
    st.tuples(st.just("remove"), POSITIONS, st.integers(1, 80)),
    st.tuples(st.just("repeat"), POSITIONS, st.integers(1, 200)),
    st.tuples(st.just("append"), st.one_of(st.binary(max_size=40), st.integers(1, 100).map(bytes))),
)
EDITS = mostly(FIELD_EDITS, BYTE_EDITS, one_in=2)


def batch_starts(content: bytes) -> list[int]:
    starts, position = [], 0
    while len(content) - position > 12:
        starts.append(position)
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
    return starts or [0]


def edited(content: bytes, starts: list[int], edit: tuple[object, ...]) -> bytes:
    """The content after one edit; positions beyond it begin anew at its start."""
    changed = bytearray(content)
    match edit:
        case ("field", int(number), (int(offset), int(width)), int(value)):
            at = starts[number % len(starts)] + offset
            changed[at : at + width] = (value % 256**width).to_bytes(width, "big")
        case ("append", bytes(tail)):
            changed += tail
        case (str(kind), int(position), *rest):
            at = position % (len(content) + 1)
            match kind, rest:
                case "flip", [int(bit)]:
                    changed[at : at + 1] = bytes(byte ^ (1 << bit) for byte in changed[at : at + 1])
                case "cut", []:
                    del changed[at:]
                case "insert", [bytes(new)]:
                    changed[at:at] = new
                case "remove", [int(length)]:
                    del changed[at : at + length]
                case "repeat", [int(length)]:
                    changed[at:at] = changed[at : at + length]
                case _:
                    raise AssertionError(edit)
        case _:
            raise AssertionError(edit)
    return bytes(changed)


@MANY
@given(name=mostly(st.sampled_from(REAL_NAMES), st.sampled_from(sorted(LEGACY)), one_in=4), edits=st.lists(EDITS, min_size=1, max_size=3))
@example(name=REAL_NAMES[0], edits=[("field", 0, BASE_OFFSET, 2**63 - 1)])
@example(name=next(iter(LEGACY)), edits=[("field", 0, BASE_OFFSET, 2**63 - 1)])
def test_damaged_segments(kafka: Kafka, folder: Path, name: str, edits: list[tuple[object, ...]]) -> None:
    content = LEGACY.get(name) or REAL[name]
    starts = batch_starts(content)
    for edit in edits:
        content = edited(content, starts, edit)
    path = folder / Path(name).name
    path.write_bytes(content)
    assert_same_reading(kafka, path)
