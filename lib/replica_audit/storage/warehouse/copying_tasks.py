"""What a task does that copies rows of an earlier run. Apart from the driver's half, so that a worker need not import delta-rs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from replica_audit.engine.moved_logs import packed_logs, rows_of_table, with_moments
from replica_audit.model import PartitionKey
from replica_audit.rows import REPLICA_LOGS, TABLES, Table
from replica_audit.rows.arrow import OUTCOMES
from replica_audit.rows.encoding import as_dict
from replica_audit.storage.warehouse.table_files import TableFiles

MADE_FILES = pa.schema([OUTCOMES.field("file")])
_TEXTS = ["run_id", "cluster_id", "topic"]
_PARTITIONS = 1 << 31  # of a topic there are fewer
_BY_NAME = {table.name: table for table in TABLES}


def copied(
    batches: Iterator[pa.RecordBatch], places: Mapping[str, str], runs: Mapping[str, str], run_id: str, gone: frozenset[PartitionKey]
) -> Iterator[pa.RecordBatch]:
    """Copy the rows of the files that `batches` names (table, path) into files of this run, but for those of partitions that are gone."""
    with TableFiles(places, run_id) as taken:
        for table, rows in _kept_rows(batches, _Kept(runs, gone)):
            taken.add(table.name, rows_of_table(table, rows))
        yield _told(taken)


def packed_kept_logs(batches: Iterator[pa.RecordBatch], runs: Mapping[str, str], gone: frozenset[PartitionKey]) -> Iterator[pa.RecordBatch]:
    """The rows of `replica_logs` that `copied` would copy, packed as of `packed_logs`."""
    return packed_logs(rows for _table, rows in _kept_rows(batches, _Kept(runs, gone)))


def moved(batches: Iterator[pa.RecordBatch], places: Mapping[str, str], run_id: str) -> Iterator[pa.RecordBatch]:
    """Write packed rows of `replica_logs`, with the moments of the looks beside them (`with_moments`), into files of this run."""
    with TableFiles(places, run_id) as taken:
        for rows in with_moments(batches):
            taken.add(REPLICA_LOGS.name, rows)
        yield _told(taken)


def _told(taken: TableFiles) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"file": as_dict(file)} for file in taken.finish()], schema=MADE_FILES)


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
