"""Links that lead out of an input: told, never read, and never clean; those that stay inside are followed as ever."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.local_run import Triaged, triage
from replica_audit.rows import TABLES
from replica_audit.storage.inputs.first_look import look
from replica_audit.storage.inputs.sources import discover
from tests.house.checkout import ROOT
from tests.support.items import listed_in_spark, scanned_in_spark, source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE = ROOT / "tests" / "data" / "sample" / "clean-in-sync"
REPLICA = "broker-2/data-0/c-none-0"
SEGMENT = f"{REPLICA}/00000000000000000000"
LINE = "root:x:4711"
INDEX = f"{SEGMENT}.index"
NAMES = (
    "cluster-metadata.json",
    "broker-2",
    "broker-2/data-0",
    "broker-2/data-0/meta.properties",
    "broker-2/data-0/replication-offset-checkpoint",
    REPLICA,
    f"{REPLICA}/leader-epoch-checkpoint",
    f"{REPLICA}/partition.metadata",
    f"{SEGMENT}.log",
    INDEX,
)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A clean cluster in a folder `input`."""
    root = Path(shutil.copytree(SAMPLE, tmp_path / "input"))
    (root / INDEX).touch()
    return root


def linked(path: Path, outside: Path) -> None:
    """Move what is at a path elsewhere, and put a link there."""
    outside.parent.mkdir(parents=True, exist_ok=True)
    path.rename(outside)
    path.symlink_to(outside)


def audited(root: Path, **settings: Any) -> Triaged:
    return triage([str(root)], Settings(**settings), tell=lambda _event: None)


def rows(done: Triaged, table: str) -> list[dict[str, Any]]:
    dataset = done.tables.dataset(table)
    return [] if dataset is None else dataset.to_table().to_pylist()


def exit_code(done: Triaged) -> int:
    return int(rows(done, "audit_runs")[0]["exit_code"])


def compared(done: Triaged) -> set[tuple[str, int, int]]:
    unread = ("unreadable", "inconclusive")
    return {(row["topic"], row["partition"], row["follower_id"]) for row in rows(done, "replica_verdicts") if row["verdict"] not in unread}


def links(done: Triaged) -> list[str]:
    return [row["path"] for row in rows(done, "input_errors") if row["code"] == "link-outside"]


@pytest.mark.parametrize("name", NAMES)
def test_a_link_out_of_the_input_is_told_and_nothing_behind_it_is_read(cluster: Path, tmp_path: Path, name: str) -> None:
    linked(cluster / name, tmp_path / "elsewhere" / Path(name).name)
    done = audited(cluster)
    assert links(done) == [str(cluster / name)]
    assert exit_code(done) == (1 if "epoch" in name else 3)
    is_read = not {"broker-2", "data-0", "c-none-0", "leader-epoch-checkpoint"} & {Path(name).name} and not name.endswith(".log")
    assert (("c-none", 0, 2) in compared(done)) == is_read


@pytest.mark.parametrize("name", NAMES)
def test_it_is_followed_if_that_is_asked_for(cluster: Path, tmp_path: Path, name: str) -> None:
    linked(cluster / name, tmp_path / "elsewhere" / Path(name).name)
    done = audited(cluster, follow_links=True)
    assert (links(done), exit_code(done)) == ([], 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_link_within_the_input_is_followed(cluster: Path, name: str) -> None:
    """As Kubernetes mounts files: each is a link into a hidden folder beside it."""
    path = cluster / name
    linked(path, path.parent / "..2026_11_27" / path.name)
    (path.parent / "..data").symlink_to("..2026_11_27")
    path.unlink()
    path.symlink_to(Path("..data", path.name))
    done = audited(cluster)
    assert (links(done), compared(done)) == ([], compared(audited(SAMPLE)))


def test_an_input_that_is_a_link_itself_was_chosen(cluster: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(cluster)
    done = audited(tmp_path / "latest")
    assert (rows(done, "input_errors"), exit_code(done)) == ([], 0)


@pytest.mark.parametrize(
    "name",
    [
        "cluster-metadata.json",
        "topics.txt",
        "broker-1.server.log",
        "broker-2/server.log",
        "broker-2/notes.txt",
        "broker-2/manifest.json",
        "broker-2/data-0/meta.properties",
        "broker-2/data-0/.kafka_cleanshutdown",
        "broker-2/data-0/replication-offset-checkpoint",
        f"{REPLICA}/leader-epoch-checkpoint",
        f"{REPLICA}/partition.metadata",
        f"{REPLICA}/00000000000000000099.snapshot",
        f"{SEGMENT}.log",
        f"{SEGMENT}.txnindex",
    ],
)
def test_nothing_of_a_file_elsewhere_reaches_a_table(cluster: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "passwords"
    outside.write_text(f"{LINE}\n" * 50, encoding="ascii")
    (cluster / name).unlink(missing_ok=True)
    (cluster / name).symlink_to(outside)
    done = audited(cluster)
    told = json.dumps({table.name: rows(done, table.name) for table in TABLES}, default=str)
    assert "4711" not in told
    assert str(outside.stat().st_size) not in {str(row.get("size_bytes")) for row in rows(done, "segment_epochs")}
    assert links(done) == [str(cluster / name)]
    assert exit_code(done) == (1 if "epoch" in name else 3)


@pytest.mark.parametrize("follow_links", [False, True])
def test_tasks_of_spark_are_confined_as_their_driver_is(spark: SparkSession, cluster: Path, tmp_path: Path, follow_links: bool) -> None:
    """A file becomes a link after it was listed, so that only whoever opens it can see that; the workers are those of the run before."""
    segment = cluster / f"{SEGMENT}.log"
    (root,) = discover([str(cluster)], follow_links=follow_links).roots
    engine, listed, amounts = listed_in_spark(spark, [source(one[2], one[1], one[3], one[0]) for one in root.sources()])
    linked(segment, tmp_path / "elsewhere" / segment.name)
    found = [item.value for item in scanned_in_spark(engine, listed, amounts)]
    engine.release()
    told = {one.file.path: [problem.code for problem in one.problems] for one in found if one.problems}
    assert told == ({} if follow_links else {str(segment): ["link-outside"]})


def test_where_every_broker_is_behind_such_a_link_the_remedy_is_told(cluster: Path, tmp_path: Path) -> None:
    for name in [path.name for path in cluster.glob("broker-*")]:
        linked(cluster / name, tmp_path / "elsewhere" / name)
    with pytest.raises(UsageError, match="--follow-links"):
        look([str(cluster)])
    look([str(cluster)], follow_links=True)


def test_metadata_that_is_given_by_its_name_may_be_a_link(cluster: Path, tmp_path: Path) -> None:
    linked(cluster / "cluster-metadata.json", tmp_path / "elsewhere" / "cluster-metadata.json")
    done = triage([str(cluster)], Settings(), metadata=cluster / "cluster-metadata.json", tell=lambda _event: None)
    assert (links(done), exit_code(done)) == ([], 0)
