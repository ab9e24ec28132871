"""Topic ids that only the metadata or an empty log has, and brokers that the metadata does not name: nothing is stale, or decided."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.collect import CollectRequest, collect
from replica_audit.formats.log_dir.names import OFFSET_CHECKPOINTS
from tests.cases.triaged import Seen, seen
from tests.collect.collections import collect_cluster, quietly
from tests.formats import kafka_files
from tests.mutation.generated import healthy
from tests.partition.test_what_if import COMMON, OTHER_TOPIC_ID, _metadata, _write

MORE = [*COMMON, (1, 10, 14)]
SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"


def _zookeeper(root: Path) -> Path:
    for path in root.glob("broker-*/data-0/meta.properties"):
        path.write_bytes(kafka_files.meta_properties(int(path.parts[-3].removeprefix("broker-")), version=0))
    path = root / "cluster-metadata.json"
    if path.exists():
        document = json.loads(path.read_text(encoding="utf-8"))
        del document["features"]
        path.write_text(json.dumps(document | {"kafka_version": "3.0.0", "inter_broker_protocol_version": "3.0"}), encoding="utf-8")
    return root


def _empty_leader(root: Path, *, state: str = "up") -> Path:
    """Broker 3 leads with an empty log of the metadata's topic; brokers 1 and 2 hold the records under another id."""
    _write(root, {1: MORE, 2: MORE, 3: []}, topic_ids={1: OTHER_TOPIC_ID, 2: OTHER_TOPIC_ID}, high_watermarks={1: 15, 2: 15})
    return _metadata(root, 3, epoch=2, brokers=[3, 1, 2], isr=[3], state=state)


def _assert_in_doubt(found: Seen, followers: set[int]) -> None:
    assert found.exit_code == 1
    assert {row["follower_id"] for row in found.tables["replica_verdicts"] if row["cause"] == "topic id in doubt"} == followers
    assert ("topic_id_conflict", "error", -1) in found.findings()
    assert "earlier topic" not in found.text
    assert "stale" not in found.text


@pytest.mark.parametrize("collected", [False, True])
@pytest.mark.parametrize("zookeeper", [False, True])
def test_an_empty_leader_has_the_metadata_s_id(tmp_path: Path, *, zookeeper: bool, collected: bool) -> None:
    root = _empty_leader(tmp_path / "raw")
    root = _zookeeper(root) if zookeeper else root
    found = seen(collect_cluster(root, tmp_path / "collected") if collected else root)
    _assert_in_doubt(found, {1, 2})
    assert f"brokers 1, 2 have topic id {OTHER_TOPIC_ID}, and records up to offset 14" in found.text
    assert not [one for one in found.findings() if "stray" in one[0]], "ZooKeeper brokers set nothing aside, and the others run"


def test_stopped_kraft_brokers_would_set_the_records_aside(tmp_path: Path) -> None:
    found = seen(_empty_leader(tmp_path, state="down"))
    _assert_in_doubt(found, {1, 2})
    assert {("will_become_stray", "error", 1), ("will_become_stray", "error", 2)} <= found.findings()


def test_only_the_metadata_has_the_id(tmp_path: Path) -> None:
    """All replicas agree: the metadata differs."""
    _write(tmp_path, {1: MORE, 2: COMMON}, topic_ids={1: OTHER_TOPIC_ID, 2: OTHER_TOPIC_ID}, high_watermarks={1: 15})
    found = seen(_zookeeper(_metadata(tmp_path, 1, epoch=1, brokers=[1, 2], isr=[1])))
    _assert_in_doubt(found, {2})
    assert "no replica in the input has it" in found.text


def test_the_advice_moves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = _empty_leader(tmp_path / "root")
    assert cli.main(["triage", "--input", str(root), "--partition", "t-0"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "delete none, start no stopped broker that holds one" in said
    assert "out of the log directory" not in said
    assert cli.main(["triage", "--input", str(root), "--plan", str(tmp_path / "plan")]) == 1
    assert "out of the log director" not in (tmp_path / "plan" / "PLAN.md").read_text(encoding="utf-8")


def test_an_earlier_topic_is_stale_where_the_current_one_has_records(tmp_path: Path) -> None:
    _write(tmp_path, {1: COMMON, 2: COMMON, 3: MORE}, topic_ids={3: OTHER_TOPIC_ID}, high_watermarks={1: 10, 2: 10})
    found = seen(_metadata(tmp_path, 1, epoch=0, brokers=[1, 2, 3], isr=[1, 2]))
    assert found.verdicts() == {2: "identical", 3: "stale_topic_id"}
    assert "topic_id_conflict" not in {one[0] for one in found.findings()}


def test_without_metadata_nobody_knows_which_is_the_earlier_one(tmp_path: Path) -> None:
    """The log with the highest epoch may be the old one."""
    _write(tmp_path, {1: COMMON, 2: COMMON, 3: [(7, 0, 4)]}, topic_ids={3: OTHER_TOPIC_ID})
    found = seen(tmp_path)
    assert (found.exit_code, set(found.verdicts().values())) == (3, {"inconclusive"})
    assert ("topic_id_conflict", "warning", -1) in found.findings()


@pytest.mark.skipif(not SHARED.is_dir(), reason="without the cases kept beside the project")
def test_the_case(tmp_path: Path) -> None:
    shutil.copytree(SHARED / "03b-topic-id-new-replica", tmp_path / "03b")
    _assert_in_doubt(seen(tmp_path / "03b"), {1, 2, 3})


# --- brokers that the metadata does not name ----------------------------------------------------------------------------------------------


def _unknown(root: Path, *, meta: bool) -> Path:
    """Broker 4 holds more than the leader, and the metadata names brokers 1 to 3."""
    _write(root, {1: COMMON, 2: COMMON, 4: MORE}, high_watermarks={1: 10, 2: 10, 4: 15})
    if not meta:
        (root / "broker-4" / "data-0" / "meta.properties").unlink()
    return _metadata(root, 1, epoch=2, brokers=[1, 2, 3], isr=[1, 2])


@pytest.mark.parametrize("meta", [False, True])
def test_a_broker_that_the_metadata_does_not_name(tmp_path: Path, *, meta: bool) -> None:
    found = seen(_unknown(tmp_path, meta=meta))
    assert found.verdicts()[4] == "inconclusive"
    (row,) = [row for row in found.tables["replica_verdicts"] if row["follower_id"] == 4]
    assert (row["cause"], "brokers 1, 2, 3, and not 4: which broker is it?" in row["reason"]) == ("unknown broker", True)
    assert {row["broker_id"]: row["outcome"] for row in found.tables["broker_starts"]}[4] == "unknown"
    assert found.exit_code == 3


def test_a_broker_that_the_partition_names(tmp_path: Path) -> None:
    """A list of brokers in the file need not be whole."""
    root = _unknown(tmp_path, meta=True)
    path = root / "cluster-metadata.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["topics"][0]["partitions"][0]["replicas"].append(4)
    path.write_text(json.dumps(document), encoding="utf-8")
    assert seen(root).verdicts()[4] != "inconclusive"


def test_without_metadata_every_broker_counts(tmp_path: Path) -> None:
    root = _unknown(tmp_path, meta=False)
    (root / "cluster-metadata.json").unlink()
    assert "inconclusive" not in seen(root).verdicts().values()


_META = "data-0/meta.properties"


def _healthy(root: Path, broker: int, change: Callable[[bytes], bytes | None]) -> Path:
    """A healthy stopped cluster in which the meta.properties of one broker is another, or not there."""
    path = healthy(root, "stopped") / f"broker-{broker}" / _META
    content = change(path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    return root


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda _content: None, "missing-meta-properties"),
        (lambda _content: b"", "malformed"),
        (lambda content: content.replace(b"node.id", b"broker.id"), "malformed"),
        (lambda content: content.replace(b"cluster.id", b"cluster.it"), "malformed"),
        (lambda content: content.replace(b"version=1", b"version=7"), "malformed"),
    ],
)
def test_a_directory_that_no_kraft_broker_starts_with(tmp_path: Path, change: Callable[[bytes], bytes | None], code: str) -> None:
    """The other replicas are judged as ever, and the run proves nothing clean."""
    found = seen(_healthy(tmp_path, 2, change))
    assert (found.exit_code, found.problems()) == (3, [code])
    assert found.tables["input_errors"][0]["path"].endswith(f"broker-2/{_META}")
    assert {row["verdict"] for row in found.tables["replica_verdicts"]} == {"identical"}


def test_a_log_directory_without_replicas_does_not_say_whose_it_is(tmp_path: Path) -> None:
    root = healthy(tmp_path, "stopped")
    for name in OFFSET_CHECKPOINTS:
        empty = root / "broker-2" / "data-9" / name
        empty.parent.mkdir(exist_ok=True)
        empty.touch()
    assert seen(root).problems() == ["missing-meta-properties"]
    shutil.copy(root / "broker-2" / _META, empty.parent)
    assert seen(root).problems() == ["two-copies-of-a-broker"]


@pytest.mark.parametrize("collected", [False, True])
def test_a_directory_id_of_two_brokers(tmp_path: Path, *, collected: bool) -> None:
    root = _healthy(tmp_path / "raw", 1, lambda content: content.replace(b"S6VA", b"S6VC"))
    found = seen(collect_cluster(root, tmp_path / "collected") if collected else root)
    assert (found.exit_code, found.problems()) == (3, ["directory-id-of-two-brokers"])
    assert re.search(r"data-0 of broker 1 and .*data-0 of broker 3 have the same directory.id", found.tables["input_errors"][0]["detail"])


def test_a_collection_without_the_file_of_its_broker(tmp_path: Path) -> None:
    root = _healthy(tmp_path / "raw", 2, lambda _content: None)
    for broker in (1, 2, 3):
        log_dirs = (root / f"broker-{broker}" / "data-0",)
        collect(CollectRequest(output=tmp_path / "collected", log_dirs=log_dirs, broker_id=broker if broker == 2 else None), quietly)
    shutil.copy(root / "cluster-metadata.json", tmp_path / "collected")
    found = seen(tmp_path / "collected")
    assert (found.exit_code, found.problems()) == (3, ["missing-meta-properties"])
