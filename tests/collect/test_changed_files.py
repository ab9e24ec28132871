"""A collection of which somebody, or a disk, changed a digit: what was changed is named, and nothing is judged by it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.formats.collection.manifest import MANIFEST
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.local_run import triage
from replica_audit.model import Problem, ReplicaFiles
from tests.collect.collections import collect_broker, collect_cluster, resealed, without_digests

SAMPLE = Path(__file__).parents[1] / "data" / "sample" / "committed-loss"
OF_A_LOG_DIR = (log_dir.META_PROPERTIES, *log_dir.OFFSET_CHECKPOINTS)
VALUES = {
    log_dir.HIGH_WATERMARKS: "high_watermark",
    "log-start-offset-checkpoint": "log_start_offset",
    "recovery-point-offset-checkpoint": "recovery_point",
    "cleaner-offset-checkpoint": "cleaner_offset",
}
Told = tuple[int, set[tuple[str, int, str]], list[tuple[str, str]]]


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return collect_cluster(SAMPLE, tmp_path_factory.mktemp("collected") / "cluster")


@pytest.fixture
def cluster(taken: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(taken, tmp_path / "cluster"))


def audited(root: Path) -> Told:
    """Exit code, verdicts and input problems."""
    tables = triage([str(root)], Settings(), tell=lambda _event: None, run_id="changed").tables

    def rows(table: str) -> Iterator[dict[str, Any]]:
        found = tables.dataset(table)
        yield from () if found is None else found.to_table().to_pylist()

    verdicts = {(f"{row['topic']}-{row['partition']}", row["follower_id"], row["verdict"]) for row in rows("replica_verdicts")}
    problems = [(Path(str(row["path"])).name, str(row["code"])) for row in rows("input_errors")]
    (run,) = rows("audit_runs")
    return run["exit_code"], verdicts, problems


def test_as_it_was_collected_nothing_is_told(cluster: Path) -> None:
    code, _verdicts, problems = audited(cluster)
    assert (code, [one for one in problems if one[1] in ("incomplete-collection", "no-digests")]) == (1, [])


@pytest.mark.parametrize("name", OF_A_LOG_DIR)
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda content: b"9" + content[1:], id="a digit"),
        pytest.param(lambda content: b"" if content else b"0\n0\n", id="emptied, or filled"),
        pytest.param(lambda content: content + b"orders 0 1\n", id="a line more"),
    ],
)
def test_a_small_file_of_a_log_directory_that_was_changed(cluster: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    (file,) = (cluster / "broker-1").glob(f"*/{name}")
    file.write_bytes(change(file.read_bytes()))
    found = list(replicas_of(cluster / "broker-1"))
    (problem,) = (one for one in found if isinstance(one, Problem))
    assert (Path(problem.path).name, problem.code) == (name, "incomplete-collection")
    assert problem.detail == "not what collect wrote: it was changed since, by the digest that the manifest has of it"
    (said,) = json.loads((cluster / "broker-1" / MANIFEST).read_text())["log_dirs"]
    later = {one["directory"]: one["later"] for one in said["replicas"]}
    for replica in (one for one in found if isinstance(one, ReplicaFiles)):
        if name in VALUES:
            assert getattr(replica, VALUES[name]) == later[replica.directory].get(VALUES[name]), "nothing of the file is used"


def test_a_small_file_of_a_log_directory_that_is_gone(cluster: Path) -> None:
    for name in OF_A_LOG_DIR:
        (file,) = (cluster / "broker-1").glob(f"*/{name}")
        file.unlink()
    problems = {Path(one.path).name: one.code for one in replicas_of(cluster / "broker-1") if isinstance(one, Problem)}
    assert problems == dict.fromkeys(OF_A_LOG_DIR, "cannot-read")


def test_a_verdict_that_rested_on_a_changed_digit_is_not_given(cluster: Path) -> None:
    """Of high watermarks that were lowered: what was committed is not said to be a stale tail as if that were known."""
    before = audited(cluster)
    assert any(verdict == "committed_loss" for *_which, verdict in before[1])
    for file in cluster.glob(f"*/*/{log_dir.HIGH_WATERMARKS}"):
        lines = file.read_text().splitlines()
        file.write_text("\n".join([*lines[:2], *(f"{line.rpartition(' ')[0]} 1" for line in lines[2:])]) + "\n")
    code, _verdicts, problems = audited(cluster)
    assert problems.count((log_dir.HIGH_WATERMARKS, "incomplete-collection")) == len(list(cluster.glob("broker-*")))
    assert code in (1, 3)


def test_a_changed_manifest_leaves_its_collection_out(cluster: Path) -> None:
    path = cluster / "broker-1" / MANIFEST
    path.write_bytes(path.read_bytes().replace(b'"segments": ', b'"segments": 1', 1))
    found = list(replicas_of(path.parent))
    assert not any(isinstance(one, ReplicaFiles) for one in found)
    problem = next(one for one in found if isinstance(one, Problem) and one.path == str(path))
    assert problem.detail.startswith("not what collect wrote: it was changed since")
    code, _verdicts, problems = audited(cluster)
    assert (MANIFEST, "malformed") in problems
    assert code in (1, 3)


@pytest.mark.parametrize("change", [(b"node.id=1", b"node.id=7"), (b"cluster.id=", b"cluster.id=x")])
def test_a_changed_id_does_not_make_it_the_folder_of_another_broker(cluster: Path, change: tuple[bytes, bytes]) -> None:
    (file,) = (cluster / "broker-1").glob("*/meta.properties")
    changed = file.read_bytes().replace(b"broker.id=1", b"node.id=1").replace(*change)
    before = audited(cluster)[1]
    file.write_bytes(changed)
    _code, verdicts, problems = audited(cluster)
    assert {one[:2] for one in verdicts} == {one[:2] for one in before}
    assert (file.name, "incomplete-collection") in problems
    assert not {"broker-id-mismatch", "cluster-id-mismatch"} & {code for _name, code in problems}


def test_a_collection_of_an_earlier_release_says_that_it_has_no_digests(cluster: Path) -> None:
    before = audited(cluster)
    for path in cluster.glob(f"*/{MANIFEST}"):
        path.write_text(json.dumps(without_digests(json.loads(path.read_text())), indent=1))
    code, verdicts, problems = audited(cluster)
    assert (code, verdicts) == before[:2]
    assert [one for one in problems if one not in before[2]] == [(MANIFEST, "no-digests")] * 3


def test_a_batch_index_that_was_changed_is_not_read(cluster: Path) -> None:
    """With the size that it had, and pages that are whole."""
    before = audited(cluster)
    changed = 0
    for path in cluster.glob(f"*/{MANIFEST}"):
        for index in path.parent.glob("*/batches/*/*.parquet"):
            index.write_bytes(index.read_bytes()[:-200] + bytes([index.read_bytes()[-200] ^ 1]) + index.read_bytes()[-199:])
            changed += 1
    assert changed
    _code, _verdicts, problems = audited(cluster)
    assert [one for one in problems if one not in before[2]]
    assert {code for _name, code in problems if (_name, code) not in before[2]} == {"incomplete-collection"}


@pytest.mark.parametrize("flag", ["since", "replace"])
def test_collect_does_not_build_upon_a_changed_manifest(tmp_path: Path, flag: str) -> None:
    first = collect_broker(SAMPLE / "broker-1", tmp_path).folder
    path = first / MANIFEST
    path.write_bytes(path.read_bytes().replace(b'"vanished": []', b'"vanished": ["x-0"]', 1))
    if flag == "replace":
        with pytest.raises(UsageError, match="not what collect wrote: it was changed since"):
            collect_broker(SAMPLE / "broker-1", tmp_path, replace=True)
        assert path.exists()
    else:
        second = collect_broker(SAMPLE / "broker-1", tmp_path / "second", since=first)
        assert second.manifest.counts["segments_taken_over"] == 0


def test_a_small_file_that_was_changed_does_not_reach_the_next_collection(tmp_path: Path) -> None:
    first = collect_broker(SAMPLE / "broker-1", tmp_path).folder
    for name in OF_A_LOG_DIR:
        for file in first.glob(f"*/{name}"):
            file.write_bytes(b"0\n0\n")
    second = collect_broker(SAMPLE / "broker-1", tmp_path / "second", since=first).folder
    assert not [one for one in replicas_of(second) if isinstance(one, Problem) and one.code == "incomplete-collection"]
    document = json.loads((second / MANIFEST).read_text())
    assert resealed(document) == (second / MANIFEST).read_bytes()
