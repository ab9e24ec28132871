"""A file that only bears a small file's name is not read: sparse and huge, a pipe, a device."""

from __future__ import annotations

import os
import resource
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from replica_audit.collect import CollectRequest, collect
from replica_audit.errors import UsageError
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.small_files import DOCUMENT_LIMIT, LIST_LIMIT, SETTINGS_LIMIT, TooLargeError, limit_of, whole_content
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.model import Problem, ReplicaFiles
from replica_audit.stages.inventory import list_source
from replica_audit.storage.cluster import client_properties
from replica_audit.storage.inputs.sources import discover
from tests.formats import kafka_files as kf
from tests.support.items import source

HUGE = 100 << 30
OF_LOG_DIR = (log_dir.META_PROPERTIES, *log_dir.OFFSET_CHECKPOINTS)
OF_REPLICA = (log_dir.EPOCH_CHECKPOINT, log_dir.PARTITION_METADATA)


@contextmanager
def little_memory() -> Iterator[None]:
    """Half a GiB more than there is: a file that is read whole would end the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 29), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def sparse(path: Path, size: int = HUGE) -> Path:
    """A file of zeros that takes no room on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        stream.truncate(size)
    return path


def broker(folder: Path) -> Path:
    """A healthy broker's folder with one replica; returns its log directory."""
    data = folder / "broker-1" / "data"
    kf.segment(data / "orders-0", 0, kf.batch(0, 3))
    (data / "orders-0" / log_dir.EPOCH_CHECKPOINT).write_bytes(kf.checkpoint([(3, 0)]))
    (data / log_dir.META_PROPERTIES).write_text(f"version=1\nnode.id=1\ncluster.id={kf.CLUSTER_ID}\n", encoding="ascii")
    return data


def read(data: Path) -> tuple[ReplicaFiles, list[Problem]]:
    """The one replica, and every problem."""
    with little_memory():
        found = list(replicas_of(data.parent))
    (replica,) = [one for one in found if isinstance(one, ReplicaFiles)]
    return replica, [*replica.problems, *(one for one in found if isinstance(one, Problem))]


@pytest.mark.parametrize("name", [*OF_LOG_DIR, *(f"orders-0/{name}" for name in OF_REPLICA), "manifest.json"])
def test_a_huge_sparse_file_is_a_problem_and_the_replica_stays(tmp_path: Path, name: str):
    data = broker(tmp_path)
    path = sparse(data / name)
    replica, problems = read(data)
    assert [(problem.path, problem.code) for problem in problems] == [(str(path), "too-large")]
    assert problems[0].remedy
    assert [segment.base_offset for segment in replica.segments] == [0]


def test_that_the_audit_does_not_read_it_says_nothing_of_the_broker(tmp_path: Path):
    data = broker(tmp_path)
    sparse(data / "orders-0" / log_dir.EPOCH_CHECKPOINT)
    replica, _problems = read(data)
    assert replica.checkpoint_state == "unreadable"
    assert replica.offline_reason == (
        f"{log_dir.EPOCH_CHECKPOINT} cannot be read by the audit: is larger than 64 MiB, too large for a file of this kind: it is not read"
    )


def test_a_huge_cluster_metadata_is_a_problem_and_the_brokers_stay(tmp_path: Path):
    broker(tmp_path)
    path = sparse(tmp_path / log_dir.CLUSTER_METADATA)
    with little_memory():
        (root,) = discover([str(tmp_path)]).roots
        (item, _amounts) = list_source(source(path, None, "metadata"))
    assert [one.broker_id for one in root.brokers] == [1]
    assert (item.value.path, item.value.code) == (str(path), "too-large")


def test_collect_does_not_copy_it(tmp_path: Path):
    data = broker(tmp_path)
    path = sparse(data / log_dir.HIGH_WATERMARKS)
    with little_memory():
        result = collect(CollectRequest(output=tmp_path / "out", log_dirs=(data,), broker_id=None), lambda _line: None)
    assert [(one.path, one.kind) for one in result.unread] == [(str(path), log_dir.HIGH_WATERMARKS)]
    assert "larger than 64 MiB" in result.unread[0].reason
    assert not list((tmp_path / "out").rglob(log_dir.HIGH_WATERMARKS))


@pytest.mark.parametrize("name", [log_dir.META_PROPERTIES, f"orders-0/{log_dir.EPOCH_CHECKPOINT}"])
def test_a_pipe_is_not_opened(tmp_path: Path, name: str):
    data = broker(tmp_path)
    (data / name).unlink()
    os.mkfifo(data / name)
    _replica, problems = read(data)
    assert {problem.detail for problem in problems} == {"is not a regular file"}


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/urandom"])
def test_a_device_without_end_is_not_read(tmp_path: Path, target: str):
    data = broker(tmp_path)
    (data / log_dir.RECOVERY_POINTS).symlink_to(target)
    _replica, problems = read(data)
    assert [(problem.code, problem.detail) for problem in problems] == [("cannot-read", "is not a regular file")]


def test_what_a_user_names_may_be_a_pipe_but_not_without_end(tmp_path: Path):
    with pytest.raises(TooLargeError), little_memory():
        whole_content(Path("/dev/zero"), SETTINGS_LIMIT, may_be_pipe=True)
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        client_properties.read(Path("/dev/zero"))
    given, other = os.pipe()
    os.write(other, b"client.id=audit\n")
    os.close(other)
    assert client_properties.read(Path(f"/dev/fd/{given}"))["client_id"] == "audit"
    os.close(given)


def test_files_as_large_as_they_may_be_are_read(tmp_path: Path):
    path = tmp_path / log_dir.META_PROPERTIES
    path.write_bytes(b"#" * SETTINGS_LIMIT)
    assert len(whole_content(path)) == SETTINGS_LIMIT == limit_of(path.name)
    path.write_bytes(b"#" * (SETTINGS_LIMIT + 1))
    with pytest.raises(TooLargeError):
        whole_content(path)


def test_the_largest_checkpoints_that_brokers_write_are_far_below_the_limit():
    lines = b"0\n160000\n" + b"".join(b"%s %d %d\n" % (b"t" * 249, n, 1 << 60) for n in range(160_000))
    assert len(lines) < LIST_LIMIT == limit_of(log_dir.HIGH_WATERMARKS) < DOCUMENT_LIMIT


def test_a_file_whose_size_is_not_known_is_read_to_its_end() -> None:
    """As those of /proc, and as one that grows while it is read."""
    path = Path("/proc/self/status")
    assert path.stat().st_size == 0
    assert whole_content(path).startswith(b"Name:") and len(whole_content(path)) > 500
    with pytest.raises(TooLargeError):
        whole_content(path, 100)


def test_a_large_document_may_come_in_parts_through_a_pipe() -> None:
    """64 KiB at a time: each part is copied once, and each buffer is small."""
    content = bytes(range(256)) * (20 << 12)
    given, other = os.pipe()

    def write() -> None:
        with os.fdopen(other, "wb") as stream:
            stream.write(content)

    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write)
        assert whole_content(Path(f"/dev/fd/{given}"), DOCUMENT_LIMIT, may_be_pipe=True) == content
        writing.result()
    os.close(given)


def test_reading_a_small_file_takes_no_more_memory_than_the_file(tmp_path: Path) -> None:
    """A cluster has a million of them: a buffer of the greatest size that there may be costs more than all else."""
    path = tmp_path / log_dir.EPOCH_CHECKPOINT
    path.write_bytes(b"0\n0\n")
    tracemalloc.start()
    try:
        whole_content(path)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < LIST_LIMIT // 16
