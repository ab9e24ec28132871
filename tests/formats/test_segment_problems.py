"""What a scan finds wrong in a segment that can be read: batches of the format with leader epochs that have none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from replica_audit.formats.replicas.replica_reader import scan_of
from replica_audit.formats.segment.segment_scan import Scanned, scanned
from replica_audit.model import SegmentFile
from tests.formats import kafka_files as kf
from tests.support import in_process
from tests.support.in_process import Row

BELOW = [-1, -5, -(2**31)]


def _scanned(folder: Path, *batches: bytes) -> Scanned:
    path = kf.segment(folder, 0, *batches)
    return scanned(SegmentFile(path=str(path), source="raw", base_offset=0, size_bytes=path.stat().st_size), scan_of)


def _epochs(found: Scanned) -> list[tuple[int, int]]:
    return [(run.leader_epoch, run.first_offset) for run in found.scan.runs]


@pytest.mark.parametrize("epoch", BELOW)
def test_a_batch_with_an_epoch_that_is_none(tmp_path: Path, epoch: int) -> None:
    found = _scanned(tmp_path, kf.batch(0, 0), kf.batch(1, epoch, deltas=range(4)), kf.batch(5, 2))
    (problem,) = found.problems
    assert (problem.kind, problem.code, problem.path) == ("segment", "bad-leader-epoch", str(tmp_path / f"{0:020d}.log"))
    assert f"the batch at offset 1 has leader epoch {epoch}," in problem.detail
    assert not found.failed
    assert _epochs(found) == [(0, 0), (-1, 1), (2, 5)], "it is told as none"
    assert all(run.intact for run in found.scan.runs), "the CRC does not cover it"


def test_the_first_such_batch_of_a_segment_is_told(tmp_path: Path) -> None:
    found = _scanned(tmp_path, kf.batch(0, 0), kf.batch(1, -5), kf.batch(2, 0), kf.batch(3, -1))
    (problem,) = found.problems
    assert "the batch at offset 1 has leader epoch -5," in problem.detail


@pytest.mark.parametrize("magic", [0, 1])
def test_formats_before_have_no_epochs(tmp_path: Path, magic: int) -> None:
    found = _scanned(tmp_path, kf.legacy(magic, [0, 1]), kf.legacy(magic, [2, 3], codec=kf.GZIP), kf.batch(4, 0))
    assert not found.problems
    assert _epochs(found) == [(-1, 0), (0, 4)]


def test_in_a_dump_text_it_is_told_too(tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    line = (
        "baseOffset: {0} lastOffset: {0} count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch:"
    )
    line += " {1} isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: {2} CreateTime: 1000 size: 76"
    line += " magic: 2 compresscodec: none crc: 1 isvalid: true\n"
    head = "Dumping /data/t-0/00000000000000000000.log\nLog starting offset: 0\n"
    text = head + line.format(0, 0, 0) + line.format(1, -5, 76)
    path.write_text(text, encoding="utf-8")
    file = SegmentFile(
        path=str(path), source="dump", base_offset=0, size_bytes=len(text), byte_start=len(head), byte_end=len(text), first_line=3
    )
    found = scanned(file, scan_of)
    assert [(problem.kind, problem.code) for problem in found.problems] == [("dump", "bad-leader-epoch")]
    assert _epochs(found) == [(0, 0), (-1, 1)]


# --- what comes of it on two replicas -----------------------------------------------------------------------------------------------------


def _audited(root: Path, leader: Sequence[bytes], follower: Sequence[bytes]) -> tuple[Row, dict[str, list[Row]]]:
    """Brokers 1 and 2 hold t-0, both with the table of a leader that wrote epoch 0 up to 4 and epoch 2 from 5 on."""
    for broker, batches in ((1, leader), (2, follower)):
        data = kf.log_dir(root / f"broker-{broker}" / "data-0", "t-0", broker_id=broker, high_watermark=15)
        kf.replica(data, "t-0", epochs=[(0, 0), (2, 5)], batches=batches)
    tables = in_process.audit(root)
    (verdict,) = tables["replica_verdicts"]
    assert (verdict["leader_id"], verdict["truncation_offset"]) == (1, None)
    return verdict, tables


def _batches(epoch: int) -> list[bytes]:
    """Offsets 0..14; the batch in the middle has the epoch."""
    return [kf.batch(base, of_batch, deltas=range(5)) for base, of_batch in ((0, 0), (5, epoch), (10, 2))]


@pytest.mark.parametrize("epoch", BELOW)
def test_it_conflicts_with_the_leaders_epoch(tmp_path: Path, epoch: int) -> None:
    row, tables = _audited(tmp_path, _batches(2), _batches(epoch))
    assert (row["verdict"], row["divergence_offset"]) == ("log_matching_violation", 5)
    assert "at 5..9 leader epoch 2, follower no epoch" in row["reason"]
    assert [(problem["broker_id"], problem["code"]) for problem in tables["input_errors"]] == [(2, "bad-leader-epoch")]
    assert {found["leader_epoch"] for found in tables["segment_epochs"] if found["broker_id"] == 2} == {-1, 0, 2}


@pytest.mark.parametrize("epoch", BELOW)
def test_where_both_have_it_the_tables_alone_know_better(tmp_path: Path, epoch: int) -> None:
    row, tables = _audited(tmp_path, _batches(epoch), _batches(epoch))
    assert (row["verdict"], row["divergence_offset"]) == ("epoch_table_only", None)
    assert row["reason"] == "follower 2's leader-epoch-checkpoint gives epoch 2 at offset 5, its batches none"
    assert [(problem["broker_id"], problem["code"]) for problem in tables["input_errors"]] == [
        (1, "bad-leader-epoch"),
        (2, "bad-leader-epoch"),
    ]


@pytest.mark.parametrize("magic", [0, 1])
def test_entries_of_a_format_before_conflict_with_nothing(tmp_path: Path, magic: int) -> None:
    """A leader of an older version converted them down."""
    entries = b"".join(kf.legacy(magic, [offset], timestamp=1_000 + offset - 5) for offset in range(5, 10))
    converted = [kf.batch(0, 0, deltas=range(5)), entries, kf.batch(10, 2, deltas=range(5))]
    row, tables = _audited(tmp_path, _batches(2), converted)
    assert (row["verdict"], row["divergence_offset"]) == ("identical", None)
    assert not tables["input_errors"]


TORN = kf.batch(1, 0, value=b"x" * 200)[:150]


@pytest.mark.parametrize(
    ("behind", "code"),
    [
        ([], "torn-batch"),
        ([kf.batch(1, 0)], "appended-behind-torn-batch"),  # where the readable log ends a broker goes on
        ([b"?" * 9, kf.batch(1, 0)], "appended-behind-torn-batch"),
        ([kf.batch(2, 0)], "bad-batch-length"),  # the length of a sound batch was changed: what follows is the next one
        ([kf.batch(1, 0)[:-1]], "torn-batch"),
        ([kf.with_field(kf.batch(1, 0), ">B", 60, 9)], "torn-batch"),  # does not match its CRC
    ],
)
def test_what_a_broker_appends_behind_a_torn_batch(tmp_path: Path, behind: list[bytes], code: str) -> None:
    found = _scanned(tmp_path, kf.batch(0, 0), TORN, *behind)
    (problem,) = found.problems
    assert (problem.code, problem.byte_offset) == (code, len(kf.batch(0, 0)))
    assert ("did not recover this log" in problem.remedy) == (code == "appended-behind-torn-batch")
    assert ("whole batch at byte" in problem.detail) == (code != "torn-batch")
    if code != "torn-batch":
        assert f"byte {len(kf.batch(0, 0)) + len(TORN) + len(behind[0]) * (len(behind) - 1)} among" in problem.detail
    assert [run.last_offset for run in found.scan.runs] == [0]


@pytest.mark.parametrize(
    "behind", [b"<html><body>503 Service Unavailable</body></html>" * 9, bytes(8) + b"\x7f" * 99], ids=["text", "bytes"]
)
def test_what_begins_like_no_batch_is_no_torn_one(tmp_path: Path, behind: bytes) -> None:
    """A write that was cut short leaves the beginning of a batch as it is."""
    (problem,) = _scanned(tmp_path, kf.batch(0, 0), behind).problems
    assert (problem.code, "begin like no batch" in problem.detail) == ("bad-batch-length", True)


def test_no_remedy_has_a_leader_fetch_from_itself(tmp_path: Path) -> None:
    """Who leads is not known where a segment is read: moving the leader's directory away may delete the last copy."""
    damaged = bytearray(kf.batch(0, 0))
    damaged[-1] ^= 1
    for content in ((bytes(damaged),), (kf.batch(0, 0), TORN, kf.batch(1, 0))):
        (problem,) = _scanned(tmp_path, *content).problems
        assert "from the leader" not in problem.remedy
        assert "change nothing there by hand" in problem.remedy


def _remedy(tmp_path: Path, *files: str, state: str | None = None) -> str:
    """What to do about a torn end of a broker whose log directory has these files."""
    root = tmp_path / "cluster"
    data = kf.log_dir(root / "broker-1" / "data")
    kf.replica(data, "orders-0", batches=[kf.batch(0, 0), TORN])
    for name in files:
        (data / name).touch()
    if state:
        known = {"version": 1, "cluster_id": kf.CLUSTER_ID, "brokers": [{"id": 1, "state": state}], "topics": []}
        (root / "cluster-metadata.json").write_text(json.dumps(known))
    (row,) = [row for row in in_process.audit(root)["input_errors"] if row["code"] == "torn-batch"]
    return str(row["remedy"])


def test_after_a_clean_stop_nothing_cuts_it_off(tmp_path: Path) -> None:
    remedy = _remedy(tmp_path, ".lock", ".kafka_cleanshutdown")
    assert "stopped cleanly (.kafka_cleanshutdown), so it does not recover the log" in remedy
    assert remedy.startswith("do not start the broker yet: it was stopped cleanly")


def test_after_a_crash_the_broker_cuts_it_off(tmp_path: Path) -> None:
    """With the .lock copied, the marker of a clean stop would be, too."""
    assert _remedy(tmp_path, ".lock").startswith("none: the broker was not stopped cleanly")


@pytest.mark.parametrize(("files", "state"), [((), None), ((".lock",), "up")], ids=["no marker would be seen", "it runs"])
def test_what_is_not_known_is_hedged(tmp_path: Path, files: tuple[str, ...], state: str | None) -> None:
    remedy = _remedy(tmp_path, *files, state=state)
    assert remedy.startswith("none if it is the newest segment of a broker that recovers its log")
    assert "After a clean stop it does not" in remedy
