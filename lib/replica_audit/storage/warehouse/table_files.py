"""Rows of tables as Parquet files in the directories of their tables, written by the tasks that make them.

No table has such a file before a commit names it; of a task that fails none is left.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from replica_audit.rows.arrow import STRING, WrittenFile

_ROW_GROUP_BYTES = 64 << 20  # of one table, kept in memory
_LONGEST_TEXT = 64  # Delta looks at the beginning of longer ones only


class TableFiles:
    """The files of one task, one for each table that it makes rows of."""

    def __init__(self, places: Mapping[str, str], run_id: str) -> None:
        """Take the directories of tables, by name, and the run that all rows are of."""
        self._places, self._run_id = places, run_id
        self._pending: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        self._bytes: dict[str, int] = defaultdict(int)
        self._open: dict[str, _TableFile] = {}

    def __enter__(self) -> TableFiles:
        """Begin; a file is made when its first rows are written."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Take away what was written, if it was for nothing."""
        if error is not None:
            for file in self._open.values():
                file.discard()

    def add(self, table: str, rows: pa.RecordBatch) -> None:
        """Take rows of a table, without `run_id`."""
        self._pending[table].append(rows)
        self._bytes[table] += rows.nbytes
        if self._bytes[table] >= _ROW_GROUP_BYTES:
            self._write(table)

    def finish(self) -> list[WrittenFile]:
        """Write what is left; every file is whole then.

        Raises:
            OSError: a place cannot be written; names the file.
        """
        for table in [name for name, batches in self._pending.items() if batches]:
            self._write(table)
        return [file.close(table) for table, file in self._open.items()]

    def _write(self, table: str) -> None:
        rows = pa.Table.from_batches(self._pending.pop(table))
        rows = rows.add_column(0, pa.field("run_id", STRING, nullable=False), pa.repeat(self._run_id, rows.num_rows))
        self._bytes[table] = 0
        if table not in self._open:
            self._open[table] = _TableFile(Path(self._places[table]), rows.schema)
        self._open[table].write(rows)


class _TableFile:
    def __init__(self, place: Path, schema: pa.Schema) -> None:
        self._path = place / f"part-{uuid4()}.parquet"
        self._rows = 0
        with self._named():
            self._stream = self._path.open("xb")
        self._writer = pq.ParquetWriter(self._stream, schema, compression="zstd", write_statistics=True, write_page_checksum=True)

    def write(self, rows: pa.Table) -> None:
        with self._named():
            self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._rows += rows.num_rows

    def close(self, table: str) -> WrittenFile:
        with self._named():
            self._writer.close()
            size = self._stream.tell()
            self._stream.close()
        with pq.ParquetFile(self._path) as written:
            statistics = _statistics(written.metadata)
        return WrittenFile(
            table=table,
            path=self._path.name,
            rows=self._rows,
            size_bytes=size,
            modified_at_ms=time.time_ns() // 1_000_000,
            statistics=json.dumps(statistics),
        )

    def discard(self) -> None:
        with suppress(OSError, pa.ArrowException):
            self._stream.close()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Let an error say which file it is about: that of a stream does not."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), str(self._path)) from None


def _statistics(file: pq.FileMetaData) -> dict[str, Any]:
    """Delta's statistics of a file: of each column that is a number or a short text the least and the greatest value, and its nulls."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = [file.row_group(number) for number in range(file.num_row_groups)]
    for place in range(file.num_columns):
        name = file.schema.column(place).path
        of_groups = [found for group in groups if (found := group.column(place).statistics) is not None]
        if "." in name or len(of_groups) < len(groups):
            continue
        nulls[name] = sum(one.null_count or 0 for one in of_groups)
        ends: list[Any] = [end for one in of_groups if one.num_values for end in ((one.min, one.max) if one.has_min_max else (None,))]
        if ends and all(map(_is_told, ends)):
            least[name], greatest[name] = min(ends), max(ends)
    return {"numRecords": file.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _is_told(value: object) -> bool:
    return type(value) is int or (isinstance(value, str) and len(value) <= _LONGEST_TEXT)
