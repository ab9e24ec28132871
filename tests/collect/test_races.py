"""Single races, each at the worst moment: what happens between two steps of the collector is made to happen there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from replica_audit.collect import CollectRequest, CollectResult, collect, replica_capture
from replica_audit.collect.log_dir_capture import LogDirCapture
from replica_audit.collect.replica_capture import ReplicaReader, only_grew
from replica_audit.collect.segment_capture import SegmentCapture
from replica_audit.formats.log_dir.server_properties import is_locked
from tests.collect.collections import quietly, small_files
from tests.formats import kafka_files as kf
from tests.support import in_process

HEX = "0d02eb550ef647d8a7344545600c601f"
_LOCKING = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"


def write_replica(log_dir: Path, name: str, segments: dict[int, list[tuple[int, int]]], epochs: str = "0\n1\n0 0\n") -> Path:
    """A replica whose segments hold batches of two records: (base offset, epoch)."""
    path = log_dir / name
    path.mkdir(parents=True, exist_ok=True)
    (path / "leader-epoch-checkpoint").write_text(epochs)
    (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {kf.TOPIC_ID}")
    for base, batches in segments.items():
        write_segment(path, base, batches)
    return path


def write_segment(path: Path, base: int, batches: list[tuple[int, int]]) -> Path:
    file = path / f"{base:020d}.log"
    file.write_bytes(b"".join(kf.batch(offset, epoch, deltas=(0, 1)) for offset, epoch in batches))
    return file


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    (path / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={kf.CLUSTER_ID}\n")
    (path / "replication-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    write_replica(path, "t-0", {0: [(0, 0), (2, 0)], 4: [(4, 0), (6, 0)], 8: [(8, 0)]})
    return path


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_capture, "_PAUSE", 0)


@contextmanager
def once(owner: type, method: str, action: Callable[[], object], *, when: Callable[..., bool] = lambda *_: True) -> Iterator[None]:
    """Before (or, as `after`, behind) the first call of a method for which `when` holds, something happens."""
    real = getattr(owner, method)
    done = False

    def patched(*arguments: Any, **named: Any) -> Any:
        nonlocal done
        if not done and when(*arguments):
            done = True
            action()
        return real(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, method, patched)
        yield
    assert done


def before_segment(name: str, action: Callable[[], object]) -> Any:
    return once(SegmentCapture, "capture", action, when=lambda _self, listed, *_: listed.name.startswith(name))


def before_check(action: Callable[[], object]) -> Any:
    """After all segments of a replica were read, before it is looked at whether they still hold."""
    return once(ReplicaReader, "_holds", action)


def _is(directory: Path) -> Callable[..., bool]:
    return lambda _self, made, *_: made.directory == directory.name


def taken(log_dir: Path, *more: Path) -> CollectResult:
    return collect(CollectRequest(output=log_dir.parent / "out", log_dirs=(log_dir, *more), replace=True), quietly)


def audited(log_dir: Path) -> dict[str, list[dict[str, Any]]]:
    tables = in_process.audit(log_dir.parent / "out")
    assert not tables["problems"]
    assert not tables["input_errors"]
    assert not [row for row in tables["replica_logs"] if row["unreadable_reason"]]
    return tables


def runs(log_dir: Path) -> list[tuple[int, int, int]]:
    rows = audited(log_dir)["segment_epochs"]
    return sorted((row["segment_base_offset"], row["first_offset"], row["last_offset"]) for row in rows)


WHOLE = [(0, 0, 3), (4, 4, 7), (8, 8, 9)]


def test_nothing_happens(log_dir: Path) -> None:
    result = taken(log_dir)
    assert (result.exit_code, result.manifest.log_dirs[0].vanished) == (0, ())
    assert runs(log_dir) == WHOLE


class TestSegments:
    """Of one replica."""

    def test_retention_before_a_segment_is_read(self, log_dir: Path) -> None:
        old = log_dir / "t-0" / f"{0:020d}.log"
        with before_segment("00000000000000000000", lambda: old.rename(f"{old}.deleted")):
            assert taken(log_dir).exit_code == 0
        assert runs(log_dir) == WHOLE[1:]

    def test_retention_of_what_was_read(self, log_dir: Path) -> None:
        with before_check((log_dir / "t-0" / f"{0:020d}.log").unlink):
            taken(log_dir)
        assert runs(log_dir) == WHOLE, "it was there when the log was looked at"

    def test_retention_of_more_than_was_read_leaves_no_hole(self, log_dir: Path) -> None:
        """0 is read, then 0 and 4 go: 0 without 4 would be a log with a hole."""

        def delete() -> None:
            for base in (0, 4):
                (log_dir / "t-0" / f"{base:020d}.log").unlink()

        with before_segment("00000000000000000004", delete):
            taken(log_dir)
        assert runs(log_dir) == WHOLE[2:]

    def test_a_new_segment_is_not_waited_for(self, log_dir: Path) -> None:
        def roll() -> None:
            with (log_dir / "t-0" / f"{8:020d}.log").open("ab") as stream:
                stream.write(kf.batch(10, 0, deltas=(0, 1)))
            write_segment(log_dir / "t-0", 12, [(12, 0)])

        with before_segment("00000000000000000008", roll):
            taken(log_dir)
        assert runs(log_dir) == WHOLE, "as far as it went when it was listed"

    def test_a_second_look_takes_what_was_written_since(self, log_dir: Path) -> None:
        """The newest segment was read in part, goes on, and is not the newest any more when the directory is looked at again."""

        def roll() -> None:
            with (log_dir / "t-0" / f"{8:020d}.log").open("ab") as stream:
                stream.write(kf.batch(10, 1, deltas=(0, 1)))
            write_segment(log_dir / "t-0", 12, [(12, 1)])
            (log_dir / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {kf.TOPIC_ID}\n")  # whatever it is

        with before_check(roll):
            taken(log_dir)
        assert runs(log_dir) == [*WHOLE, (8, 10, 11), (12, 12, 13)]

    def test_a_truncation_before_the_reader_that_is_made_good_behind_it(self, log_dir: Path) -> None:
        """4 is read while it is cut in half, and is whole again, if with other batches, when the directory is looked at again."""
        write_segment(log_dir / "t-0", 8, [(8, 0), (10, 0)])

        def cut() -> None:
            write_segment(log_dir / "t-0", 4, [(4, 0)])
            (log_dir / "t-0" / f"{8:020d}.log").unlink()

        def go_on() -> None:
            write_segment(log_dir / "t-0", 4, [(4, 0), (6, 1)])
            write_segment(log_dir / "t-0", 8, [(8, 1)])

        with before_segment("00000000000000000004", cut), before_check(go_on):
            taken(log_dir)
        assert runs(log_dir) == [(0, 0, 3), (4, 4, 5), (4, 6, 7), (8, 8, 9)]

    def test_a_truncation_behind_the_reader(self, log_dir: Path) -> None:
        """0 and 4 are read; the log is cut to 6 and goes on in another epoch, with a segment where none was listed."""

        def truncate() -> None:
            (log_dir / "t-0" / f"{8:020d}.log").unlink()
            write_segment(log_dir / "t-0", 4, [(4, 0), (6, 1)])
            (log_dir / "t-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 6\n")

        with before_segment("00000000000000000008", truncate):
            taken(log_dir)
        rows = audited(log_dir)["segment_epochs"]
        assert sorted((row["leader_epoch"], row["first_offset"], row["last_offset"]) for row in rows) == [(0, 0, 3), (0, 4, 5), (1, 6, 7)]

    def test_a_truncation_that_is_made_good_at_once(self, log_dir: Path) -> None:
        """The newest segment is as long as before when it is looked at again; its last bytes are others."""
        with before_check(lambda: write_segment(log_dir / "t-0", 8, [(8, 3)])):
            taken(log_dir)
        assert {row["leader_epoch"] for row in audited(log_dir)["segment_epochs"] if row["first_offset"] == 8} == {3}

    def test_an_epoch_table_that_loses_an_entry(self, log_dir: Path) -> None:
        table = log_dir / "t-0" / "leader-epoch-checkpoint"
        table.write_text("0\n2\n0 0\n1 10\n")
        with before_check(lambda: table.write_text("0\n1\n0 0\n")):
            taken(log_dir)
        assert small_files(log_dir.parent / "out" / "broker-1")["t-0"][table.name] == table.read_bytes()

    def test_compaction_replaces_what_was_read(self, log_dir: Path) -> None:
        (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 0\n")

        def clean() -> None:
            file = log_dir / "t-0" / f"{0:020d}.log"
            swap = file.with_suffix(".log.swap")
            swap.write_bytes(kf.batch(0, 0, deltas=(0, 1)) + kf.batch(6, 0, deltas=(0, 1)))
            for base in (0, 4):
                (log_dir / "t-0" / f"{base:020d}.log").unlink()
            swap.rename(file)
            (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 8\n")

        with before_segment("00000000000000000008", clean):
            result = taken(log_dir)
        assert runs(log_dir) == [(0, 0, 7), (8, 8, 9)]
        assert result.manifest.log_dirs[0].replicas[0].later == {"cleaner_offset": 8}
        assert audited(log_dir)["replica_logs"][0]["cleaner_offset"] == 8

    def test_a_log_that_never_stands_still_is_told(self, log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ReplicaReader, "_holds", lambda *_: False)
        result = taken(log_dir)
        assert result.exit_code == 3
        assert [(one.path, one.reason) for one in result.unread] == [
            (str(log_dir / "t-0"), "its files changed faster than they could be read")
        ]
        assert not in_process.audit(log_dir.parent / "out")["replica_logs"], "half a log is none"
        assert not (log_dir.parent / "out" / "broker-1" / "data" / "batches" / "t-0").exists()

    @pytest.mark.parametrize("tail", [kf.batch(10, 0)[:40], kf.batch(10, 0)[:10], bytes(5_000)])
    def test_the_end_of_a_segment_that_is_written_to(self, log_dir: Path, tail: bytes) -> None:
        """A batch half written, or room made in advance: told where nobody writes, for it is damage there."""
        newest = log_dir / "t-0" / f"{8:020d}.log"
        with newest.open("ab") as stream:
            stream.write(tail)
        assert taken(log_dir).exit_code == 0
        assert len(in_process.audit(log_dir.parent / "out")["input_errors"]) == 1
        with locked(log_dir):
            taken(log_dir)
        assert runs(log_dir) == WHOLE

    def test_a_segment_that_is_repaired_while_it_is_looked_at(self, log_dir: Path) -> None:
        """A batch whose CRC does not match yet: bytes arrive out of order in a file that was made longer in advance."""
        newest = log_dir / "t-0" / f"{8:020d}.log"
        whole = newest.read_bytes()
        newest.write_bytes(whole[:70] + bytes(len(whole) - 70))
        with locked(log_dir), once(SegmentCapture, "_read", lambda: None), pytest.MonkeyPatch.context() as patch:
            attempts = 0
            real = SegmentCapture._attempt

            def attempt(*arguments: Any) -> Any:
                nonlocal attempts
                attempts += 1
                if attempts > 3:
                    newest.write_bytes(whole)
                return real(*arguments)

            patch.setattr(SegmentCapture, "_attempt", attempt)
            taken(log_dir)
        assert runs(log_dir) == WHOLE


class TestDirectories:
    """Replica directories come, go and change their names."""

    def test_a_directory_that_goes_before_it_is_read(self, log_dir: Path) -> None:
        write_replica(log_dir, "u-0", {0: [(0, 0)]})
        with once(ReplicaReader, "capture", lambda: shutil.rmtree(log_dir / "u-0"), when=lambda _self, name, **_: name == "u-0"):
            result = taken(log_dir)
        assert (result.exit_code, result.manifest.log_dirs[0].vanished) == (0, ("u-0",))
        assert {row["directory"] for row in audited(log_dir)["replica_logs"]} == {"t-0"}

    def test_a_directory_that_is_renamed_while_it_is_read(self, log_dir: Path) -> None:
        gone = log_dir / f"t-0.{HEX}-delete"
        with before_segment("00000000000000000004", lambda: (log_dir / "t-0").rename(gone)):
            result = taken(log_dir)
        assert result.manifest.log_dirs[0].vanished == ("t-0",)
        assert {(row["directory"], row["state"]) for row in audited(log_dir)["replica_logs"]} == {(gone.name, "deleted")}

    def test_a_topic_that_is_created_again(self, log_dir: Path) -> None:
        def again() -> None:
            (log_dir / "t-0").rename(log_dir / f"t-0.{HEX}-delete")
            write_replica(log_dir, "t-0", {0: [(0, 0)]})

        write_replica(log_dir, "u-0", {0: [(0, 0)]})
        with once(ReplicaReader, "capture", again, when=lambda _self, name, **_: name == "u-0"):
            result = taken(log_dir)
        assert result.exit_code == 0
        rows = {row["directory"]: row["log_end_offset"] for row in audited(log_dir)["replica_logs"]}
        assert rows == {"t-0": 2, "u-0": 2, f"t-0.{HEX}-delete": 10}

    def test_a_move_between_log_directories_that_ends_meanwhile(self, log_dir: Path) -> None:
        """The future replica becomes the current one after both were read: it must not be taken for two current ones."""
        other = log_dir.parent / "other"
        write_replica(other, f"t-0.{HEX}-future", {0: [(0, 0), (2, 0)]})
        write_replica(other, "z-0", {0: [(0, 0)]})

        def promote() -> None:
            (log_dir / "t-0").rename(log_dir / f"t-0.{HEX}-delete")
            (other / f"t-0.{HEX}-future").rename(other / "t-0")

        with once(ReplicaReader, "capture", promote, when=lambda _self, name, **_: name == "z-0"):
            result = taken(log_dir, other)
        assert result.exit_code == 0
        rows = {(Path(row["log_dir"]).name, row["directory"]): row["log_end_offset"] for row in audited(log_dir)["replica_logs"]}
        assert rows == {("other", "t-0"): 4, ("other", "z-0"): 2, ("data", f"t-0.{HEX}-delete"): 10}
        assert not (result.folder / "other" / f"t-0.{HEX}-future").exists()

    def test_one_that_has_no_segment_yet(self, log_dir: Path) -> None:
        young = log_dir / "young-0"
        young.mkdir()
        with locked(log_dir), once(ReplicaReader, "_holds", lambda: write_replica(log_dir, "young-0", {0: [(0, 0)]}), when=_is(young)):
            taken(log_dir)
        assert {row["directory"] for row in audited(log_dir)["replica_logs"]} == {"t-0", "young-0"}

    def test_one_that_comes_meanwhile_is_taken_too(self, log_dir: Path) -> None:
        with before_check(lambda: write_replica(log_dir, "new-0", {0: [(0, 0)]})):
            taken(log_dir)
        assert {row["directory"] for row in audited(log_dir)["replica_logs"]} == {"t-0", "new-0"}


class TestCheckpoints:
    """The files of the log directory."""

    def test_the_high_watermark_is_read_again_before_each_replica(self, log_dir: Path) -> None:
        write_replica(log_dir, "u-0", {0: [(0, 0), (2, 0)]})

        def checkpoint() -> None:
            temporary = log_dir / "replication-offset-checkpoint.tmp"
            temporary.write_text("0\n2\nt 0 8\nu 0 4\n")
            temporary.rename(log_dir / "replication-offset-checkpoint")

        with before_segment("00000000000000000004", checkpoint):
            taken(log_dir)
        rows = {row["directory"]: row["high_watermark"] for row in audited(log_dir)["replica_logs"]}
        assert rows == {"t-0": 4, "u-0": 4}, "t-0's from before its log was read, u-0's from then on"
        document = json.loads((log_dir.parent / "out" / "broker-1" / "manifest.json").read_text())
        assert [replica["later"] for replica in document["log_dirs"][0]["replicas"]] == [{}, {"high_watermark": 4}]

    @pytest.mark.parametrize("when", ["always", "until it starts", "once it has stopped"])
    def test_the_mark_of_a_clean_shutdown_counts_if_it_was_always_there(self, log_dir: Path, when: str) -> None:
        mark = log_dir / ".kafka_cleanshutdown"
        if when != "once it has stopped":
            mark.write_text('{"version":0,"brokerEpoch":9}')
        change = {"always": lambda: None, "until it starts": mark.unlink, "once it has stopped": lambda: mark.write_text("")}[when]
        with before_check(change):
            result = taken(log_dir)
        assert (mark.name in result.manifest.log_dirs[0].files) == (when == "always")
        assert (result.folder / "data" / mark.name).exists() == (when == "always")

    def test_metadata_is_first_and_the_groups_offsets_are_second(self, log_dir: Path) -> None:
        for name in ("A-0", "__consumer_offsets-3", "__cluster_metadata-0"):
            write_replica(log_dir, name, {0: [(0, 0)]})
        order: list[str] = []
        real = LogDirCapture.capture

        def capture(self: LogDirCapture, directory: str, *arguments: Any, **named: Any) -> None:
            order.append(directory)
            real(self, directory, *arguments, **named)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LogDirCapture, "capture", capture)
            taken(log_dir)
        assert order == ["__cluster_metadata-0", "__consumer_offsets-3", "A-0", "t-0"]


@contextmanager
def locked(log_dir: Path) -> Iterator[None]:
    """Another process holds the lock, as a broker does."""
    command = [sys.executable, "-c", _LOCKING, str(log_dir / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
        process.kill()


def test_whether_a_broker_is_at_work(log_dir: Path) -> None:
    assert is_locked(log_dir / ".lock") is None
    (log_dir / ".lock").write_text("")
    assert is_locked(log_dir / ".lock") is False
    with locked(log_dir):
        assert is_locked(log_dir / ".lock") is True
        assert taken(log_dir).manifest.log_dirs[0].in_use is True
    assert taken(log_dir).manifest.log_dirs[0].in_use is False


@pytest.mark.parametrize(
    ("before", "after", "grew"),
    [
        ("0 0", "0 0", True),
        ("0 0", "0 0,1 5", True),
        ("", "0 0", True),
        ("0 0,1 5", "1 7", True),
        ("0 0,1 5", "0 3,1 5,2 9", True),
        ("0 0,1 5", "0 0", False),
        ("0 0,1 5", "0 0,1 4", False),
        ("0 0,1 5", "0 0,1 6", False),
        ("0 0,1 5", "0 0,2 5", False),
        ("0 0", "", False),
        ("1 7", "1 5", False),
        ("0 0,1 5", "9 9", True),
    ],
)
def test_how_a_table_may_change(before: str, after: str, grew: bool) -> None:
    def file(entries: str) -> bytes:
        lines = [entry for entry in entries.split(",") if entry]
        return "\n".join(["0", str(len(lines)), *lines, ""]).encode()

    assert only_grew(file(before), file(after)) is grew
    assert only_grew(None, file(after))
    assert not only_grew(file("0 0"), b"garbage")
