"""Folders that link to each other: each is read once, whatever leads to it, and that a link was left out is told."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.model import LogDirectory, Problem, ReplicaFiles
from replica_audit.storage.inputs.sources import discover
from tests.formats import kafka_files as kf


def replica(log_dir_path: Path, name: str = "orders-0") -> None:
    kf.segment(log_dir_path / name, 0, kf.batch(0, 3))
    (log_dir_path / name / log_dir.EPOCH_CHECKPOINT).write_bytes(kf.checkpoint([(3, 0)]))


def broker(folder: Path, broker_id: int, data: str = "data") -> Path:
    replica(folder / data)
    (folder / data / log_dir.META_PROPERTIES).write_text(f"version=1\nnode.id={broker_id}\ncluster.id=c\n", encoding="ascii")
    return folder


def siblings(root: Path, names: list[str]) -> None:
    """Every folder links to every other one."""
    for name in names:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in names:
        for other in names:
            if other != name:
                (root / name / other).symlink_to(root / other)


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["folder", "broker-"])
def test_siblings_that_all_link_to_each_other(tmp_path: Path, prefix: str):
    """20 of them have 20! paths without a loop."""
    names = [f"{prefix}{n}" for n in range(20)]
    siblings(tmp_path, names)
    broker(tmp_path / names[7], 7)
    began = time.process_time()
    found = discover([str(tmp_path)])
    listed = list(replicas_of(tmp_path))
    assert time.process_time() - began < 60, "20! paths would take years"
    assert 7 in {one.broker_id for root in found.roots for one in root.brokers}
    assert len([one for one in listed if isinstance(one, ReplicaFiles)]) == 1
    assert {one.code for one in listed if isinstance(one, Problem)} == {"link-loop"}


def test_a_log_directory_that_two_links_lead_to_is_read_once_and_where_it_lies(tmp_path: Path):
    """Read twice it would be a replica in two log directories, which is no broker's fault."""
    folder = broker(tmp_path / "broker-1", 1, "kafka-logs-2026")
    (folder / "a-current").symlink_to(folder / "kafka-logs-2026")
    (folder / "z-latest").symlink_to(folder / "kafka-logs-2026")
    found = list(replicas_of(folder))
    (one,) = [one for one in found if isinstance(one, ReplicaFiles)]
    assert one.log_dir == str(folder / "kafka-logs-2026")
    problems = [one for one in found if isinstance(one, Problem)]
    assert [(problem.path, problem.code) for problem in problems] == [
        (str(folder / "a-current"), "link-loop"),
        (str(folder / "z-latest"), "link-loop"),
    ]
    assert problems[0].detail == f"a link to a folder that is already read as {folder / 'kafka-logs-2026'}"


def test_links_to_folders_elsewhere_are_followed_only_if_that_is_asked_for(tmp_path: Path):
    """A way to put brokers side by side, and one to have any folder of the machine read."""
    for broker_id in (1, 2):
        broker(tmp_path / "elsewhere" / f"disk-{broker_id}", broker_id)
        (tmp_path / "input").mkdir(exist_ok=True)
        (tmp_path / "input" / f"broker-{broker_id}").symlink_to(tmp_path / "elsewhere" / f"disk-{broker_id}")
    refused = discover([str(tmp_path / "input")])
    links = [(None, str(tmp_path / "input" / f"broker-{broker_id}"), "link-outside") for broker_id in (1, 2)]
    told = sorted((cluster, one.path, one.code) for cluster, one in refused.problems if one.kind == "directory")
    assert (refused.roots, told) == ([], links)
    found = discover([str(tmp_path / "input")], follow_links=True)
    assert [[one.broker_id for one in root.brokers] for root in found.roots] == [[1, 2]]
    assert found.problems == []
    for one in found.roots[0].brokers:
        assert [type(item) for item in replicas_of(one.path) if not isinstance(item, LogDirectory)] == [ReplicaFiles]


def test_of_a_link_and_the_brokers_folder_beside_it_the_folder_counts(tmp_path: Path):
    broker(tmp_path / "broker-1", 1)
    broker(tmp_path / "broker-2", 2)
    (tmp_path / "a-copy-of-1").symlink_to(tmp_path / "broker-1")
    found = discover([str(tmp_path)])
    assert [[str(one.path) for one in root.brokers] for root in found.roots] == [[str(tmp_path / "broker-1"), str(tmp_path / "broker-2")]]
    assert [problem.code for _cluster, problem in found.problems] == ["link-loop"]


def test_a_loop_back_up(tmp_path: Path):
    folder = broker(tmp_path / "broker-1", 1)
    (folder / "data" / "up").symlink_to(folder)
    found = list(replicas_of(folder))
    assert [one.detail for one in found if isinstance(one, Problem)] == ["a link that leads back to a folder above it"]
