"""Transaction markers by their records: raw, and as kafka-dump-log prints them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from replica_audit.formats.replicas.replica_reader import stored_batches
from replica_audit.model import EndMarker, StoredBatch
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf

LOSS = Path(__file__).resolve().parents[1] / "data" / "transactions" / "before" / "broker-1" / "data-0"
BATCH = "baseOffset: {0} lastOffset: {0} count: 1 baseSequence: -1 lastSequence: -1 producerId: 7 producerEpoch: 0 partitionLeaderEpoch: 0 "
BATCH += "isTransactional: true isControl: {2} deleteHorizonMs: OptionalLong.empty position: {1} CreateTime: 5 size: 78 magic: 2 "
BATCH += "compresscodec: none crc: 1 isvalid: true\n"
DATA = "| offset: {0} CreateTime: 5 keySize: 1 valueSize: 1 sequence: 0 headerKeys: [] key: k payload: v\n"
MARKER = "| offset: {0} CreateTime: 5 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] endTxnMarker: {1} coordinatorEpoch: {2}\n"


def markers(path: Path, *, text: bool = False) -> dict[int, EndMarker | None]:
    """By offset, of each control batch."""
    found: dict[int, EndMarker | None] = {}
    for item in stored_batches(rf.texts(path) if text else rf.raw(path), 0):
        assert isinstance(item, StoredBatch)
        if item.header.is_control:
            assert item.marker is not None
            found[item.header.base_offset] = item.marker()
        else:
            assert item.marker is None
    return found


def test_of_real_brokers() -> None:
    """Markers that kafka-dump-log of 4.2.0 prints as COMMIT at 4, 17, 24 and 30, and as ABORT at 10, 25 and 35."""
    found = markers(LOSS / "transfers-0" / "00000000000000000000.log")
    assert {offset: one and one.is_commit for offset, one in found.items()} == {
        **dict.fromkeys((4, 17, 24, 30), True),
        **dict.fromkeys((10, 25, 35), False),
    }
    assert {one and one.coordinator_epoch for one in found.values()} == {0, 1}


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    bad = [rf.control_batch(1, struct.pack(">hh", 0, 5), producer_id=7), rf.control_batch(2, b"", producer_id=7)]
    made = [kf.batch(0, 0), *bad, rf.control_batch(3, rf.ABORT, producer_id=7)]
    assert markers(kf.segment(tmp_path, 0, *made)) == {1: None, 2: None, 3: EndMarker(is_commit=False, coordinator_epoch=3)}


@pytest.mark.parametrize(("printed", "expected"), [("COMMIT", EndMarker(True, 4)), ("ABORT", EndMarker(False, 4)), ("OTHER", None)])
def test_in_text(tmp_path: Path, printed: str, expected: EndMarker | None) -> None:
    path = tmp_path / "dump.txt"
    lines = [BATCH.format(0, 0, "false"), DATA.format(0), BATCH.format(1, 78, "true"), MARKER.format(1, printed, 4)]
    path.write_text(f"Dumping /data/t-0/{0:020d}.log\nLog starting offset: 0\n{''.join(lines)}")
    assert markers(path, text=True) == {1: expected}


def test_in_text_without_records(tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    path.write_text(f"Dumping /data/t-0/{0:020d}.log\nLog starting offset: 0\n{BATCH.format(0, 0, 'true')}{BATCH.format(1, 78, 'true')}")
    assert markers(path, text=True) == {0: None, 1: None}


@pytest.mark.parametrize("epoch", ["", "x", "99999999999"])
def test_an_epoch_that_is_none(tmp_path: Path, epoch: str) -> None:
    path = tmp_path / "dump.txt"
    lines = BATCH.format(0, 0, "true") + MARKER.format(0, "COMMIT", epoch)
    path.write_text(f"Dumping /data/t-0/{0:020d}.log\nLog starting offset: 0\n{lines}")
    assert markers(path, text=True) in ({0: EndMarker(is_commit=True, coordinator_epoch=None)}, {0: None})
