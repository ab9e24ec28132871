"""A broker that the input holds twice: one copy is judged and both are named. A replica in two of its directories is another thing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from replica_audit.partition.known.log_directories import OtherCopy, other_copies
from tests.cases.triaged import Seen, seen
from tests.collect.collections import collect_cluster
from tests.formats import kafka_files
from tests.formats.log_directories import log_directory
from tests.partition.test_what_if import COMMON, _metadata, _write

MORE = [*COMMON, (1, 10, 14)]
SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "clusters"


def _cluster(root: Path, *, state: str = "up") -> Path:
    _write(root, {1: MORE, 2: MORE}, epochs={1: {0: 0, 1: 10}, 2: {0: 0, 1: 10}}, high_watermarks={1: 15, 2: 15})
    return _metadata(root, 1, epoch=1, brokers=[1, 2], isr=[1, 2], state=state)


def _older(root: Path, to: Path) -> None:
    """A copy of broker 2 of before the last records."""
    _write(root / "old", {2: COMMON}, high_watermarks={2: 10})
    (root / "old" / "broker-2").rename(to)
    (root / "old").rmdir()


def _assert_two_copies(found: Seen, judged: str, other: str) -> None:
    assert (found.exit_code, found.verdicts(), found.findings()) == (3, {2: "identical"}, set())
    (problem,) = found.tables["input_errors"]
    assert problem["code"] == "two-copies-of-a-broker"
    assert f"{judged} and " in problem["detail"]
    assert problem["path"].endswith(other)
    assert "refuses to start" not in found.text


@pytest.mark.parametrize("name", ["broker-2.bak", "a-broker", "broker-02"])
def test_an_older_copy_beside_the_newer_one(tmp_path: Path, name: str) -> None:
    root = _cluster(tmp_path)
    _older(root, root / name)
    _assert_two_copies(seen(root), "/broker-2/data-0", f"/{name}/data-0")


def test_the_same_copy_twice(tmp_path: Path) -> None:
    root = _cluster(tmp_path)
    shutil.copytree(root / "broker-1", root / "broker-1.bak")
    _assert_two_copies(seen(root), "/broker-1/data-0", "/broker-1.bak/data-0")


@pytest.mark.parametrize("name", ["clean-in-sync", "committed-loss"])
def test_the_same_copy_twice_in_a_real_cluster(tmp_path: Path, name: str) -> None:
    root = Path(shutil.copytree(SAMPLE / name, tmp_path / name))
    before = seen(root)
    shutil.copytree(root / "broker-1", root / "broker-1.bak")
    after = seen(root)
    assert after.findings() == before.findings(), "also not of the metadata log"
    assert after.exit_code == (before.exit_code or 3)
    assert "two-copies-of-a-broker" in after.problems()


def test_a_copy_in_the_broker_s_own_folder(tmp_path: Path) -> None:
    """With the same directory.id it is a copy, however few replicas it has."""
    root = _cluster(tmp_path)
    meta = root / "broker-2" / "data-0" / "meta.properties"
    meta.write_bytes(meta.read_bytes() + b"directory.id=Zm9yLWEtdGVzdC1vbmx5LQ\n")
    shutil.copytree(root / "broker-2" / "data-0", root / "broker-2" / "data-0.old")
    _assert_two_copies(seen(root), "/broker-2/data-0", "/broker-2/data-0.old")


def test_a_broker_that_was_collected_twice(tmp_path: Path) -> None:
    root = collect_cluster(_cluster(tmp_path / "raw"), tmp_path / "collected")
    earlier = collect_cluster(tmp_path / "raw", tmp_path / "again") / "broker-2"
    shutil.move(earlier, root / "broker-2-again")
    _assert_two_copies(seen(root), "/broker-2-again", "/broker-2")


def test_a_collection_beside_the_files(tmp_path: Path) -> None:
    root = _cluster(tmp_path / "raw")
    shutil.move(collect_cluster(root, tmp_path / "collected") / "broker-2", root / "broker-2-collected")
    found = seen(root.rename(tmp_path / "elsewhere"))
    assert (found.exit_code, found.verdicts(), found.problems()) == (3, {2: "identical"}, ["two-copies-of-a-broker"])


def test_a_replica_in_two_directories_of_one_broker_stays_what_kafka_refuses(tmp_path: Path) -> None:
    root = _cluster(tmp_path)
    shutil.copytree(root / "broker-2" / "data-0", root / "broker-2" / "data-1")
    for number in (0, 1):
        kafka_files.replica(root / "broker-2" / f"data-{number}", f"only-{number}")
    found = seen(root)
    assert found.verdicts()[2] == "unreadable"
    assert found.problems() == ["replica-in-two-log-dirs"] * 2


def test_a_replica_that_was_put_by_in_its_log_directory_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    root = _cluster(tmp_path)
    (replica,) = root.glob("broker-2/*/t-0")
    shutil.copytree(replica, replica.with_name("t-0.bak"))
    found = seen(root)
    assert found.exit_code == 3
    (problem,) = found.tables["input_errors"]
    assert problem["path"].endswith("t-0.bak")
    assert "move it out of there before the broker starts" in problem["remedy"]


def test_directories_of_one_broker_in_folders_of_their_own(tmp_path: Path) -> None:
    root = _cluster(tmp_path)
    second = root / "broker-2-second" / "data-1"
    kafka_files.replica(second, "only-1")
    (second / "meta.properties").write_bytes(kafka_files.meta_properties(2))
    found = seen(root)
    assert (found.exit_code, found.problems()) == (3, []), "no metadata names only-1, so that nobody knows of other replicas"


def test_by_ids_and_by_names() -> None:
    one, other = log_directory("a", directory_id="A", reaches=5), log_directory("b/longer", directory_id="A", reaches=9)
    assert other_copies([(1, one), (1, other)]) == (OtherCopy(1, "a", "b/longer", True),)
    assert not other_copies([(1, one), (2, other)])
    assert not other_copies([(1, one._replace(sample=("t-0", "t-1"))), (1, other._replace(directory_id="B", sample=("t-0", "t-1")))])
    without = log_directory("c", sample=("t-0", "t-1", "t-2"))
    assert [copy.path for copy in other_copies([(1, without), (1, without._replace(path="c.bak")), (1, without._replace(path="c.2"))])] == [
        "c.2",
        "c.bak",
    ]
    assert not other_copies([(1, without), (1, log_directory("d", sample=("u-0",)))])
    assert not other_copies([(1, log_directory("c", sample=("t-0",))), (1, log_directory("d", sample=("t-0",)))]), "one folder, one replica"


@pytest.mark.clusters
@pytest.mark.skipif(not SHARED.is_dir(), reason="without the clusters kept beside the project")
@pytest.mark.parametrize("cluster", ["committed-loss", "clean-in-sync", "kafka-1.1.1-stale-tail"])
def test_real_brokers_copied_beside_themselves(tmp_path: Path, cluster: str) -> None:
    """What is judged is judged as without the copy."""
    shutil.copytree(SHARED / cluster / "before", tmp_path / "root")
    before = seen(tmp_path / "root")
    shutil.copytree(tmp_path / "root" / "broker-1", tmp_path / "root" / "broker-1.bak")
    after = seen(tmp_path / "root")
    judged_before, judged = (
        sorted(
            ({name: value for name, value in row.items() if name != "run_id"} for row in one.tables["replica_verdicts"]),
            key=lambda row: (row["topic"], row["partition"], row["follower_id"]),
        )
        for one in (before, after)
    )
    assert judged == judged_before
    assert after.exit_code == before.exit_code or after.exit_code == 3
    assert after.problems().count("two-copies-of-a-broker") == len({path.name for path in (tmp_path / "root" / "broker-1").glob("data*")})


def test_a_collection_of_a_log_directory_that_is_named_for_its_broker(tmp_path: Path) -> None:
    """The collection's folder then holds one of its own name, and is no root."""
    root = _cluster(tmp_path / "raw")
    for broker in (1, 2):
        (root / f"broker-{broker}" / "data-0").rename(root / f"broker-{broker}" / f"broker-{broker}")
    found = seen(collect_cluster(root, tmp_path / "collected"))
    assert (found.exit_code, found.verdicts()) == (0, {2: "identical"})
