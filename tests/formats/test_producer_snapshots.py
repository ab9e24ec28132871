"""Producer snapshots and indexes of aborted transactions: their bytes, and those of real brokers."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import crc32c
import pytest

from replica_audit.errors import DumpLogError, SegmentError
from replica_audit.formats.log_dir.small_files import TooLargeError
from replica_audit.formats.producer_files import (
    ENTRY_BYTES,
    aborted_transactions,
    aborted_transactions_in_text,
    producer_states,
    producer_states_in_text,
)
from replica_audit.model import AbortedTransaction, ProducerState, ProducerText

TEXTS = Path(__file__).resolve().parents[1] / "data" / "transaction-texts"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "clusters"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/clusters is not beside the project")
STATES = (
    ProducerState(7, 1, 41, 99, 3, 1_700_000_000_000, 5, 90),
    ProducerState(1 << 40, 32767, (1 << 31) - 1, 1 << 40, 0, -1, -1, -1),
    ProducerState(8, 2, -1, -1, 0, 1_700_000_000_001, 0, -1),
)
ABORTED = (AbortedTransaction(7, 5, 9, 10), AbortedTransaction(8, 3, 12, 11), AbortedTransaction(1 << 40, 13, 20, 21))


def snapshot(*states: ProducerState, version: int = 1, count: int | None = None, more: bytes = b"") -> bytes:
    body = (
        struct.pack(">i", len(states) if count is None else count) + b"".join(struct.pack(">qhiqiqiq", *state) for state in states) + more
    )
    return struct.pack(">hI", version, crc32c.crc32c(body)) + body


def index(*entries: AbortedTransaction, version: int = 0) -> bytes:
    return b"".join(struct.pack(">hqqqq", version, *entry) for entry in entries)


def test_a_snapshot() -> None:
    assert producer_states(snapshot(*STATES)) == STATES
    assert producer_states(snapshot()) == ()
    assert producer_states(snapshot(*STATES, more=b"more")) == STATES


def test_as_a_broker_takes_what_is_not_there() -> None:
    """Without an offset there is no last batch; a transaction below offset 0 is none."""
    (state,) = producer_states(snapshot(ProducerState(7, 1, 5, -1, 3, 9, 0, -7)))
    assert state == ProducerState(7, 1, -1, -1, 0, 9, 0, -1)


DAMAGED = {
    "empty": (b"", 0, "0 bytes"),
    "cut head": (snapshot()[:9], 9, "9 bytes"),
    "version 2": (snapshot(*STATES, version=2), 0, "version 2"),
    "version 0": (snapshot(*STATES, version=0), 0, "version 0"),
    "wrong CRC": (snapshot(*STATES)[:-1] + b"\x01", 2, "CRC"),
    "cut": (snapshot(*STATES)[:-1], 6, "3 producers in 137 bytes"),
    "two billion producers": (snapshot(count=(1 << 31) - 1), 6, "2147483647 producers"),
    "minus one producers": (snapshot(count=-1), 6, "-1 producers"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_snapshot(name: str) -> None:
    data, byte_offset, reason = DAMAGED[name]
    with pytest.raises(SegmentError, match=reason) as raised:
        producer_states(data)
    assert raised.value.byte_offset == byte_offset


def test_an_index() -> None:
    assert aborted_transactions(index(*ABORTED), 0) == (ABORTED, None)
    assert aborted_transactions(b"", 5) == ((), None)


DAMAGED_INDEXES = {
    "torn": (index(*ABORTED)[:-1], 0, 2, 2 * ENTRY_BYTES, "33 bytes behind"),
    "version 256": (index(ABORTED[0]) + index(ABORTED[1], version=256), 0, 1, ENTRY_BYTES, "version 1 "),
    "below its segment": (index(*ABORTED), 10, 0, 0, "below the segment's base offset 10"),
    "not ascending": (index(ABORTED[1], ABORTED[0]), 0, 1, ENTRY_BYTES, "ends at offset 9 behind one that ends at 12"),
}


@pytest.mark.parametrize("name", DAMAGED_INDEXES)
def test_a_damaged_index(name: str) -> None:
    data, base_offset, whole, byte_offset, reason = DAMAGED_INDEXES[name]
    found, error = aborted_transactions(data, base_offset)
    assert found == ((ABORTED[1],) if name == "not ascending" else ABORTED[:whole])
    assert error is not None
    assert (error.byte_offset, reason in error.reason) == (byte_offset, True)


@needs_shared
def test_every_file_of_real_brokers_is_read() -> None:
    snapshots, indexes = [*SHARED.rglob("*.snapshot")], [*SHARED.rglob("*.txnindex")]
    read = [producer_states(path.read_bytes()) for path in snapshots]
    assert (len(read) > 2000, sum(map(bool, read)) >= 21) == (True, True)
    found = [aborted_transactions(path.read_bytes(), int(path.stem)) for path in indexes]
    assert {error for _entries, error in found} == {None}
    assert sum(len(entries) for entries, _error in found) > 20


def _text(tmp_path: Path, content: str, name: str) -> ProducerText:
    path = tmp_path / "text.txt"
    path.write_text(content)
    return ProducerText(name=name, path=str(path), byte_start=0, byte_end=len(content.encode()), first_line=1)


@pytest.mark.parametrize("version", ["0.11.0.3", "2.3.1", "2.8.2", "3.7.1", "3.9.2", "4.3.1"])
def test_text_of_every_version(tmp_path: Path, version: str) -> None:
    """What kafka-dump-log of these versions printed of the files made above."""
    # from 2.4 to 3.2 the time of a producer without a batch is not shown
    told = (*STATES[:2], STATES[2]._replace(timestamp_ms=-1)) if version == "2.8.2" else STATES
    text = _text(tmp_path, (TEXTS / f"snapshot/{version}.txt").read_text(), "00000000000000000100.snapshot")
    assert producer_states_in_text(text) == tuple(zip(told, (2, 3, 4), strict=True))
    text = _text(tmp_path, (TEXTS / f"txnindex/{version}.txt").read_text(), "00000000000000000000.txnindex")
    assert aborted_transactions_in_text(text) == ABORTED


@pytest.mark.parametrize(
    "line", ["x", "producerId: 7", "producerId: 7 producerEpoch: 1 coordinatorEpoch: 1 currentTxnFirstOffset: Maybe(3)"]
)
def test_lines_that_are_none_of_theirs(tmp_path: Path, line: str) -> None:
    for read in (producer_states_in_text, aborted_transactions_in_text):
        with pytest.raises(DumpLogError) as raised:
            read(_text(tmp_path, f"Dumping x\n\n{line}\n", "00000000000000000100.snapshot"))
        assert raised.value.line == 3


def test_what_people_paste_along(tmp_path: Path) -> None:
    shown = (TEXTS / "snapshot/4.3.1.txt").read_text()
    assert len(producer_states_in_text(_text(tmp_path, shown + "\n```\n[root@host ~]# \n", "00000000000000000100.snapshot"))) == 3


def test_a_text_that_is_larger_than_any_snapshot(tmp_path: Path) -> None:
    with pytest.raises(TooLargeError):
        producer_states_in_text(replace(_text(tmp_path, "Dumping x\n", "00000000000000000100.snapshot"), byte_end=1 << 40))
