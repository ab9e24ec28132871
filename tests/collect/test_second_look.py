"""The second look: how a log went on after it was captured, and when that is not known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from replica_audit.collect import CollectResult
from replica_audit.collect.log_dir_capture import LogDirCapture
from replica_audit.formats.collection.manifest import CapturedReplica, content, parse, read
from replica_audit.model import SecondLook
from tests.collect.collections import resealed
from tests.collect.test_races import locked, once, taken, write_replica, write_segment
from tests.formats import kafka_files as kf
from tests.support import in_process


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The log directory of a broker: `t-0` ends at offset 10, in epoch 1, which begins at 8."""
    path = tmp_path / "data"
    path.mkdir()
    (path / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={kf.CLUSTER_ID}\n")
    write_replica(path, "t-0", {0: [(0, 0), (2, 0)], 4: [(4, 0), (6, 0)], 8: [(8, 1)]}, "0\n2\n0 0\n1 8\n")
    return path


def looked(data: Path, meanwhile: Callable[[], object] = lambda: None) -> SecondLook | None:
    """What a collection says of the second look at `t-0`, if something happens after the capture."""
    with locked(data), once(LogDirCapture, "look_again", meanwhile):
        found = taken(data)
    return _replica(found).second_look


def _replica(found: CollectResult) -> CapturedReplica:
    (log_dir,) = found.manifest.log_dirs
    return next(replica for replica in log_dir.replicas if replica.directory == "t-0")


def append(path: Path, base: int, epoch: int) -> None:
    with path.open("ab") as file:
        file.write(kf.batch(base, epoch, deltas=(0, 1)))


def test_nothing_happens(data: Path) -> None:
    found = looked(data)
    assert found is not None
    assert (found.log_start_offset, found.log_end_offset, found.epochs) == (0, 10, ((1, 8),))


def test_the_log_goes_on(data: Path) -> None:
    def meanwhile() -> None:
        append(data / "t-0" / f"{8:020d}.log", 10, 1)
        append(data / "t-0" / f"{8:020d}.log", 12, 1)

    found = looked(data, meanwhile)
    assert found is not None
    assert (found.log_end_offset, found.epochs) == (14, ((1, 8),))
    (row,) = (row for row in in_process.audit(data.parent / "out")["replica_logs"] if row["topic"] == "t")
    assert (row["log_end_offset"], row["later_log_end_offset"]) == (10, 14)
    assert row["looked_again_at"] >= row["captured_at"]


def test_an_election_between_the_looks_shows(data: Path) -> None:
    def meanwhile() -> None:
        (data / "t-0" / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 8\n4 12\n")
        append(data / "t-0" / f"{8:020d}.log", 10, 1)
        append(data / "t-0" / f"{8:020d}.log", 12, 4)

    found = looked(data, meanwhile)
    assert found is not None
    assert (found.log_end_offset, found.epochs) == (14, ((1, 8), (4, 12)))


def test_a_segment_is_rolled_and_the_oldest_is_deleted(data: Path) -> None:
    def meanwhile() -> None:
        append(data / "t-0" / f"{8:020d}.log", 10, 1)
        write_segment(data / "t-0", 12, [(12, 1), (14, 1)])
        (data / "t-0" / f"{0:020d}.log").unlink()
        (data / "log-start-offset-checkpoint").write_text("0\n1\nt 0 6\n")

    found = looked(data, meanwhile)
    assert found is not None
    assert (found.log_start_offset, found.log_end_offset) == (6, 16)


def test_a_batch_that_is_being_written_does_not_count(data: Path) -> None:
    def meanwhile() -> None:
        path = data / "t-0" / f"{8:020d}.log"
        path.write_bytes(path.read_bytes() + kf.batch(10, 1, deltas=(0, 1))[:-1])

    found = looked(data, meanwhile)
    assert found is not None
    assert found.log_end_offset == 10


def _cut(data: Path) -> None:
    (data / "t-0" / f"{8:020d}.log").write_bytes(b"")


def _cut_and_go_on(data: Path) -> None:
    """It is as long as before, and of another epoch."""
    _cut(data)
    append(data / "t-0" / f"{8:020d}.log", 8, 2)
    append(data / "t-0" / f"{8:020d}.log", 10, 2)


def _replaced(data: Path) -> None:
    path = data / "t-0" / f"{8:020d}.log"
    kept = path.read_bytes()
    path.rename(path.with_suffix(".deleted"))
    path.write_bytes(kept)


def _gone(data: Path) -> None:
    (data / "t-0").rename(data / f"t-0.{'0' * 32}-delete")


def _no_table(data: Path) -> None:
    (data / "t-0" / "leader-epoch-checkpoint").unlink()


def _torn_table(data: Path) -> None:
    (data / "t-0" / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n")


@pytest.mark.parametrize("change", [_cut, _cut_and_go_on, _replaced, _gone, _no_table, _torn_table])
def test_a_log_that_is_not_the_captured_one_any_more_is_not_looked_at(data: Path, change: Callable[[Path], None]) -> None:
    assert looked(data, lambda: change(data)) is None


def test_without_a_broker_at_work_nothing_goes_on(data: Path) -> None:
    (data / ".lock").write_text("")
    assert _replica(taken(data)).second_look is None


def test_the_manifest_keeps_it_and_an_older_one_lacks_it(data: Path) -> None:
    looked(data)
    path = data.parent / "out" / "broker-1" / "manifest.json"
    manifest = read(path)
    assert parse(content(manifest)) == manifest
    document = json.loads(path.read_text())
    (replica,) = document["log_dirs"][0]["replicas"]
    assert replica["second_look"]["epochs"] == [[1, 8]]
    del replica["second_look"]
    assert parse(resealed(document)).log_dirs[0].replicas[0].second_look is None
