"""Records of `__transaction_state`, made by hand from the schemas of TransactionLogKey and TransactionLogValue, and segments of them.

`tests/data/transaction-texts/SEGMENT.VERSION.txt` is what kafka-dump-log of that version, run with --transaction-log-decoder, printed of
each segment of `SEGMENTS`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.formats import record_files as rf

TEXTS = Path(__file__).resolve().parents[1] / "data" / "transaction-texts"
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD, FENCE = range(8)
ALL_TAGS = {0: struct.pack(">q", 6), 1: struct.pack(">q", 8), 2: struct.pack(">h", 2)}
Topics = Mapping[str, Sequence[int]]


def key(transactional_id: str = "t", *, version: int = 0) -> bytes:
    """A TransactionLogKey, or a key of another version that looks like one."""
    return struct.pack(">hh", version, len(transactional_id.encode())) + transactional_id.encode()


def value(
    status: int = ONGOING,
    topics: Topics | None = None,
    *,
    version: int = 0,
    producer_id: int = 7,
    epoch: int = 1,
    timeout: int = 60_000,
    updated: int = rf.TIMESTAMP,
    started: int = rf.TIMESTAMP - 1_000,
    tags: Mapping[int, bytes] = {},
    has_list: bool = True,
) -> bytes:
    """A TransactionLogValue; without topics the list is null where the state is Empty, or is told to be. `tags`: those of version 1."""
    made = struct.pack(">hqhib", version, producer_id, epoch, timeout, status)
    count = _varint if version else struct.Struct(">i").pack
    null = b"\0" if version else struct.pack(">i", -1)
    if topics is None and (status == EMPTY or not has_list):
        made += null
    else:
        topics = topics or {}
        made += count(len(topics) + (version >= 1))
        for topic, partitions in topics.items():
            name = topic.encode()
            made += (_varint(len(name) + 1) if version else struct.pack(">h", len(name))) + name + count(len(partitions) + (version >= 1))
            made += b"".join(struct.pack(">i", partition) for partition in partitions) + (b"\0" if version else b"")
    made += struct.pack(">qq", updated, started)
    if not version:
        return made
    return made + _varint(len(tags)) + b"".join(_varint(tag) + _varint(len(data)) + data for tag, data in sorted(tags.items()))


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(made) + bytes([number])


SEGMENTS: dict[str, bytes] = {
    "version-0": b"".join(
        [
            rf.batch(0, (key("a"), value(EMPTY, producer_id=11, epoch=0, timeout=1, started=-1)), (key("b"), value(EMPTY, started=-1))),
            rf.batch(2, (key("a"), value(ONGOING, {"orders": [0, 2], "a.b_c-d": [7]}, producer_id=11, epoch=1, timeout=900_000))),
            rf.batch(3, (key("b"), value(PREPARE_COMMIT, {"orders": [1]}))),
            rf.batch(4, (key("b"), value(COMPLETE_COMMIT, {}, epoch=2))),
            rf.batch(5, (key("gr\xfcppe payload: producerId:1,"), value(PREPARE_ABORT, {"t": list(range(12))}, producer_id=1 << 40))),
            rf.batch(6, (key("two\nlines key: x"), value(COMPLETE_ABORT, {}, epoch=32767))),
            rf.batch(7, (key(""), value(ONGOING, {"__consumer_offsets": [49]}, updated=rf.TIMESTAMP + 5))),
        ]
    ),
    "deleted": b"".join(
        [
            rf.batch(0, (key("gone"), value(COMPLETE_COMMIT, {})), (key("stays"), value(COMPLETE_ABORT, {}, producer_id=3))),
            rf.batch(2, (key("gone"), None)),
            rf.batch(3, (key("back"), value(EMPTY)), (key("back"), None), (key("back"), value(ONGOING, {"t": [5]}, producer_id=4))),
        ]
    ),
    "version-1": b"".join(
        [
            rf.batch(0, (key("a"), value(EMPTY, version=1, started=-1)), (key("b"), value(EMPTY, version=1, tags=ALL_TAGS))),
            rf.batch(2, (key("a"), value(ONGOING, {"orders": [0, 2], "x" * 130: [1]}, version=1, tags={2: struct.pack(">h", 2)}))),
            rf.batch(3, (key("b"), value(COMPLETE_COMMIT, {}, version=1, tags={0: ALL_TAGS[0], 5: b"unknown"}))),
            rf.batch(4, (key("c"), value(PREPARE_ABORT, {"t": [0]}, version=1, tags={1: ALL_TAGS[1]}))),
        ]
    ),
}
