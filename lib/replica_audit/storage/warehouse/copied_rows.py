"""Rows of an earlier run, copied by tasks from the files of its tables into files of this run.

Columns stay in Arrow: no row becomes a Python value, and none comes to the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from replica_audit.engine.arrow import frame_of, spark_schema
from replica_audit.engine.moved_logs import packed_logs, rows_of_table, with_moments
from replica_audit.engine.spark_unchanged import meeting
from replica_audit.model import PartitionKey
from replica_audit.storage.warehouse.reader import WarehouseTables
from replica_audit.storage.warehouse.table_files import TableFiles
from replica_audit.tables import MOVED, OUTCOMES, REPLICA_LOGS, TABLES, Table
from replica_audit.tables.columns import INT, STRING, struct
from replica_audit.tables.encoding import as_dict, row_of
from replica_audit.tables.outcomes import WrittenFile

KEYS = ["cluster_id", "topic", "partition"]
_TEXTS = ["run_id", "cluster_id", "topic"]
_PARTITIONS = 1 << 31  # of a topic there are fewer
_COPIES = pa.schema(list(struct(table=STRING, path=STRING, task=INT)))
_FILES = pa.schema([OUTCOMES.field("file")])
_BY_NAME = {table.name: table for table in TABLES}


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
    copy = partial(_copied, places=dict(places), runs=dict(runs), run_id=run_id, gone=gone)
    return _made(_files_of(spark, tables, places, runs).mapInArrow(copy, spark_schema(_FILES)))


def copied_logs(
    spark: SparkSession, places: Mapping[str, str], runs: Mapping[str, str], run_id: str, gone: frozenset[PartitionKey], looks: DataFrame
) -> list[WrittenFile]:
    """Copy the rows of `replica_logs` in the same way, with the moments of what the listing sees now, as of `looks_of`."""
    files = _files_of(spark, [REPLICA_LOGS], places, runs)
    logs = files.mapInArrow(partial(_packed, runs=dict(runs), gone=gone), spark_schema(MOVED))
    write = partial(_moved, places=dict(places), run_id=run_id)
    return _made(meeting(logs, looks).mapInArrow(write, spark_schema(_FILES)))


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


def _copied(
    batches: Iterator[pa.RecordBatch], places: Mapping[str, str], runs: Mapping[str, str], run_id: str, gone: frozenset[PartitionKey]
) -> Iterator[pa.RecordBatch]:
    with TableFiles(places, run_id) as taken:
        for table, rows in _kept_rows(batches, _Kept(runs, gone)):
            taken.add(table.name, rows_of_table(table, rows))
        yield _told(taken)


def _packed(batches: Iterator[pa.RecordBatch], runs: Mapping[str, str], gone: frozenset[PartitionKey]) -> Iterator[pa.RecordBatch]:
    return packed_logs(rows for _table, rows in _kept_rows(batches, _Kept(runs, gone)))


def _moved(batches: Iterator[pa.RecordBatch], places: Mapping[str, str], run_id: str) -> Iterator[pa.RecordBatch]:
    with TableFiles(places, run_id) as taken:
        for rows in with_moments(batches):
            taken.add(REPLICA_LOGS.name, rows)
        yield _told(taken)


def _told(taken: TableFiles) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"file": as_dict(file)} for file in taken.finish()], schema=_FILES)


def _kept_rows(batches: Iterator[pa.RecordBatch], wanted: _Kept) -> Iterator[tuple[Table, pa.RecordBatch]]:
    """The rows of some files that are kept, as the files have them."""
    for batch in batches:
        for row in batch.to_pylist():
            table = _BY_NAME[row["table"]]
            with pq.ParquetFile(row["path"], read_dictionary=_TEXTS) as file:
                for rows in file.iter_batches(batch_size=1 << 16):
                    kept = rows.filter(pa.array(wanted.of(rows)))
                    if kept.num_rows:
                        yield table, kept


class _Kept:
    """Which rows are of some runs, and not of partitions that are gone; asked by numbers, for there are millions."""

    def __init__(self, runs: Mapping[str, str], gone: frozenset[PartitionKey]) -> None:
        self._runs = runs
        self._topics = {key: number for number, key in enumerate(sorted({key[:2] for key in gone}))}
        self._gone = np.array(sorted(self._topics[key[:2]] * _PARTITIONS + key[2] for key in gone), np.int64)

    def of(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Of each row whether it is one."""
        cluster, clusters = _coded(rows, "cluster_id")
        run, run_ids = _coded(rows, "run_id")
        kept: npt.NDArray[np.bool_] = np.array([[self._runs.get(one) == other for other in run_ids] for one in clusters], np.bool_)[
            cluster, run
        ]
        if not len(self._gone):
            return kept
        topic, topics = _coded(rows, "topic")
        numbers = np.array([[self._topics.get((one, other), -1) for other in topics] for one in clusters], np.int64)[cluster, topic]
        asked = numbers * _PARTITIONS + np.asarray(rows["partition"], np.int64)
        places = np.minimum(np.searchsorted(self._gone, asked), len(self._gone) - 1)
        is_there: npt.NDArray[np.bool_] = self._gone[places] != asked
        return kept & is_there


def _coded(rows: pa.RecordBatch, name: str) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """A column of texts as numbers, and the text that each number stands for."""
    column: Any = rows[name]
    return np.asarray(column.indices, np.int64), column.dictionary.to_pylist()
