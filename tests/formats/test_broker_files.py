"""One broker's folder, whatever stands below it: found and used, or reported; never a crash, never dropped in silence.

Every walk also checks that its rows fit the schema of the inventory: what does not would end a whole run.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from replica_audit.formats.log_dir.names import EPOCH_CHECKPOINT, META_PROPERTIES, OFFSET_CHECKPOINTS, PARTITION_METADATA
from replica_audit.formats.replicas.broker_files import ServerLog, replicas_of
from replica_audit.model import Problem, ReplicaFiles
from replica_audit.stages.fitting import misfit
from tests.formats import kafka_files as kf
from tests.formats.rights import as_nobody, open_to_all

DATA = Path(__file__).parents[1] / "data"
JBOD = Path(__file__).parents[2].parent / "shared" / "clusters" / "jbod-and-leftovers" / "before"
HEX = "0d02eb550ef647d8a7344545600c601f"
HIGH_WATERMARKS, RECOVERY_POINTS, LOG_STARTS, CLEANER_OFFSETS = OFFSET_CHECKPOINTS


class Walk:
    """Everything that a walk over a folder gives."""

    def __init__(self, folder: Path) -> None:
        found = list(replicas_of(folder))
        self.folder = folder
        self.replicas = [one for one in found if isinstance(one, ReplicaFiles)]
        self.server_logs = [one for one in found if isinstance(one, ServerLog)]
        self.loose = [one for one in found if isinstance(one, Problem)]
        self.problems = [*self.loose, *(problem for one in self.replicas for problem in one.problems)]
        self.codes = sorted(problem.code for problem in self.problems)
        keys = [(one.log_dir, one.directory) for one in self.replicas]
        assert len(set(keys)) == len(keys), "a directory is one replica"
        for problem in self.problems:
            assert problem.detail and problem.remedy and problem.kind and problem.path
        assert all(misfit(one, "row") is None for one in (*self.replicas, *self.loose))

    def __getitem__(self, directory: str) -> ReplicaFiles:
        """The only replica in a directory of this name."""
        (one,) = (one for one in self.replicas if one.directory == directory)
        return one

    @property
    def names(self) -> list[str]:
        return sorted(one.directory for one in self.replicas)

    @property
    def current(self) -> Counter[tuple[str, int]]:
        return Counter((one.topic, one.partition) for one in self.replicas if one.state == "current")

    def about(self, path: Path) -> list[Problem]:
        """The problems that name a path, or something below it."""
        return [problem for problem in self.problems if problem.path == str(path) or problem.path.startswith(f"{path}/")]


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """A broker's folder with one log directory `data-0`, and in it `orders-0` and `orders-1`."""
    folder = tmp_path / "broker-1"
    kf.log_dir(folder / "data-0", "orders-0", "orders-1")
    return folder


def dump_text(path: str, *, base: int = 0) -> bytes:
    """What kafka-dump-log of 4.2.0 printed for a segment of six batches, its `Dumping` line made to name `path`."""
    content = (DATA / "dump-samples" / "v2" / "kafka-4.2.0.shallow.txt").read_text()
    body = content.partition("\n")[2].replace("Log starting offset: 0", f"Log starting offset: {base}")
    return f"Dumping {path}\n{body}".encode()


# --- what a broker really has ---


def test_a_log_directory(broker: Path):
    data = broker / "data-0"
    (data / RECOVERY_POINTS).write_bytes(kf.checkpoint([("orders", 0, 1)]))
    (data / LOG_STARTS).write_bytes(kf.checkpoint([("orders", 1, 1)]))
    (data / CLEANER_OFFSETS).write_bytes(kf.checkpoint([("orders", 1, 2), ("elsewhere", 0, 9)]))
    (data / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":19}')
    (data / ".lock").touch()
    kf.segment(data / "orders-0", 2, kf.batch(2, 1))
    walk = Walk(broker)
    assert (walk.names, walk.problems) == (["orders-0", "orders-1"], [])
    one = walk["orders-0"]
    assert (one.topic, one.partition, one.state, one.topic_id, one.log_dir) == ("orders", 0, "current", kf.TOPIC_ID, str(data))
    assert (one.high_watermark, one.recovery_point, one.log_start_offset, one.cleaner_offset) == (2, 1, None, None)
    assert (one.clean_shutdown, one.offline_reason, one.checkpoint_state) == (True, None, "ok")
    assert (one.checkpoint, one.epochs) == (((3, 0, 0),), ((0, 0),))
    assert [(file.base_offset, file.source, file.swap, Path(file.path).stat().st_size) for file in one.segments] == [
        (0, "raw", False, one.segments[0].size_bytes),
        (2, "raw", False, one.segments[1].size_bytes),
    ]
    other = walk["orders-1"]
    assert (other.recovery_point, other.log_start_offset, other.cleaner_offset) == (None, 1, 2)


def test_a_log_directory_given_itself(broker: Path):
    walk = Walk(broker / "data-0")
    assert (walk.names, walk["orders-0"].high_watermark, walk.problems) == (["orders-0", "orders-1"], 2, [])


def test_several_log_directories_keep_their_checkpoints_apart(tmp_path: Path):
    kf.log_dir(tmp_path / "disk-a" / "kafka", "orders-0", high_watermark=1)
    kf.log_dir(tmp_path / "disk-b" / "kafka", "orders-1", high_watermark=2)
    (tmp_path / "disk-b" / "kafka" / ".kafka_cleanshutdown").touch()
    walk = Walk(tmp_path)
    assert [(one.directory, one.high_watermark, one.clean_shutdown) for one in walk.replicas] == [
        ("orders-0", 1, False),
        ("orders-1", 2, True),
    ]
    assert walk.problems == []


def test_the_same_replica_in_two_log_directories_is_never_merged(tmp_path: Path):
    for disk, high_watermark in (("data-0", 1), ("data-1", 2)):
        kf.log_dir(tmp_path / disk, "orders-0", high_watermark=high_watermark)
    walk = Walk(tmp_path)
    assert [(Path(one.log_dir).name, one.high_watermark) for one in walk.replicas] == [("data-0", 1), ("data-1", 2)]


def test_directories_set_aside(broker: Path):
    data = broker / "data-0"
    for suffix in ("delete", "stray"):
        kf.replica(data, f"gone-3.{HEX}-{suffix}")
    kf.log_dir(broker / "data-1", high_watermark=40)
    kf.replica(broker / "data-1", f"orders-0.{HEX}-future")
    (broker / "data-1" / HIGH_WATERMARKS).write_bytes(kf.checkpoint([("orders", 0, 40)]))
    walk = Walk(broker)
    assert {(one.topic, one.partition, one.state) for one in walk.replicas} == {
        ("orders", 0, "current"),
        ("orders", 1, "current"),
        ("orders", 0, "future"),
        ("gone", 3, "deleted"),
        ("gone", 3, "stray"),
    }
    assert walk[f"orders-0.{HEX}-future"].high_watermark == 40  # listed in the target directory under the plain name
    assert walk["orders-0"].high_watermark == 2
    assert walk.problems == []


def test_topics_with_names_that_mislead(tmp_path: Path):
    names = ["x-delete-0", "a.b_c-d.1-0-7", "data-0", "broker-1", "kafka-logs-2", "server.log-0", "remote-log-index-cache-0"]
    kf.log_dir(tmp_path / "kafka", *names)
    walk = Walk(tmp_path)
    assert (walk.names, walk.problems) == (sorted(names), [])
    assert {one.high_watermark for one in walk.replicas} == {2}


def test_segments_that_count(broker: Path):
    replica = broker / "data-0" / "orders-0"
    for base, suffix in ((5, ".deleted"), (6, ".cleaned"), (4, ".swap"), (6, ".swap"), (7, ".swap"), (8, "")):
        kf.segment(replica, base, kf.batch(base, 0), suffix=suffix)
    # KAFKA-6264: swap files at or above the smallest cleaned file are void
    assert [(file.base_offset, file.swap) for file in Walk(broker)["orders-0"].segments] == [(0, False), (4, True), (8, False)]


@pytest.mark.parametrize("kind", ["log", "index", "timeindex", "txnindex"])
def test_any_cleaned_file_voids_swap_files(broker: Path, kind: str):
    replica = broker / "data-0" / "orders-0"
    kf.segment(replica, 3, kf.batch(3, 0), suffix=".swap")
    assert [file.base_offset for file in Walk(broker)["orders-0"].segments] == [0, 3]
    (replica / f"{3:020d}.{kind}.cleaned").touch()
    assert [file.base_offset for file in Walk(broker)["orders-0"].segments] == [0]


@pytest.mark.parametrize(
    ("content", "state", "codes"),
    [
        (b"", "empty", []),
        (b"0\n0\n", "empty", []),
        (b"0\n1\n0 0\n", "ok", []),
        (b"0\n2\n3 9\n0 0\n", "healed", ["checkpoint-out-of-order"]),
        (b"0\n2\n0 0\n", "unreadable", ["malformed"]),
        (None, "missing", []),
    ],
)
def test_states_of_the_epoch_checkpoint(broker: Path, content: bytes | None, state: str, codes: list[str]):
    path = broker / "data-0" / "orders-0" / EPOCH_CHECKPOINT
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    walk = Walk(broker)
    assert (walk["orders-0"].checkpoint_state, walk.codes) == (state, codes)
    assert (walk["orders-0"].offline_reason is not None) == (state == "unreadable")
    assert walk["orders-1"].offline_reason is None
    assert all((problem.path, problem.kind) == (str(path), EPOCH_CHECKPOINT) for problem in walk.problems)


def test_a_lost_epoch_checkpoint_is_missing_also_where_no_other_replica_has_one(tmp_path: Path):
    """A broker does not rebuild it after a clean stop. `partition.metadata` shows that the directory was copied as it stood."""
    data = kf.log_dir(tmp_path / "data-0", "orders-0")
    (data / "orders-0" / EPOCH_CHECKPOINT).unlink()
    assert Walk(tmp_path)["orders-0"].checkpoint_state == "missing"


def test_where_only_segments_were_copied_the_epoch_checkpoint_is_not_missing(tmp_path: Path):
    kf.segment(tmp_path / "data-0" / "orders-0", 0, kf.batch(0, 3))
    walk = Walk(tmp_path)
    assert (walk["orders-0"].checkpoint_state, walk.problems) == ("not-collected", [])


def test_a_healed_table_is_kept_as_found_and_as_loaded(broker: Path):
    (broker / "data-0" / "orders-0" / EPOCH_CHECKPOINT).write_bytes(kf.checkpoint([(0, 0), (3, 9), (1, 4)]))
    one = Walk(broker)["orders-0"]
    assert (one.checkpoint, one.epochs) == (((3, 0, 0), (4, 3, 9), (5, 1, 4)), ((0, 0), (1, 4)))
    assert [problem.line for problem in one.problems] == [5]


def test_the_metadata_log_is_a_replica_like_others(broker: Path):
    metadata = kf.replica(broker / "data-0", "__cluster_metadata-0")
    for name in ("quorum-state", "00000000000000000002-0000000001.checkpoint", "00000000000000000002-0000000001.checkpoint.part"):
        (metadata / name).write_bytes(b"x")
    (broker / "data-0" / "bootstrap.checkpoint").write_bytes(b"x")
    walk = Walk(broker)
    assert ("__cluster_metadata-0" in walk.names, walk.problems) == (True, [])


def test_an_index_cache_of_tiered_storage_is_not_entered(broker: Path):
    cache = broker / "data-0" / "remote-log-index-cache"
    kf.replica(cache, "orders-0")
    (cache / "0_x.index").write_bytes(b"x")
    walk = Walk(broker)
    assert (walk.names, walk.problems) == (["orders-0", "orders-1"], [])


def test_unfinished_writes_are_ignored(broker: Path):
    for name in (*OFFSET_CHECKPOINTS, META_PROPERTIES):
        (broker / "data-0" / f"{name}.tmp").write_bytes(b"\x00half")
    for name in (EPOCH_CHECKPOINT, PARTITION_METADATA):
        (broker / "data-0" / "orders-0" / f"{name}.tmp").write_bytes(b"\x00half")
    walk = Walk(broker)
    assert (walk.problems, walk["orders-0"].high_watermark, walk["orders-0"].checkpoint_state) == ([], 2, "ok")


def test_every_replica_of_the_sample_is_found_and_nothing_is_reported():
    for folder in sorted((DATA / "sample").glob("*/broker-*")):
        walk = Walk(folder)
        assert walk.problems == [], folder
        assert {one.directory for one in walk.replicas} == {path.name for path in folder.glob("*/*-*") if path.is_dir()}
        kraft = [one for one in walk.replicas if one.topic == "__cluster_metadata"]
        assert all(one.segments and (one in kraft) == (one.high_watermark is None) for one in walk.replicas), folder
        assert [log.path.name for log in walk.server_logs] == [path.name for path in folder.glob("server.log")]


@pytest.mark.parametrize("root", [JBOD] if JBOD.is_dir() else [])
def test_leftovers_of_real_brokers(root: Path):
    states: Counter[str] = Counter()
    for folder in sorted(root.glob("broker-*")):
        walk = Walk(folder)
        assert walk.problems == [], folder
        states.update(one.state for one in walk.replicas)
        assert {one.directory for one in walk.replicas} == {path.name for path in folder.glob("data-*/*-*") if path.is_dir()}
    assert set(states) == {"current", "future", "deleted", "stray"}


# --- files that cannot be read as what they are called ---

SMALL_FILES = [
    ("data-0/orders-0", EPOCH_CHECKPOINT),
    ("data-0/orders-0", PARTITION_METADATA),
    ("data-0", META_PROPERTIES),
    *(("data-0", name) for name in OFFSET_CHECKPOINTS),
]
IN_THE_WAY: dict[str, Callable[[Path], object]] = {
    "dangling link": lambda path: path.symlink_to(path.parent / "nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "directory": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("way", list(IN_THE_WAY))
@pytest.mark.parametrize(("place", "name"), SMALL_FILES)
def test_something_else_stands_where_a_small_file_should(broker: Path, place: str, name: str, way: str):
    path = broker / place / name
    path.unlink(missing_ok=True)
    IN_THE_WAY[way](path)
    walk = Walk(broker)
    assert walk.about(path), "not reported"
    assert walk.current == {("orders", 0): 1, ("orders", 1): 1}
    if name == EPOCH_CHECKPOINT:
        assert (walk["orders-0"].checkpoint_state, walk["orders-1"].checkpoint_state) == ("unreadable", "ok")
        assert walk["orders-0"].offline_reason
    if name == HIGH_WATERMARKS:
        assert not any(one.offline_reason or one.high_watermarks_collected for one in walk.replicas), "as one that was not copied"


@pytest.mark.parametrize("content", [bytes(range(256)), b"\x00" * 64, b"\xff" * 8], ids=["bytes", "zeros", "ones"])
@pytest.mark.parametrize(("place", "name"), SMALL_FILES)
def test_a_binary_file_under_the_name_of_a_small_file(broker: Path, place: str, name: str, content: bytes):
    path = broker / place / name
    path.write_bytes(content)
    walk = Walk(broker)
    if name == META_PROPERTIES and content == b"\x00" * 64:
        return  # zeros are text without an id: what to say of that is not decided here
    (problem,) = walk.problems
    assert (problem.path, problem.kind, problem.code) == (str(path), name, "malformed")
    assert problem.line is not None or problem.byte_offset is not None
    assert walk.names == ["orders-0", "orders-1"]
    offline = [name == EPOCH_CHECKPOINT, False]
    assert [one.offline_reason is not None for one in walk.replicas] == offline
    assert all(len(one.segments) == 1 for one in walk.replicas)


@pytest.mark.parametrize("way", list(IN_THE_WAY))
def test_something_else_stands_where_a_segment_should(broker: Path, way: str):
    path = broker / "data-0" / "orders-0" / f"{2:020d}.log"
    IN_THE_WAY[way](path)
    walk = Walk(broker)
    assert walk.about(path), "not reported"
    assert [file.base_offset for file in walk["orders-0"].segments if Path(file.path).is_file()] == [0]


def test_a_segment_copied_into_a_directory_of_its_name(broker: Path):
    # what `kubectl cp pod:/x/0.log ./0.log/` leaves
    path = broker / "data-0" / "orders-0" / f"{2:020d}.log"
    kf.segment(path, 2, kf.batch(2, 0))
    walk = Walk(broker)
    assert walk.about(path) or any(Path(file.path).parent == path for one in walk.replicas for file in one.segments)


@pytest.fixture
def readable(broker: Path) -> Iterator[Path]:
    """The broker's folder where another user may read it."""
    with open_to_all() as parent:
        shutil.copytree(broker, parent / "broker-1")
        yield parent / "broker-1"


@pytest.mark.parametrize(("place", "name"), SMALL_FILES)
def test_a_small_file_without_permission(readable: Path, place: str, name: str):
    path = readable / place / name
    path.touch()
    path.chmod(0)
    problems = as_nobody(lambda: [(one.path, one.code, one.detail) for one in Walk(readable).problems])
    assert problems == [(str(path), "cannot-read", "Permission denied")]


def test_a_file_that_the_audit_may_not_read_says_nothing_about_the_broker(readable: Path):
    """The broker reads its own files; that we may not must not be told as its failure."""
    path = readable / "data-0" / "orders-0" / EPOCH_CHECKPOINT
    path.chmod(0)
    reason = as_nobody(lambda: Walk(readable)["orders-0"].offline_reason)
    assert "a broker takes the directory offline" not in (reason or "")


@pytest.mark.parametrize("place", ["data-0", "data-0/orders-0"])
@pytest.mark.parametrize("mode", [0, 0o444])
def test_a_directory_without_permission(readable: Path, place: str, mode: int):
    (readable / place).chmod(mode)
    found = as_nobody(lambda: [problem.path for problem in Walk(readable).about(readable / place)])
    assert found, "not reported"


def test_unknown_files_without_permission(readable: Path):
    path = readable / "data-0" / "notes.txt"
    path.touch()
    path.chmod(0)
    assert as_nobody(lambda: [(one.path, one.code) for one in Walk(readable).problems]) == [(str(path), "cannot-read")]


# --- checkpoints in odd places ---


def test_an_epoch_checkpoint_in_a_log_directory_does_not_make_it_a_replica(broker: Path):
    """`data-0` reads like partition 0 of a topic `data`; its high watermarks must not be lost over that."""
    (broker / "data-0" / EPOCH_CHECKPOINT).write_bytes(b"0\n0\n")
    walk = Walk(broker)
    assert (walk.names, walk["orders-0"].high_watermark) == (["orders-0", "orders-1"], 2)


@pytest.mark.parametrize("name", [PARTITION_METADATA, "00000000000000000000.log"])
def test_a_replicas_file_in_a_log_directory_does_not_make_it_a_replica(broker: Path, name: str):
    shutil.copy(broker / "data-0" / "orders-0" / name, broker / "data-0" / name)
    walk = Walk(broker)
    assert (walk.names, walk["orders-0"].high_watermark) == (["orders-0", "orders-1"], 2)
    assert walk.problems, "not reported"


@pytest.mark.parametrize("place", ["other", "."])
def test_a_bad_epoch_checkpoint_outside_of_any_replica_is_reported(broker: Path, place: str):
    """In the folder `broker-1` itself it does not make that a replica of a topic `broker`."""
    path = broker / place / EPOCH_CHECKPOINT
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"nonsense")
    walk = Walk(broker)
    assert walk.names == ["orders-0", "orders-1"]
    assert [(problem.path, problem.code) for problem in walk.loose] == [(str(path), "malformed")]


@pytest.mark.parametrize("name", OFFSET_CHECKPOINTS)
def test_an_offset_checkpoint_among_a_replicas_files_is_used_or_reported(broker: Path, name: str):
    # whoever copies one partition by hand puts everything about it into one folder
    replica = broker / "data-0" / "orders-0"
    for other in OFFSET_CHECKPOINTS:
        (broker / "data-0" / other).unlink(missing_ok=True)
    (replica / name).write_bytes(kf.checkpoint([("orders", 0, 1)]))
    walk = Walk(broker)
    one = walk["orders-0"]
    assert 1 in (one.high_watermark, one.recovery_point, one.log_start_offset, one.cleaner_offset) or walk.about(replica / name)


def test_offset_checkpoints_of_other_topics_change_nothing(broker: Path):
    (broker / "data-0" / HIGH_WATERMARKS).write_bytes(kf.checkpoint([("elsewhere", 0, 5), ("orders", 1, 7), ("orders", 1, 8)]))
    walk = Walk(broker)
    assert (walk["orders-0"].high_watermark, walk["orders-1"].high_watermark) == (None, 8)  # the last of two lines counts


# --- incomplete copies ---


@pytest.mark.parametrize("name", ["aaa-0", "zzz-0"])
@pytest.mark.parametrize("checkpoints", [True, False], ids=["with checkpoints", "without"])
def test_an_empty_replica_directory_is_told_wherever_it_sorts(broker: Path, name: str, checkpoints: bool):
    data = broker / "data-0"
    (data / name).mkdir()
    if not checkpoints:
        for other in (*OFFSET_CHECKPOINTS, META_PROPERTIES):
            (data / other).unlink(missing_ok=True)
    walk = Walk(broker)
    assert name in walk.names or walk.about(data / name)
    if name in walk.names:
        assert (walk[name].segments, walk[name].checkpoint_state) == ((), "missing")


@pytest.mark.parametrize("kept", ["index", "timeindex", "snapshot"])
def test_a_replica_copied_without_its_segments_is_told(broker: Path, kept: str):
    """`rsync --exclude '*.log'`, of a broker older than epoch checkpoints."""
    replica = broker / "data-0" / "orders-0"
    for path in replica.iterdir():
        path.unlink()
    (replica / f"{0:020d}.{kept}").write_bytes(b"\x00" * 8)
    walk = Walk(broker)
    assert "orders-0" in walk.names or walk.about(replica)


@pytest.mark.parametrize("name", [EPOCH_CHECKPOINT, PARTITION_METADATA])
def test_a_replica_of_small_files_only(broker: Path, name: str):
    replica = broker / "data-0" / "orders-0"
    for path in replica.iterdir():
        if path.name != name:
            path.unlink()
    assert Walk(broker)["orders-0"].segments == ()


@pytest.mark.parametrize("renamed", ["orders-0.bak", "orders-0 (copy)", "orders_0", "orders", "orders-zero", "orders-99999999999"])
def test_segments_in_a_directory_of_another_name_are_not_dropped_in_silence(broker: Path, renamed: str):
    (broker / "data-0" / "orders-0").rename(broker / "data-0" / renamed)
    walk = Walk(broker)
    assert walk.about(broker / "data-0" / renamed), "not reported"
    assert walk.current == {("orders", 1): 1}


def test_segments_right_in_the_brokers_folder(tmp_path: Path):
    folder = tmp_path / "3"
    kf.segment(folder, 0, kf.batch(0, 0))
    walk = Walk(folder)
    assert walk.about(folder), "not reported"


@pytest.mark.parametrize("below", ["", "data-0", "data-0/kafka-log0"])
def test_a_folder_without_anything(tmp_path: Path, below: str):
    """A copy that failed; the brokers beside it would be compared as if this one had no replicas."""
    (tmp_path / below).mkdir(parents=True, exist_ok=True)
    walk = Walk(tmp_path)
    assert (walk.replicas, [(problem.code, problem.path) for problem in walk.problems]) == ([], [("empty-broker-folder", str(tmp_path))])


def test_a_log_directory_without_replicas_is_not_empty(tmp_path: Path):
    """A broker that was added and has no partitions yet."""
    kf.log_dir(tmp_path / "data-0")
    assert Walk(tmp_path).problems == []


def test_a_folder_that_is_gone(tmp_path: Path):
    walk = Walk(tmp_path / "broker-9")
    assert [(problem.path, problem.code) for problem in walk.problems] == [(str(tmp_path / "broker-9"), "cannot-read")]


def test_a_file_in_place_of_the_folder(tmp_path: Path):
    (tmp_path / "broker-9").write_text("not a directory")
    assert Walk(tmp_path / "broker-9").codes == ["cannot-read"]


# --- links ---


def test_a_link_to_the_brokers_folder(broker: Path):
    link = broker.parent / "link"
    link.symlink_to(broker)
    assert Walk(link).names == ["orders-0", "orders-1"]


@pytest.mark.parametrize("place", ["data-0", "data-0/orders-0"])
def test_what_is_behind_a_link_is_read_or_reported(broker: Path, place: str):
    """Roots are put together with `ln -s`, and brokers themselves follow links."""
    path = broker / place
    away = broker.parent / "away" / path.name
    away.parent.mkdir()
    path.rename(away)
    path.symlink_to(away)
    walk = Walk(broker)
    assert "orders-0" in walk.names or walk.about(path), "dropped in silence"
    if "orders-0" in walk.names:
        assert (walk["orders-0"].high_watermark, walk.current) == (2, {("orders", 0): 1, ("orders", 1): 1})


def test_links_that_lead_back(broker: Path):
    (broker / "data-0" / "orders-0" / "up").symlink_to(broker)
    (broker / "data-0" / "self").symlink_to(".")
    (broker / "data-0" / "dangling").symlink_to("nowhere")
    assert Walk(broker).current == {("orders", 0): 1, ("orders", 1): 1}


def test_a_segment_behind_a_link(broker: Path):
    path = broker / "data-0" / "orders-0" / f"{0:020d}.log"
    away = broker.parent / "segment"
    path.rename(away)
    path.symlink_to(away)
    walk = Walk(broker)
    assert ([file.size_bytes for file in walk["orders-0"].segments], walk.problems) == ([away.stat().st_size], [])


# --- text of kafka-dump-log ---


def sections(one: ReplicaFiles) -> list[tuple[str, int, str]]:
    return [(file.source, file.base_offset, Path(file.path).name) for file in one.segments]


def test_texts_instead_of_segments(tmp_path: Path):
    for base in (0, 40):
        path = f"/var/lib/kafka/data-0/orders-0/{base:020d}.log"
        (tmp_path / f"orders {base}.txt").write_bytes(dump_text(path, base=base))
    walk = Walk(tmp_path)
    one = walk["orders-0"]
    assert (sections(one), walk.problems) == ([("dump", 0, "orders 0.txt"), ("dump", 40, "orders 40.txt")], [])
    assert (one.log_dir, one.checkpoint_state, one.high_watermark) == ("/var/lib/kafka/data-0", "not-collected", None)


def test_one_text_of_several_replicas(tmp_path: Path):
    names = ("orders-0", f"orders-1.{HEX}-delete", "a.b-c-7")
    (tmp_path / "everything").write_bytes(b"".join(dump_text(f"/data/{name}/{0:020d}.log") for name in names))
    walk = Walk(tmp_path)
    assert {(one.topic, one.partition, one.state) for one in walk.replicas} == {
        ("orders", 0, "current"),
        ("orders", 1, "deleted"),
        ("a.b-c", 7, "current"),
    }
    assert walk.problems == []


@pytest.mark.parametrize("path", [f"{0:020d}.log", f"./{0:020d}.log", f"/tmp/copy/{0:020d}.log"])  # noqa: S108 - no file of ours
def test_a_text_whose_path_names_no_replica_belongs_to_its_folder(tmp_path: Path, path: str):
    (tmp_path / "data-0" / "orders-3").mkdir(parents=True)
    (tmp_path / "data-0" / "orders-3" / "dump.txt").write_bytes(dump_text(path))
    walk = Walk(tmp_path)
    assert ((walk["orders-3"].topic, walk["orders-3"].partition), walk.problems) == (("orders", 3), [])


def test_a_text_of_no_known_replica_is_reported(tmp_path: Path):
    (tmp_path / "dump.txt").write_bytes(dump_text(f"{0:020d}.log"))
    walk = Walk(tmp_path)
    assert ([(problem.code, problem.line) for problem in walk.problems], walk.replicas) == ([("unknown-replica", 1)], [])


def test_a_text_beside_the_checkpoints_of_its_replica(broker: Path):
    replica = broker / "data-0" / "orders-0"
    (replica / f"{0:020d}.log").unlink()
    (replica / "dump.txt").write_bytes(dump_text(f"/var/lib/kafka/data-0/orders-0/{0:020d}.log"))
    walk = Walk(broker)
    one = walk["orders-0"]
    assert (sections(one), one.checkpoint_state, one.high_watermark, one.topic_id) == ([("dump", 0, "dump.txt")], "ok", 2, kf.TOPIC_ID)
    assert walk.problems == []


def test_a_text_alone_in_its_replicas_folder_has_the_high_watermark_of_the_log_directory(broker: Path):
    """Raw segments and texts of one replica have to give the same rows."""
    replica = broker / "data-0" / "orders-0"
    shutil.rmtree(replica)
    replica.mkdir()
    (replica / "dump.txt").write_bytes(dump_text(f"/var/lib/kafka/data-0/orders-0/{0:020d}.log"))
    one = Walk(broker)["orders-0"]
    assert (sections(one), one.high_watermark, one.log_dir) == ([("dump", 0, "dump.txt")], 2, str(broker / "data-0"))


def test_a_text_elsewhere_in_the_broker_goes_to_the_replica_it_names(broker: Path):
    (broker / "data-0" / "orders-0" / f"{0:020d}.log").unlink()
    (broker / "dumps").mkdir()
    (broker / "dumps" / "a.txt").write_bytes(dump_text(f"/var/lib/kafka/data-0/orders-0/{0:020d}.log"))
    walk = Walk(broker)
    assert (sections(walk["orders-0"]), walk["orders-0"].high_watermark) == ([("dump", 0, "a.txt")], 2)


def test_a_segment_given_raw_and_as_text_is_used_once(broker: Path):
    replica = broker / "data-0" / "orders-0"
    (replica / "dump.txt").write_bytes(dump_text(f"/x/orders-0/{0:020d}.log") + dump_text(f"/x/orders-0/{9:020d}.log", base=9))
    walk = Walk(broker)
    assert [(file.source, file.base_offset) for file in walk["orders-0"].segments] == [("raw", 0), ("dump", 9)]
    assert walk.codes == ["segment-given-twice"]


def test_a_text_goes_to_the_log_directory_that_it_names(tmp_path: Path):
    for disk in ("data-0", "data-1"):
        kf.log_dir(tmp_path / disk, "orders-0")
    (tmp_path / "dump.txt").write_bytes(dump_text(f"/var/lib/kafka/data-1/orders-0/{7:020d}.log", base=7))
    assert {Path(one.log_dir).name: len(one.segments) for one in Walk(tmp_path).replicas} == {"data-0": 1, "data-1": 2}


@pytest.mark.parametrize(
    "name", ["dump", "dump of orders-0.TXT", "kafkaserver3-orders.log", "x.tmp", f"{0:020d}.txt", "\u30c0\u30f3\u30d7.txt"]
)
def test_a_text_may_have_any_name(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(dump_text(f"/data/orders-0/{0:020d}.log"))
    assert Walk(tmp_path).names == ["orders-0"]


def test_a_text_under_the_name_of_its_segment(tmp_path: Path):
    """`for f in *.log; do kafka-dump-log --files $f > out/$f; done`."""
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").write_bytes(dump_text(f"/data/orders-0/{0:020d}.log"))
    walk = Walk(tmp_path)
    assert [file.source for file in walk["orders-0"].segments] == ["dump"]


def test_an_output_of_an_index_is_no_log(broker: Path):
    path = broker / "index.txt"
    path.write_bytes(f"Dumping /data/orders-0/{0:020d}.index\noffset: 0 position: 0\n".encode())
    walk = Walk(broker)
    assert (walk.names, [file.source for file in walk["orders-0"].segments]) == (["orders-0", "orders-1"], ["raw"])


# --- what else lies around ---


def test_unknown_files_are_reported_once(broker: Path):
    for name in (
        "notes.txt",
        "data-0/.DS_Store",
        "data-0/orders-0/._00000000000000000000.log",
        "data-0/orders-1/00000000000000000000.log.gz",
    ):
        (broker / name).write_bytes(b"\x00\x05\x16\x07")
    (broker / "backup.tar").write_bytes(bytes(2048))
    walk = Walk(broker)
    assert walk.codes == ["unrecognised-files"]
    assert walk.problems[0].detail.endswith("this is the first"), walk.problems[0].detail
    assert "5 files are" in walk.problems[0].detail
    assert Path(walk.problems[0].path).exists()
    assert [one.checkpoint_state for one in walk.replicas] == ["ok", "ok"]


@pytest.mark.parametrize(
    "name", ["._leader-epoch-checkpoint", "._meta.properties", "._partition.metadata", "._replication-offset-checkpoint"]
)
def test_resource_forks_of_macos_are_not_the_files(broker: Path, name: str):
    place = broker / "data-0" / ("orders-0" if name in ("._leader-epoch-checkpoint", "._partition.metadata") else "")
    (place / name).write_bytes(b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X")
    walk = Walk(broker)
    assert (walk.codes, walk["orders-0"].checkpoint_state, walk["orders-0"].offline_reason) == (["unrecognised-files"], "ok", None)


def test_files_of_a_file_system_and_of_monitoring(broker: Path):
    (broker / "data-0" / "lost+found").mkdir()
    (broker / "data-0" / "lost+found" / "#12345").write_bytes(b"\x00" * 100)
    (broker / "textfile_collector").mkdir()
    (broker / "textfile_collector" / "node.prom").write_text("node_boot_time_seconds 1\n")
    walk = Walk(broker)
    assert (walk.names, walk.codes) == (["orders-0", "orders-1"], ["unrecognised-files"])


def test_an_empty_lost_and_found_is_nothing(broker: Path):
    (broker / "data-0" / "lost+found").mkdir()
    (broker / "lost+found").mkdir()
    assert Walk(broker).problems == []


@pytest.mark.parametrize("hidden", [".snapshot/hourly.0", ".zfs/snapshot/daily", ".Trash-0/files"])
def test_a_file_systems_snapshots_are_no_second_log_directory(broker: Path, hidden: str):
    """A second copy counts as `replica-in-two-log-dirs`: every replica of the broker would be unreadable."""
    shutil.copytree(broker / "data-0", broker / hidden / "data-0")
    walk = Walk(broker)
    assert walk.current == {("orders", 0): 1, ("orders", 1): 1}
    assert {one.log_dir for one in walk.replicas} == {str(broker / "data-0")}
    assert any(".snapshot" in text or ".zfs" in text or ".Trash" in text for one in walk.problems for text in (one.path, one.detail))


def test_a_replica_copied_into_itself_is_one_replica(broker: Path):
    """`cp -r src/orders-0 dst/orders-0` where the target was there already. Brokers do not look at directories inside a replica's."""
    replica = broker / "data-0" / "orders-0"
    shutil.copytree(replica, broker.parent / "kept")
    shutil.copytree(broker.parent / "kept", replica / "orders-0")
    walk = Walk(broker)
    assert walk.current == {("orders", 0): 1, ("orders", 1): 1}
    assert walk["orders-0"].log_dir == str(broker / "data-0")
    assert walk.about(replica / "orders-0"), "not reported"


@contextmanager
def pipe(path: Path) -> Iterator[list[str]]:
    """A named pipe that nobody writes to. Whoever waits for it to be opened would wait for ever: is let go, and gets into the list."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    waited: list[str] = []
    over = threading.Event()

    def let_go() -> None:
        while not over.wait(0.5):  # who opens it without waiting is gone by then
            with suppress(OSError):  # nobody reads
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                waited.append(path.name)

    watcher = threading.Thread(target=let_go)
    watcher.start()
    try:
        yield waited
    finally:
        over.set()
        watcher.join()


@pytest.mark.parametrize(
    "name", ["pipe", "data-0/orders-0/leader-epoch-checkpoint", "data-0/replication-offset-checkpoint", "data-0/meta.properties"]
)
def test_a_named_pipe_does_not_stop_the_walk(broker: Path, name: str):
    with pipe(broker / name) as waited:
        walk = Walk(broker)
    assert waited == []
    assert walk.about(broker / name), "not reported"
    assert walk.names == ["orders-0", "orders-1"]


def test_a_named_pipe_under_the_name_of_a_segment_is_no_segment(broker: Path):
    path = broker / "data-0" / "orders-0" / f"{5:020d}.log"
    os.mkfifo(path)
    walk = Walk(broker)
    assert [file.base_offset for file in walk["orders-0"].segments] == [0], "reading it would wait for ever"
    assert walk.about(path), "not reported"


def test_sockets(broker: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(broker)  # the path of a socket may have some hundred characters only
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("jmx.sock")
    assert [problem.path for problem in Walk(broker).problems] == [str(broker / "jmx.sock")]


# --- names ---


@pytest.mark.parametrize("name", ["with blanks", "\u65e5\u672c\u8a9e", "a'b\"c", "tab\there", "new\nline", "per%20cent", "-rf"])
def test_folders_of_any_name(tmp_path: Path, name: str):
    kf.log_dir(tmp_path / name / "data 0", "orders-0")
    (tmp_path / name / "unknown file").write_bytes(b"x")
    walk = Walk(tmp_path / name)
    assert (walk.names, walk["orders-0"].high_watermark, walk.codes) == (["orders-0"], 2, ["unrecognised-files"])
    assert Path(walk["orders-0"].segments[0].path).is_file()


UNDECODABLE = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize("place", [UNDECODABLE, f"data-0/{UNDECODABLE}", f"data-0/orders-0/{UNDECODABLE}.txt"])
def test_unknown_files_whose_names_are_not_utf_8(broker: Path, place: str):
    (broker / place).write_bytes(b"x")
    walk = Walk(broker)
    assert (walk.names, walk.codes) == (["orders-0", "orders-1"], ["name-not-utf8"])


@pytest.mark.parametrize("place", [f"{UNDECODABLE}/data-0", f"{UNDECODABLE}-0"])
def test_replicas_below_a_name_that_is_not_utf_8(tmp_path: Path, place: str):
    kf.log_dir(tmp_path / place, "orders-0")
    walk = Walk(tmp_path)
    assert walk.replicas or walk.problems, "dropped in silence"


def test_a_topic_whose_name_is_not_utf_8(broker: Path):
    kf.replica(broker / "data-0", f"{UNDECODABLE}-0")
    walk = Walk(broker)
    assert {"orders-0", "orders-1"} <= set(walk.names)


def test_numbers_that_no_partition_or_segment_can_have(broker: Path):
    kf.replica(broker / "data-0", "orders-0-20261121120000")
    kf.segment(broker / "data-0" / "orders-1", 0, kf.batch(0, 0)).with_name("9" * 20 + ".log").touch()
    walk = Walk(broker)
    assert {"orders-0", "orders-1"} <= set(walk.names)
    assert walk.about(broker / "data-0" / "orders-0-20261121120000"), "not reported"
