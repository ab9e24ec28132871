"""A segment that was there when it was scanned and is gone, or unreadable, when its batches are wanted again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from replica_audit.config import Settings
from replica_audit.formats.replicas import replica_reader
from replica_audit.model import BatchHeader, BatchRun, SegmentFile
from replica_audit.rows.codes import Protocol
from tests.scenarios.disks import Cluster, Disk
from tests.support import in_process

READ = "replica_audit.stages.partitions.batches_from"
Runs = Mapping[SegmentFile, Sequence[BatchRun]]
CLUSTER = Cluster(
    disks={
        1: Disk(batches=[(1, 0, 9), (3, 10, 19)], high_watermark=20),
        2: Disk(batches=[(1, 0, 9), (2, 10, 14)], high_watermark=12),
    },
    leader_epoch=3,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    CLUSTER.audit(tmp_path, Protocol.TRUNCATE_ON_FETCH)
    (root,) = tmp_path.iterdir()
    return root


@pytest.mark.parametrize("is_gone_for", ["pairs", "leaders that are tried"])
def test_it_is_told_and_the_rest_goes_on(home: Path, monkeypatch: pytest.MonkeyPatch, is_gone_for: str) -> None:
    reads: list[int] = []
    monkeypatch.setattr(READ, _gone_from(1 << 30, reads))
    in_process.audit(home)
    of_pairs = len(reads)
    whole = in_process.audit(home, settings=Settings(what_if_leaders=True))
    monkeypatch.setattr(READ, _gone_from(0 if is_gone_for == "pairs" else of_pairs, []))
    tables = in_process.audit(home, settings=Settings(what_if_leaders=True))
    (row,), (before,) = tables["replica_verdicts"], whole["replica_verdicts"]
    assert (row["verdict"], row["truncation_offset"], row["removed_below_high_watermark"]) == ("committed_loss", 10, 2)
    assert all("1 replica could not be read" in row["reason"] for row in tables["what_if_leaders"])
    if is_gone_for != "pairs":
        assert row == before
        return
    assert (before["removed_offsets"], before["removed_records"]) == (5, 5)
    assert row["removed_offsets"] is row["removed_records"] is row["removed_bytes"] is None
    told = [row for row in tables["input_errors"] if row["code"] == "cannot-read"]
    assert [(row["broker_id"], row["path"]) for row in told] == [(broker, "/data/orders-0/00000000000000000000.log") for broker in (1, 2)]
    assert all("audit again" in row["remedy"] for row in told)


def test_a_file_of_the_leader_is_told_of_the_leader(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the follower's next fetch begins is looked up in the leader's log, by the rule of KIP-101 only."""
    root = home.parent / "kip-101"
    root.mkdir()
    disks = {1: Disk(batches=[(1, 0, 10), (1, 11, 20), (3, 21, 30)]), 2: Disk(batches=[(1, 0, 10), (2, 11, 15)], high_watermark=11)}
    cluster = Cluster(disks=disks, leader_epoch=3)
    assert cluster.audit(root, Protocol.KIP_101).cut()["fetcher_fails"]
    monkeypatch.setattr(READ, _gone_on_broker_1)
    (kept,) = root.iterdir()
    (problem,) = [row for row in in_process.audit(kept)["input_errors"] if row["code"] == "cannot-read"]
    assert (problem["broker_id"], Path(problem["path"]).parts[-4]) == (1, "broker-1")


def _gone_from(first: int, reads: list[int]) -> Callable[[Runs, int, Runs], Iterator[BatchHeader]]:
    """What reads batches until the `first` of its calls, of which `reads` keeps the offsets, and no more from then on."""

    def read(files: Runs, offset: int, runs: Runs) -> Iterator[BatchHeader]:
        reads.append(offset)
        if len(reads) > first:
            raise FileNotFoundError(2, "No such file or directory", "/data/orders-0/00000000000000000000.log")
        yield from replica_reader.batches_from(files, offset, runs)

    return read


def _gone_on_broker_1(files: Runs, offset: int, runs: Runs) -> Iterator[BatchHeader]:
    for file in files:
        if "broker-1" in file.path:
            raise FileNotFoundError(2, "No such file or directory", file.path)
    yield from replica_reader.batches_from(files, offset, runs)
