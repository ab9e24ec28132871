"""Random nights: an audit that takes unchanged partitions over writes, row by row, what one writes that reads every file.

REPLICA_AUDIT_NIGHTS says how many nights of a cluster are played (default: 8); docs/verification.md has a longer run.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from replica_audit.config import Settings
from replica_audit.pipeline import AuditRequest, audit
from replica_audit.pipeline import run as pipeline_run
from replica_audit.rows import AUDIT_RUNS, PARTITION_FINGERPRINTS, SEGMENT_EPOCHS, TABLES, Table
from replica_audit.storage.warehouse.reader import WarehouseTables
from tests.collect.nights import at_rest
from tests.incremental.clusters_of_nights import CHANGES, Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NIGHTS = int(os.environ.get("REPLICA_AUDIT_NIGHTS", "8"))
CLUSTERS = 8  # in one run: half of them raw, half of them collected; half of each with a metadata log
_FIRST_DAY = date(2026, 11, 1)
# what says of a run when and how it was made
_OF_THE_RUN = {"started_at", "finished_at", "alive_at", "holder", "attempt", "versions"}
_OF_TAKING_OVER = {"partitions_taken_over", "taken_over_from", "full_run_id", "full_run_date"}


def run(spark: SparkSession, warehouse: Path, inputs: list[Path], run_id: str, night: int, **options: Any) -> None:
    request = AuditRequest(
        inputs=tuple(map(str, inputs)),
        warehouse=str(warehouse),
        settings=Settings(full_every_days=3650),
        run_id=run_id,
        run_date=_FIRST_DAY + timedelta(days=night),
        **options,
    )
    audit(spark, request, lambda _event: None)


def rows_of(warehouse: Path, run_id: str) -> dict[str, Counter[str]]:
    """The rows of a run, by table."""
    tables = WarehouseTables(str(warehouse))
    left_out = _OF_THE_RUN | _OF_TAKING_OVER
    found = {}
    for table in TABLES:
        arrow: pa.Table | None = tables.arrow(table.name, run_id=run_id)
        rows = [] if arrow is None else arrow.to_pylist()
        names = [name for name in table.names if table is not AUDIT_RUNS or name not in left_out]
        found[table.name] = Counter(json.dumps({name: row[name] for name in names}, default=str, sort_keys=True) for row in rows)
    return found


def taken_over(warehouse: Path, run_id: str) -> int:
    rows = WarehouseTables(str(warehouse)).arrow("audit_runs", run_id=run_id)
    assert rows is not None
    return sum(number or 0 for number in rows["partitions_taken_over"].to_pylist())


def base_of(warehouse: Path, run_id: str) -> set[str | None]:
    """The runs that rows were taken over from."""
    rows = WarehouseTables(str(warehouse)).arrow("audit_runs", run_id=run_id)
    assert rows is not None
    return set(rows["taken_over_from"].to_pylist())


def assert_same(place: Path, run_id: str, about: object = "") -> None:
    """The run has the same rows in both warehouses."""
    found, expected = (rows_of(place / name, run_id) for name in ("incremental", "full"))
    differing = {name: (found[name] - expected[name], expected[name] - found[name]) for name in found}
    differing = {name: pair for name, pair in differing.items() if any(pair)}
    assert not differing, f"{run_id} {about}: {differing}"
    assert sum(rows.total() for rows in expected.values()) > 0


def test_a_killed_run_is_no_base_and_can_be_made_again(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path / "cluster", 1, is_collected=False)
    inputs, warehouse = [cluster.root], tmp_path / "incremental"
    run(spark, warehouse, inputs, "first", 0)
    cluster.change("append")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(pipeline_run._Audit, "_conclude", lambda *_args: (_ for _ in ()).throw(KeyboardInterrupt))
        run(spark, warehouse, inputs, "killed", 1)
    run(spark, warehouse, inputs, "after", 1)
    assert base_of(warehouse, "after") == {"first"}
    assert taken_over(warehouse, "after") == 5
    run(spark, warehouse, inputs, "killed", 1)
    assert base_of(warehouse, "killed") == {"after"}
    assert taken_over(warehouse, "killed") == 6, "its rows are replaced, by way of frames"
    run(spark, tmp_path / "full", inputs, "killed", 1, full=True)
    assert_same(tmp_path, "killed")


@pytest.mark.parametrize("table", [PARTITION_FINGERPRINTS, SEGMENT_EPOCHS], ids=lambda table: table.name)
def test_a_table_that_takes_no_files_gets_its_rows_by_spark(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    cluster = Cluster(tmp_path / "cluster", 1, is_collected=False)
    inputs, warehouse = [cluster.root], tmp_path / "incremental"
    for place in (warehouse, tmp_path / "full"):
        run(spark, place, inputs, "first", 0)
    spark.sql(f"ALTER TABLE delta.`{warehouse / table.name}` ADD CONSTRAINT of_mine CHECK (partition < 100)")
    cluster.change("append")
    run(spark, warehouse, inputs, "after", 1)
    run(spark, tmp_path / "full", inputs, "after", 1, full=True)
    assert taken_over(warehouse, "after") == 5
    assert_same(tmp_path, "after")


def test_tables_are_those_of_a_full_run(spark: SparkSession, tmp_path: Path) -> None:
    """Both warehouses live through the same nights, so findings are new, persist and are resolved in the same ones."""
    with at_rest():
        clusters = [
            Cluster(tmp_path / f"cluster-{seed}", seed, is_collected=bool(seed % 2), has_log=bool(seed & 2)) for seed in range(CLUSTERS)
        ]
        kept, seen, compared = 0, Counter[str](), 0
        for night in range(1 + -(-NIGHTS // CLUSTERS)):
            inputs = [cluster.root for cluster in clusters]
            for warehouse, options in (("incremental", {}), ("full", {"full": True})):
                run(spark, tmp_path / warehouse, inputs, f"night-{night}", night, **options)
            assert_same(tmp_path, f"night-{night}", [cluster.changes for cluster in clusters])
            kept += taken_over(tmp_path / "incremental", f"night-{night}")
            compared += CLUSTERS * bool(night)
            for cluster in clusters:
                seen.update(cluster.changes)
                cluster.next_night()
                shutil.rmtree(cluster.place / f"collected-{cluster.night - 3:04d}", ignore_errors=True)
    assert kept > compared, "most partitions of a cluster do not change"
    if NIGHTS >= 200:
        assert seen.keys() == CHANGES.keys()
    print(f"{compared} nights, {kept} partitions taken over; changes: {dict(sorted(seen.items()))}")  # noqa: T201
