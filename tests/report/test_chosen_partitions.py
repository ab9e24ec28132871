"""Partitions read together tell what each tells alone, and no table is looked at twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.report.facts.explanation import explain
from replica_audit.report.facts.question import Question
from replica_audit.storage.warehouse.arrow_tables import ArrowTables, ChosenPartitions
from replica_audit.storage.warehouse.reader import WarehouseTables
from tests.support.warehouse import write_warehouse

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
CHOSEN = [("billing", 0), ("billing", 2), ("ledger", 1)]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("warehouse")
    write_warehouse(made, SAMPLE / "committed-loss", SAMPLE / "multi-round", settings=Settings(what_if_leaders=True))
    return str(made)


def test_an_explanation_is_the_same(warehouse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [explain(WarehouseTables(warehouse), Question(topic=topic, partition=number)) for topic, number in CHOSEN]
    chosen = ChosenPartitions(WarehouseTables(warehouse), "first", CHOSEN)
    opened: list[tuple[Any, ...]] = []
    original = ArrowTables.arrow

    def counting(self: ArrowTables, table: str, where: Any = None, /, **equal: Any) -> Any:
        opened.append((table, *equal.items()))
        return original(self, table, where, **equal)

    monkeypatch.setattr(ArrowTables, "arrow", counting)
    together = [explain(chosen, Question(topic=topic, partition=number, run_id="first")) for topic, number in CHOSEN]
    assert together == alone
    assert len(opened) == len(set(opened)) > 5


def test_another_partition_is_read_like_any(warehouse: str) -> None:
    asked = Question(topic="billing", partition=1)
    assert explain(ChosenPartitions(WarehouseTables(warehouse), "first", CHOSEN), asked) == explain(WarehouseTables(warehouse), asked)


def test_columns_come_as_they_are_wanted(warehouse: str) -> None:
    tables = WarehouseTables(warehouse)
    wanted: list[tuple[str, pa.DataType]] = [("topic", pa.string()), ("partition", pa.int32()), ("later", pa.int64())]
    schema = pa.schema(wanted)
    found = tables.columns("replica_verdicts", schema, ds.field("verdict") == "committed_loss", run_id="first", partition=2)
    assert found.schema == schema
    assert sorted(row["topic"] for row in found.to_pylist()) == ["billing", "ledger"]
    assert {(row["partition"], row["later"]) for row in found.to_pylist()} == {(2, None)}
    assert tables.columns("nothing", schema).schema == schema
    with pytest.raises(UsageError, match="table replica_verdicts cannot be read"):
        tables.columns("replica_verdicts", pa.schema({"topic": pa.int64()}))
