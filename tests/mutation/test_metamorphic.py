"""What changes nothing of a cluster changes no verdict: other folders, other segments, other shapes, other company."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from replica_audit.config import Settings
from replica_audit.local_run import triage
from tests.formats import kafka_files as kf
from tests.house.checkout import ROOT
from tests.mutation.broker_view import framed
from tests.mutation.generated import STATES, healthy
from tests.mutation.shapes import COLLECTED, TEXT, in_shape

SAMPLE = ROOT / "tests" / "data" / "sample"
REAL = ["committed-loss", "elr-election", "leader-trimmed", "multi-round", "three-way"]
Verdicts = dict[tuple[str, int, int], str]


def audited(*roots: Path) -> tuple[int, Verdicts]:
    """The exit code, and the verdict of every follower."""
    done = triage([str(root) for root in roots], Settings(), tell=lambda _event: None)
    runs, verdicts = done.tables.dataset("audit_runs"), done.tables.dataset("replica_verdicts")
    assert runs is not None
    assert verdicts is not None
    rows = verdicts.to_table().to_pylist()
    return runs.to_table()["exit_code"][0].as_py(), {(row["topic"], row["partition"], row["follower_id"]): row["verdict"] for row in rows}


def split_segments(root: Path) -> None:
    """Every segment becomes two, at a boundary of its batches."""
    for path in sorted(root.glob("broker-*/*/*/*.log")):
        content = path.read_bytes()
        found = list(framed(content))
        if path.parent.name != "__cluster_metadata-0" and len(found) > 1:
            middle = found[len(found) // 2]
            path.write_bytes(content[: middle.at])
            path.with_name(f"{middle.base:020d}.log").write_bytes(content[middle.at :])


def add_empty_segments(root: Path) -> None:
    """Every log has rolled a segment in which nothing is yet."""
    for home in {path.parent for path in root.glob("broker-*/*/*/*.log")}:
        newest = max(home.glob("*.log"))
        found = list(framed(newest.read_bytes()))
        if home.name != "__cluster_metadata-0" and found:
            (home / f"{found[-1].last + 1:020d}.log").write_bytes(b"")


def add_topic(root: Path) -> None:
    """An unrelated partition, which the metadata does not know, on two brokers that run no other copy of it."""
    document = json.loads((root / "cluster-metadata.json").read_text())
    part = {"partition": 0, "leader": 1, "leader_epoch": 0, "replicas": [1, 2], "isr": [1, 2]}
    document["topics"].append({"topic": "apart", "topic_id": kf.TOPIC_ID, "configs": {"cleanup.policy": "delete"}, "partitions": [part]})
    (root / "cluster-metadata.json").write_text(json.dumps(document))
    for broker in (1, 2):
        kf.replica(root / f"broker-{broker}" / "data-0", "apart-0")


def write_anew(root: Path) -> None:
    """The same files, made in another order."""
    kept = root.with_name(f"{root.name}-kept")
    root.rename(kept)
    files = [path for path in kept.rglob("*") if path.is_file()]
    random.Random(7).shuffle(files)  # noqa: S311
    for path in files:
        target = root / path.relative_to(kept)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    shutil.rmtree(kept)


def renumber(root: Path) -> None:
    """Every broker has another id, 40 more, wherever it stands."""
    for folder in sorted(root.glob("broker-*")):
        number = int(folder.name.partition("-")[2])
        for meta in folder.rglob("meta.properties"):
            meta.write_text(meta.read_text().replace(f"node.id={number}\n", f"node.id={number + 40}\n"))
        folder.rename(root / f"broker-{number + 40}")
    document = json.loads((root / "cluster-metadata.json").read_text())
    for broker in document["brokers"]:
        broker["id"] += 40
    for part in (part for topic in document["topics"] for part in topic["partitions"]):
        part["leader"] += 40
        for name in ("replicas", "isr", "elr"):
            part[name] = [one + 40 for one in part.get(name, [])]
    (root / "cluster-metadata.json").write_text(json.dumps(document))


def blanks_at_line_ends(root: Path) -> None:
    """Blanks behind every line of every text."""
    for path in root.rglob("*.txt"):
        path.write_text("".join(f"{line}  \n" for line in path.read_text().splitlines()))


SAME: list[Callable[[Path], None]] = [split_segments, add_empty_segments, write_anew]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("change", [*SAME, add_topic], ids=lambda change: change.__name__)
def test_a_healthy_cluster_stays_healthy(tmp_path: Path, state: str, change: Callable[[Path], None]):
    root = healthy(tmp_path / state, state)
    exit_code, verdicts = audited(root)
    assert exit_code == 0
    change(root)
    after, now = audited(root)
    assert (after, {key: verdict for key, verdict in now.items() if key[0] != "apart"}) == (exit_code, verdicts)


@pytest.mark.parametrize("cluster", REAL)
@pytest.mark.parametrize("change", SAME, ids=lambda change: change.__name__)
def test_verdicts_of_a_real_cluster_stay(tmp_path: Path, cluster: str, change: Callable[[Path], None]):
    root = Path(shutil.copytree(SAMPLE / cluster, tmp_path / cluster))
    before = audited(root)
    change(root)
    assert audited(root) == before


@pytest.mark.parametrize("state", STATES)
def test_other_broker_ids(tmp_path: Path, state: str):
    root = healthy(tmp_path / state, state)
    exit_code, verdicts = audited(root)
    renumber(root)
    assert audited(root) == (exit_code, {(topic, part, broker + 40): verdict for (topic, part, broker), verdict in verdicts.items()})


@pytest.mark.parametrize("shape", [TEXT, COLLECTED])
@pytest.mark.parametrize("cluster", [*STATES, "clean-in-sync", *REAL])
def test_every_shape_of_the_same_logs(tmp_path: Path, cluster: str, shape: str):
    root = healthy(tmp_path / cluster, cluster) if cluster in STATES else SAMPLE / cluster
    _exit_code, verdicts = audited(root)
    assert audited(in_shape(shape, root, tmp_path / "shaped"))[1] == verdicts


@pytest.mark.parametrize("state", STATES)
def test_blanks_at_the_ends_of_lines_of_a_text(tmp_path: Path, state: str):
    root = in_shape(TEXT, healthy(tmp_path / state, state), tmp_path / "text")
    before = audited(root)
    blanks_at_line_ends(root)
    assert audited(root) == before


def test_several_clusters_at_once(tmp_path: Path):
    together = Path(shutil.copytree(SAMPLE, tmp_path / "all", ignore=shutil.ignore_patterns("clean-in-sync", "kafka-*")))
    found = triage([str(together)], Settings(), tell=lambda _event: None).tables.dataset("replica_verdicts")
    assert found is not None
    rows = found.to_table().to_pylist()
    for cluster in REAL:
        cluster_id = json.loads((SAMPLE / cluster / "cluster-metadata.json").read_text())["cluster_id"]
        own = [row for row in rows if row["cluster_id"] == cluster_id]
        assert {(row["topic"], row["partition"], row["follower_id"]): row["verdict"] for row in own} == audited(SAMPLE / cluster)[1]


@pytest.mark.parametrize("broker", [1, 3])
def test_a_follower_that_was_copied_earlier(tmp_path: Path, broker: int):
    """Brokers run: a follower's log that ends earlier is a prefix, and nothing is found."""
    root = healthy(tmp_path / "up", "up")
    home = root / f"broker-{broker}" / "data-0" / "events-0"
    path = home / f"{0:020d}.log"
    content = path.read_bytes()
    assert json.loads((root / "cluster-metadata.json").read_text())["topics"][1]["partitions"][0]["leader"] == 2
    path.write_bytes(content[: list(framed(content))[-1].at])
    exit_code, verdicts = audited(root)
    assert exit_code == 0
    assert verdicts["events", 0, broker] == "lagging"
    assert {verdict for key, verdict in verdicts.items() if key[:2] != ("events", 0)} <= {"identical", "consistent"}


@pytest.mark.parametrize("state", STATES)
def test_a_further_replica_in_sync(tmp_path: Path, state: str):
    root = healthy(tmp_path / state, state)
    _exit_code, verdicts = audited(root)
    shutil.copytree(root / "broker-3", root / "broker-4")
    meta = root / "broker-4" / "data-0" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=3", "node.id=4").replace("S6VC", "S6VD"))
    document = json.loads((root / "cluster-metadata.json").read_text())
    document["brokers"].append({**document["brokers"][2], "id": 4})
    for part in (part for topic in document["topics"] for part in topic["partitions"]):
        part["replicas"].append(4)
        part["isr"].append(4)
    (root / "cluster-metadata.json").write_text(json.dumps(document))
    exit_code, now = audited(root)
    assert exit_code == 0
    assert {key: verdict for key, verdict in now.items() if key[2] != 4} == verdicts
