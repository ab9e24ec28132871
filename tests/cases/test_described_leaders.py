"""Leaders that nobody wrote into a cluster-metadata.json, but that tools printed into texts beside the brokers' folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from replica_audit import cli
from replica_audit.errors import UsageError
from replica_audit.storage.inputs.sources import discover
from tests.support import in_process

CASES = Path(__file__).resolve().parents[1] / "data" / "cases"
BESIDE, NAMED = CASES / "19c-describe-text", CASES / "19d-describe-as-metadata"
Row = dict[str, Any]
KCAT = (
    "Metadata for all topics (from broker 2: b2:9092/2):\n 1 brokers:\n  broker 2 at b2:9092 (controller)\n"
    ' 1 topics:\n  topic "foo" with 1 partitions:\n    partition 0, leader 2, replicas: 1,2, isrs: 2\n'
)


def _copy(tmp_path: Path, *, without: tuple[str, ...] = ("topics.txt", "log-dirs.json", "offsets.txt")) -> Path:
    root = tmp_path / "root"
    shutil.copytree(BESIDE, root)
    for name in without:
        (root / name).unlink()
    return root


def _leaders(root: Path) -> list[tuple[int, str, int, str]]:
    return [
        (row["leader_id"], row["leader_source"], row["follower_id"], row["verdict"]) for row in in_process.audit(root)["replica_verdicts"]
    ]


def _problems(root: Path) -> list[tuple[str, str]]:
    found = [problem for _cluster, problem in discover([str(root)]).problems]
    tables = in_process.audit(root, anew=True)
    listed = [(row["code"], Path(row["path"]).name) for row in (*tables["input_errors"], *tables["problems"])]
    return sorted([*((problem.code, Path(problem.path).name) for problem in found), *listed])


TOLD = [(2, "cluster-metadata", 1, "lagging")]
GUESSED = [(2, "inferred", 1, "lagging")]


def test_a_description_of_any_name_tells_the_leader_and_other_texts_are_named() -> None:
    assert _leaders(BESIDE) == TOLD
    assert _problems(BESIDE) == [("metadata-not-used", "log-dirs.json"), ("metadata-not-used", "offsets.txt")]


def test_so_does_one_that_is_called_cluster_metadata() -> None:
    assert (_leaders(NAMED), _problems(NAMED)) == (TOLD, [])


def test_and_one_that_is_given_apart(tmp_path: Path) -> None:
    root = _copy(tmp_path)
    assert _leaders(root) == GUESSED
    found = discover([str(root)], BESIDE / "topics.txt")
    assert [str(path) for _cluster, _broker, path, kind in found.roots[0].sources() if kind == "metadata"] == [str(BESIDE / "topics.txt")]


@pytest.mark.parametrize("text", ["log-dirs.json", "offsets.txt"])
def test_what_tells_no_leader_cannot_be_given_apart(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="does not tell who leads"):
        discover([str(_copy(tmp_path))], BESIDE / text)


@pytest.mark.parametrize("name", ["kcat.txt", "kcat", "cluster-metadata.json", "metadata/kcat.out"])
def test_a_listing_of_kcat(tmp_path: Path, name: str) -> None:
    root = _copy(tmp_path)
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(KCAT)
    assert (_leaders(root), _problems(root)) == (TOLD, [])


def test_a_description_goes_before_kcat_and_a_document_before_both(tmp_path: Path) -> None:
    root = _copy(tmp_path, without=("log-dirs.json", "offsets.txt"))
    (root / "kcat.txt").write_text(KCAT.replace("leader 2", "leader 1").replace("isrs: 2", "isrs: 1"))
    assert (_leaders(root), _problems(root)) == (TOLD, [("metadata-not-used", "kcat.txt")])
    partition = {"partition": 0, "leader": 2, "leader_epoch": 3, "replicas": [1, 2], "isr": [2]}
    document = {"version": 1, "topics": [{"topic": "foo", "partitions": [partition]}]}
    (root / "cluster-metadata.json").write_text(json.dumps(document))
    assert (_leaders(root), _problems(root)) == (TOLD, [("metadata-not-used", "kcat.txt"), ("metadata-not-used", "topics.txt")])


def test_one_text_for_each_topic(tmp_path: Path) -> None:
    root = _copy(tmp_path, without=("log-dirs.json", "offsets.txt"))
    (root / "other.txt").write_text((root / "topics.txt").read_text().replace("foo", "other"))
    assert (_leaders(root)[0], _problems(root)) == (TOLD[0], [])


def test_two_texts_that_contradict_each_other_tell_nothing(tmp_path: Path) -> None:
    """One was printed before an election, one afterwards; which, nobody knows."""
    root = _copy(tmp_path, without=("log-dirs.json", "offsets.txt"))
    (root / "before.txt").write_text((root / "topics.txt").read_text().replace("Leader: 2", "Leader: 1").replace("Isr: 2", "Isr: 1,2"))
    assert (_leaders(root), _problems(root)) == (GUESSED, [("malformed", "before.txt"), ("malformed", "topics.txt")])
    assert cli.main(["triage", "--input", str(root)]) == 3


@pytest.mark.parametrize("keep", [-30, -45, -80])
@pytest.mark.parametrize("name", ["topics.txt", "cluster-metadata.json"])
def test_a_text_that_is_cut_tells_nothing_and_is_named(tmp_path: Path, name: str, keep: int) -> None:
    root = _copy(tmp_path)
    (root / name).write_text((BESIDE / "topics.txt").read_text()[:keep])
    assert (_leaders(root), _problems(root)) == (GUESSED, [("malformed", name)])
    assert cli.main(["triage", "--input", str(root)]) == 3


@pytest.mark.parametrize("name", ["topics.txt", "cluster-metadata.json", "data/topics.txt"])
def test_metadata_in_a_brokers_folder_is_named(tmp_path: Path, name: str) -> None:
    root = _copy(tmp_path)
    (root / "broker-1" / name).parent.mkdir(exist_ok=True)
    (root / "broker-1" / name).write_text((BESIDE / "topics.txt").read_text())
    assert (_leaders(root), _problems(root)) == (GUESSED, [("misplaced", Path(name).name)])


def test_a_copy_of_the_document_in_a_brokers_folder_is_no_danger(tmp_path: Path) -> None:
    root = _copy(tmp_path)
    document = {"version": 1, "topics": [{"topic": "foo", "partitions": [{"partition": 0, "leader": 2, "replicas": [1, 2], "isr": [2]}]}]}
    for place in (root, root / "broker-1"):
        (place / "cluster-metadata.json").write_text(json.dumps(document))
    assert (_leaders(root), _problems(root)) == (TOLD, [("metadata-not-used", "cluster-metadata.json")])
    assert cli.main(["triage", "--input", str(root)]) == 3, "no file says in which epoch the leader leads"


def test_a_leader_whose_own_table_ends_before_another_ones_leads_no_more(tmp_path: Path) -> None:
    """The text was pasted before the election: it has no epoch that would show it, but the leader's own table does."""
    root = _copy(tmp_path, without=("log-dirs.json", "offsets.txt"))
    text = (root / "topics.txt").read_text()
    (root / "topics.txt").write_text(text.replace("Leader: 2", "Leader: 1").replace("Isr: 2", "Isr: 1,2"))
    assert _leaders(root)[0][:3] == (1, "cluster-metadata", 2)
    table = (root / "broker-2" / "foo-0" / "leader-epoch-checkpoint").read_text().split("\n")
    last = table[2].split()
    assert (table[0], int(table[1])) == ("0", 1)
    (root / "broker-2" / "foo-0" / "leader-epoch-checkpoint").write_text(f"0\n2\n{table[2]}\n{int(last[0]) + 1} 260\n")
    assert _leaders(root)[0][:3] == (2, "inferred", 1)
    assert ("metadata-outdated", "leader-epoch-checkpoint") in _problems(root)
    assert cli.main(["triage", "--input", str(root)]) != 0


def test_before_there_were_topic_ids_a_leader_may_have_led_without_an_entry(tmp_path: Path) -> None:
    """Up to 2.0 a leader notes its epoch with its first record (KAFKA-7415): that another table ends later disproves nothing."""
    root = _copy(tmp_path, without=("log-dirs.json", "offsets.txt"))
    text = (root / "topics.txt").read_text().replace("\tTopicId: FwQ8J6cySmadJADoS7lKRg", "")
    (root / "topics.txt").write_text(text.replace("Leader: 2", "Leader: 1").replace("Isr: 2", "Isr: 1,2"))
    for broker in ("broker-1", "broker-2"):
        (root / broker / "foo-0" / "partition.metadata").unlink()
    (root / "broker-2" / "foo-0" / "leader-epoch-checkpoint").write_text("0\n2\n2 0\n3 260\n")
    assert _leaders(root)[0][:3] == (1, "cluster-metadata", 2)


def test_of_a_leader_whose_table_was_not_copied_that_cannot_be_known(tmp_path: Path) -> None:
    root = _copy(tmp_path, without=("log-dirs.json", "offsets.txt"))
    for broker in ("broker-1", "broker-2"):
        (root / broker / "foo-0" / "leader-epoch-checkpoint").unlink()
        (root / broker / "foo-0" / "partition.metadata").unlink()
    assert _leaders(root)[0][:2] == (2, "cluster-metadata")
