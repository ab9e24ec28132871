"""Leaders and their epochs from text of the metadata log, in a broker's folder, beside the folders, or given apart."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from replica_audit.storage.inputs.sources import discover
from tests.formats import metadata_files as mf
from tests.formats.metadata_texts import Record, written
from tests.support import in_process

CASE = Path(__file__).resolve().parents[1] / "data" / "cases" / "19c-describe-text"
PARTITION: dict[str, Any] = {"replicas": [1, 2], "isr": [1, 2], "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0, "directories": []}
NAMED: dict[str, Any] = {"partitionId": 0, "topicId": mf.OTHER_ID}
LOG: list[list[Record]] = [
    [("FEATURE_LEVEL_RECORD", {"name": "metadata.version", "featureLevel": 25})],
    [("TOPIC_RECORD", {"name": "foo", "topicId": mf.OTHER_ID}), ("PARTITION_RECORD", NAMED | PARTITION)],
    [("PARTITION_CHANGE_RECORD", NAMED | {"leader": 2}), ("PARTITION_CHANGE_RECORD", NAMED | {"isr": [2], "leader": 2})],
]


def _root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    shutil.copytree(CASE, root)
    for name in ("topics.txt", "log-dirs.json", "offsets.txt"):
        (root / name).unlink()
    return root


def _text(tmp_path: Path, **options: bool) -> str:
    return written(tmp_path / "somewhere" / "__cluster_metadata-0", LOG, **options)[1]


def _told(root: Path) -> tuple[list[tuple[int, str, int, str]], list[str]]:
    found = [problem.code for _cluster, problem in discover([str(root)]).problems]
    tables = in_process.audit(root, anew=True)
    verdicts = [(row["leader_id"], row["leader_source"], row["follower_id"], row["verdict"]) for row in tables["replica_verdicts"]]
    return verdicts, sorted([*found, *(row["code"] for row in (*tables["input_errors"], *tables["problems"]))])


TOLD, GUESSED = [(2, "metadata-log", 1, "lagging")], [(2, "inferred", 1, "lagging")]


@pytest.mark.parametrize("place", ["broker-1/metadata.txt", "broker-2/data/x.log.txt", "metadata.txt", "quorum/dump"])
@pytest.mark.parametrize("with_offsets", [True, False])
def test_it_tells_the_leader(tmp_path: Path, place: str, *, with_offsets: bool) -> None:
    root = _root(tmp_path)
    (root / place).parent.mkdir(exist_ok=True)
    (root / place).write_text(_text(tmp_path, with_offsets=with_offsets))
    assert _told(root) == (TOLD, [])


@pytest.mark.parametrize("place", ["broker-1/metadata.txt", "metadata.txt"])
def test_without_the_decoder_it_is_named(tmp_path: Path, place: str) -> None:
    root = _root(tmp_path)
    (root / place).write_text(_text(tmp_path, decoded=False))
    assert _told(root) == (GUESSED, ["metadata-not-used"])


@pytest.mark.parametrize("place", ["broker-1/metadata.txt", "metadata.txt"])
def test_a_part_of_it_is_named(tmp_path: Path, place: str) -> None:
    """The last elections may be missing, and here are, as the table of the one that won them shows."""
    root = _root(tmp_path)
    text = _text(tmp_path)
    shown = text[: text.rindex("baseOffset")]
    command = f"$ kafka-dump-log.sh --cluster-metadata-decoder --files x.log | head -{len(shown.splitlines())}\n"
    (root / place).write_text(command + shown)
    assert _told(root) == (GUESSED, ["dump-truncated", "metadata-outdated"])


def test_text_of_another_log_beside_the_folders_is_named(tmp_path: Path) -> None:
    root = _root(tmp_path)
    (root / "dump.txt").write_text("Dumping /data/foo-0/00000000000000000000.log\nLog starting offset: 0\n")
    assert _told(root) == (GUESSED, ["unknown-broker"])


def test_of_another_directory_it_is_named(tmp_path: Path) -> None:
    """Kafka 2.8 called it @metadata-0, and its brokers are not those of later releases."""
    root = _root(tmp_path)
    (root / "metadata.txt").write_text(_text(tmp_path).replace("__cluster_metadata-0", "@metadata-0"))
    assert _told(root) == (GUESSED, ["incomplete"])


def test_it_can_be_given_apart(tmp_path: Path) -> None:
    root, text = _root(tmp_path), tmp_path / "metadata.txt"
    text.write_text(_text(tmp_path))
    (found,) = discover([str(root)], text).roots
    assert [path for _cluster, _broker, path, kind in found.sources() if kind == "metadata"] == [str(text)]
