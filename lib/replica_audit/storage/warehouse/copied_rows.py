"""Rows of an earlier run, copied by tasks from the files of its tables into files of this run.

Columns stay in Arrow: no row becomes a Python value, and none comes to the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from replica_audit.engine.arrow import frame_of, spark_schema
from replica_audit.engine.spark_unchanged import meeting
from replica_audit.formats.shapes import MOVED
from replica_audit.model import PartitionKey
from replica_audit.rows import REPLICA_LOGS, Table
from replica_audit.rows.arrow import INT, STRING, struct
from replica_audit.rows.encoding import row_of
from replica_audit.rows.outcomes import WrittenFile
from replica_audit.storage.warehouse.copying_tasks import MADE_FILES, copied, moved, packed_kept_logs
from replica_audit.storage.warehouse.reader import WarehouseTables

KEYS = ["cluster_id", "topic", "partition"]
_COPIES = pa.schema(list(struct(table=STRING, path=STRING, task=INT)))


def copied_rows(
    spark: SparkSession,
    tables: Sequence[Table],
    places: Mapping[str, str],
    runs: Mapping[str, str],
    run_id: str,
    gone: frozenset[PartitionKey],
) -> list[WrittenFile]:
    """Copy the rows of earlier runs, with this run's id, in one job.

    Args:
        spark: the session.
        tables: whose rows are copied.
        places: their directories, and those that the files are written to, by name.
        runs: by cluster id, the run that has the rows.
        run_id: of this run.
        gone: keys of the partitions whose rows are not copied.

    Returns:
        The files, which no table has yet.
    """
    if not tables:
        return []
    copy = partial(copied, places=dict(places), runs=dict(runs), run_id=run_id, gone=gone)
    return _made(_files_of(spark, tables, places, runs).mapInArrow(copy, spark_schema(MADE_FILES)))


def copied_logs(
    spark: SparkSession, places: Mapping[str, str], runs: Mapping[str, str], run_id: str, gone: frozenset[PartitionKey], looks: DataFrame
) -> list[WrittenFile]:
    """Copy the rows of `replica_logs` in the same way, with the moments of what the listing sees now, as of `looks_of`."""
    files = _files_of(spark, [REPLICA_LOGS], places, runs)
    logs = files.mapInArrow(partial(packed_kept_logs, runs=dict(runs), gone=gone), spark_schema(MOVED))
    write = partial(moved, places=dict(places), run_id=run_id)
    return _made(meeting(logs, looks).mapInArrow(write, spark_schema(MADE_FILES)))


def _files_of(spark: SparkSession, tables: Sequence[Table], places: Mapping[str, str], runs: Mapping[str, str]) -> DataFrame:
    """The files that have rows of the runs, each with its table, spread over tasks."""
    found = [(table.name, path) for table in tables for path in _files(places[table.name], runs)]
    found.sort(key=lambda one: -Path(one[1]).stat().st_size)
    tasks = max(1, min(len(found), 2 * spark.sparkContext.defaultParallelism))
    rows = [(table, path, place % tasks) for place, (table, path) in enumerate(found)]
    return frame_of(spark, rows, _COPIES).repartitionById(tasks, "task")


def _made(files: DataFrame) -> list[WrittenFile]:
    return [row_of(WrittenFile, row["file"].asDict()) for row in files.collect()]  # one row for each task and table


def _files(place: str, runs: Mapping[str, str]) -> list[str]:
    """The files of a table that may hold rows of the runs."""
    folder, found = Path(place), set()
    for run in set(runs.values()):
        dataset: Any = WarehouseTables(str(folder.parent)).dataset(folder.name, {"run_id": run})
        found |= {str(folder / name) for name in (dataset.files if dataset is not None else ())}
    return sorted(found)
