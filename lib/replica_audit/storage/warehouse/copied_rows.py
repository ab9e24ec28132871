"""Rows of an earlier run, copied by tasks from the files of its tables into files of this run.

Columns stay in Arrow: no row becomes a Python value, and none comes to the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from replica_audit.engine.arrow import spark_schema
from replica_audit.model import PartitionKey
from replica_audit.storage.warehouse.reader import WarehouseTables
from replica_audit.storage.warehouse.table_files import TableFiles
from replica_audit.tables import OUTCOMES, TABLES, Table
from replica_audit.tables.columns import STRING
from replica_audit.tables.encoding import as_dict, row_of
from replica_audit.tables.outcomes import WrittenFile

KEYS = ["cluster_id", "topic", "partition"]
_FILES = pa.schema([OUTCOMES.field("file")])
_BY_NAME = {table.name: table for table in TABLES}


def copied_rows(
    spark: SparkSession, tables: Sequence[Table], places: Mapping[str, str], runs: Mapping[str, str], run_id: str, gone: pa.Table
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
    found = [(table.name, path) for table in tables for path in _files(places[table.name], runs)]
    if not found:
        return []
    found.sort(key=lambda one: -Path(one[1]).stat().st_size)
    tasks = min(len(found), 2 * spark.sparkContext.defaultParallelism)
    rows = [(table, path, place % tasks) for place, (table, path) in enumerate(found)]
    frame = spark.createDataFrame(rows, "table string, path string, task int").repartitionById(tasks, "task")
    copy = partial(_copied, places=dict(places), runs=dict(runs), run_id=run_id, gone=gone)
    made = frame.mapInArrow(copy, spark_schema(_FILES)).collect()  # one row for each task and table
    return [row_of(WrittenFile, row["file"].asDict()) for row in made]


def _files(place: str, runs: Mapping[str, str]) -> list[str]:
    """The files of a table that may hold rows of the runs."""
    folder, found = Path(place), set()
    for run in set(runs.values()):
        dataset: Any = WarehouseTables(str(folder.parent)).dataset(folder.name, {"run_id": run})
        found |= {str(folder / name) for name in (dataset.files if dataset is not None else ())}
    return sorted(found)


def _copied(
    batches: Iterator[pa.RecordBatch], places: Mapping[str, str], runs: Mapping[str, str], run_id: str, gone: pa.Table
) -> Iterator[pa.RecordBatch]:
    with TableFiles(places, run_id) as taken:
        for batch in batches:
            for row in batch.to_pylist():
                table, path = row["table"], row["path"]
                columns = list(_BY_NAME[table].arrow)[1:]
                with pq.ParquetFile(path) as file:
                    for rows in file.iter_batches(batch_size=1 << 16):
                        kept = pa.Table.from_batches([_kept(rows, runs, gone)])
                        # a file that Spark wrote names the items of lists otherwise, and has other units of time
                        cast = [kept[field.name].cast(field.type) for field in columns]
                        for made in pa.Table.from_arrays(cast, schema=pa.schema(columns)).to_batches():
                            if made.num_rows:
                                taken.add(table, made)
        yield pa.RecordBatch.from_pylist([{"file": as_dict(file)} for file in taken.finish()], schema=_FILES)


def _kept(rows: pa.RecordBatch, runs: Mapping[str, str], gone: pa.Table) -> pa.RecordBatch:
    """The rows that are of the runs, and not of a partition that is gone."""
    wanted: Any = pa.array([False] * rows.num_rows)
    for cluster, run in runs.items():
        of_cluster: Any = pc.equal(rows["cluster_id"], pa.scalar(cluster))
        of_run: Any = pc.equal(rows["run_id"], pa.scalar(run))
        wanted = pc.or_(wanted, pc.and_(of_cluster, of_run))
    rows = rows.filter(wanted)
    if not gone.num_rows or not rows.num_rows:
        return rows
    keys = pa.table([rows[name].cast(gone.schema.field(name).type) for name in KEYS], names=KEYS)
    places = keys.append_column("place", pa.array(range(rows.num_rows)))
    left = places.join(gone, keys=KEYS, join_type="left anti")["place"]
    return rows.take(left.combine_chunks().sort())


def keys_table(keys: Sequence[PartitionKey]) -> pa.Table:
    """Keys of partitions as a table that rows are compared with."""
    columns = list(zip(*keys, strict=True)) if keys else [(), (), ()]
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, (STRING, STRING, pa.int32()), strict=True)], names=KEYS)
