"""A warehouse of the version before this one is opened by all that reads one, and what it did not record is said, not worked out again.

`data/older/warehouse-0.1.0.tar.gz` was written by `audit` of that version: the samples multi-round and leader-trimmed, topics ledger and
audit, copied to /brokers.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from replica_audit import cli, open_warehouse
from replica_audit.protocol.exchange import replay
from replica_audit.protocol.exchange import replay as exchange
from replica_audit.report.facts.explanation import Explained, explain
from replica_audit.report.facts.question import Question
from replica_audit.report.sections.exchange import NOT_RECORDED
from replica_audit.report.text.explanation_text import render
from replica_audit.storage.warehouse.reader import WarehouseTables

DATA = Path(__file__).resolve().parents[1] / "data"
ARCHIVE = DATA / "older" / "warehouse-0.1.0.tar.gz"
PARTITIONS = [*(("ledger", number) for number in range(3)), *(("audit", number) for number in range(6))]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    below = tmp_path_factory.mktemp("older")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(below, filter="data")
    return below / "warehouse"


def explained(warehouse: Path, topic: str, partition: int) -> Explained:
    return explain(WarehouseTables(str(warehouse)), Question(topic=topic, partition=partition))


def words(warehouse: Path, topic: str, partition: int) -> str:
    return " ".join(render(explained(warehouse, topic, partition), protocols=True).split())


def test_it_is_small_and_of_before_the_columns(warehouse: Path) -> None:
    assert ARCHIVE.stat().st_size < 300_000
    (one,) = explained(warehouse, "audit", 2).followers
    assert one.applied is not None
    assert one.applied.rounds
    assert (one.applied.is_recorded, one.verdict.rests_on, one.verdict.conflicts) == (False, None, None)


@pytest.mark.parametrize(("topic", "partition"), PARTITIONS)
def test_every_partition_is_explained_without_a_replay(
    warehouse: Path, topic: str, partition: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("follower_step", "diverging_epoch", "truncated"):
        monkeypatch.delattr(exchange, name)
    monkeypatch.setattr(replay, "RULES", {})
    said = words(warehouse, topic, partition)
    assert said.count(NOT_RECORDED) == 1, "in one line, once for the one follower"
    assert "round 1" not in said


def test_what_the_run_did_record_is_still_told(warehouse: Path) -> None:
    said = words(warehouse, "ledger", 0)
    assert "Offsets 10..18 of follower 2: 9 offsets, 9 records" in said
    assert "broker-2/data-0/ledger-0/00000000000000000000.log has epoch 2 at 10" in said, "its evidence is one text"
    assert "It truncated to 10, as truncate-on-fetch requires." in said
    assert "> truncate-on-fetch 10 3" in said


def test_the_page_the_text_and_the_json(warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = ["report", "--warehouse", str(warehouse)]
    assert cli.main([*report, "--output", str(tmp_path / "older.html")]) == 0
    page = (tmp_path / "older.html").read_text(encoding="utf-8")
    assert page.count('<article class="partition') == len(PARTITIONS)
    capsys.readouterr()
    assert cli.main([*report, "--format", "text"]) == 0
    assert "audit-0 1>2 - start 25 unknown; the reason says why" in " ".join(capsys.readouterr().out.split())
    assert cli.main([*report, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    assert {one["verdict"] for one in found if one["verdict"]} == {"committed_loss", "inconclusive"}
    assert all("cause" not in one for one in found)


def test_the_notebook(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = open_warehouse(str(warehouse)).latest()
    assert len(run.verdicts()) == len(PARTITIONS)
    partition = run.partition("audit-2")
    partition.explain()
    assert NOT_RECORDED in " ".join(capsys.readouterr().out.split())
    assert partition.rounds()["decided_by"].isna().all()
    assert partition.lineage().to_dict()["title"]["text"].startswith("audit-2")
    assert str(run.heatmap().to_dict()).count("committed_loss")
