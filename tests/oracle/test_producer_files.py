"""Our reading of producer snapshots and indexes of aborted transactions against Kafka's own."""

from __future__ import annotations

import struct

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replica_audit.errors import SegmentError
from replica_audit.formats.producer_files import ENTRY_BYTES, aborted_transactions, producer_states
from tests.oracle.kafka_classes import Kafka, Refused

pytestmark = pytest.mark.oracle

MANY = settings(max_examples=max(300, settings().max_examples))
LONG, INT, SHORT = (st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (64, 32, 16))
OFFSETS = st.integers(-3, 40) | LONG


@st.composite
def snapshots(draw: st.DrawFn) -> bytes:
    """A snapshot; one part of its form may be odd."""
    entry = st.tuples(LONG, SHORT, INT, OFFSETS, INT, LONG, INT, OFFSETS)
    entries = draw(st.lists(entry, max_size=4))
    body = struct.pack(">i", len(entries)) + b"".join(struct.pack(">qhiqiqiq", *one) for one in entries)
    odd = draw(st.sampled_from(["", "", "count", "cut", "more", "crc", "version"]))
    if odd == "count":
        body = struct.pack(">i", draw(INT | st.integers(-1, 6))) + body[4:]
    if odd == "cut":
        body = body[: draw(st.integers(0, len(body)))]
    if odd == "more":
        body += draw(st.binary(max_size=50))
    crc, version = crc32c.crc32c(body), 1
    if odd == "crc":
        crc ^= 1 << draw(st.integers(0, 31))
    if odd == "version":
        version = draw(SHORT)
    made = struct.pack(">hI", version, crc) + body
    return made[: draw(st.integers(0, 6))] if draw(st.integers(0, 20)) == 0 else made


@MANY
@given(content=snapshots())
def test_snapshots(kafka: Kafka, content: bytes) -> None:
    try:
        theirs = kafka.producer_states(content)
    except Refused:
        with pytest.raises(SegmentError):
            producer_states(content)
    else:
        assert list(producer_states(content)) == theirs


@MANY
@given(
    entries=st.lists(st.tuples(st.sampled_from([0, 0, 0, 0, 1, 255, 256, -1]), LONG, OFFSETS, st.integers(0, 60), OFFSETS), max_size=5),
    ascending=st.booleans(),
    cut=st.integers(0, 40),
    base=st.integers(0, 20),
)
def test_indexes(kafka: Kafka, entries: list[tuple[int, int, int, int, int]], ascending: bool, cut: int, base: int) -> None:
    if ascending:
        entries = sorted(entries, key=lambda one: one[3])
    content = b"".join(struct.pack(">hqqqq", *one) for one in entries)
    content = content[: len(content) - cut] if cut < len(content) else content
    ours, error = aborted_transactions(content, base)
    try:
        theirs = kafka.aborted_transactions(content, base)
    except Refused:
        assert error is not None
    else:
        # Kafka passes over part of an entry, and looks only when it appends whether they ascend
        if error is None or error.byte_offset == len(content) // ENTRY_BYTES * ENTRY_BYTES:
            assert list(ours) == theirs
        else:
            assert "behind one that ends" in error.reason
            assert list(ours) == theirs[: len(ours)]
