"""Rows of tables as Parquet files in the directories of their tables, on a disk or in S3, written by the tasks that make them.

No table has such a file before a commit names it; of a task that fails none is left.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from replica_audit.files import object_store
from replica_audit.rows import TABLES
from replica_audit.rows.arrow import WrittenFile, struct_of, with_run
from replica_audit.rows.columns import Table, checker
from replica_audit.rows.encoding import RowMismatchError, as_dict

_ROW_GROUP_BYTES = 64 << 20  # of one table, kept in memory
WRITTEN = pa.schema(list(struct_of(WrittenFile)))
_BY_NAME = {table.name: table for table in TABLES}
_LONGEST_TEXT = 64  # of longer ones statistics have the beginning
_GREATEST = "\U0010ffff"  # of all characters


class TableFiles:
    """The files of one task, one for each table that it makes rows of."""

    def __init__(self, places: Mapping[str, str], run_id: str, run_date: date | None = None) -> None:
        """Take the directories of tables, by name, the run that all rows are of, and its date, unless the rows have that."""
        self._places, self._of_run = places, {"run_id": run_id, "run_date": run_date}
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
        """Take rows of a table, without the columns of their run."""
        self._pending[table].append(rows)
        self._bytes[table] += rows.get_total_buffer_size()  # nbytes reads offsets, which empty columns of Spark 3.5 lack
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
        rows = with_run(pa.Table.from_batches(self._pending.pop(table)), _BY_NAME[table], self._of_run)
        self._bytes[table] = 0
        if table not in self._open:
            self._open[table] = _TableFile(self._places[table], rows.schema)
        self._open[table].write(rows)


def written_rows(batches: Iterator[pa.RecordBatch], *, table: str, place: str, run_id: str) -> Iterator[pa.RecordBatch]:
    """Write rows of a table, all of one run, and give their files as rows of the shape WRITTEN.

    Args:
        batches: with all columns of the table but `run_id`.
        table: its name.
        place: its directory.
        run_id: the run.

    Raises:
        RowMismatchError: a row violates a check of the table, or lacks what may not be null.
        OSError: a file cannot be written.
    """
    with TableFiles({table: place}, run_id) as files:
        for batch in batches:
            _refuse_violations(_BY_NAME[table], batch)
            files.add(table, batch)
        made = files.finish()
    yield pa.RecordBatch.from_pylist([as_dict(file) for file in made], schema=WRITTEN)


def rewritten(batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, table: str, place: str) -> WrittenFile | None:
    """Write rows of a table, as they are, into a new file; None if there are no rows.

    Args:
        batches: rows that the table has, with all of its columns.
        schema: of the table.
        table: its name.
        place: its directory.

    Raises:
        OSError: the file cannot be written; nothing of it is left.
    """
    file: _TableFile | None = None
    pending: list[pa.RecordBatch] = []

    def write() -> _TableFile:
        made = file or _TableFile(place, schema)
        made.write(pa.Table.from_batches(pending, schema))
        pending.clear()
        return made

    try:
        for batch in batches:
            if batch.num_rows:
                pending.append(batch)
            if sum(each.get_total_buffer_size() for each in pending) >= _ROW_GROUP_BYTES:
                file = write()
        if pending:
            file = write()
        return None if file is None else file.close(table)
    except BaseException:
        if file is not None:
            file.discard()
        raise


def _refuse_violations(table: Table, rows: pa.RecordBatch) -> None:
    named = " ".join(table.constraints.values())
    names = [column.name for column in table.columns if column.name in rows.schema.names and (not column.nullable or column.name in named)]
    violation = checker(table)
    for row in rows.select(names).to_pylist():
        if (violated := violation(SimpleNamespace(**row))) is not None:
            raise RowMismatchError(f"table {table.name}: its check {violated!r} refuses a row")


class _TableFile:
    def __init__(self, place: str, schema: pa.Schema) -> None:
        self._name = f"part-{uuid4()}.parquet"
        self._path = f"{place.rstrip('/')}/{self._name}"
        self._rows = 0
        self._made: list[pq.FileMetaData] = []
        create = partial(object_store.created, self._path) if "://" in place else partial(Path(self._path).open, "xb")
        with self._named():
            self._stream: Any = create()
        self._writer = pq.ParquetWriter(
            self._stream, schema, compression="zstd", write_statistics=True, write_page_checksum=True, metadata_collector=self._made
        )

    def write(self, rows: pa.Table) -> None:
        with self._named():
            self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._rows += rows.num_rows

    def close(self, table: str) -> WrittenFile:
        with self._named():
            self._writer.close()
            size = self._stream.tell()
            self._stream.close()
        return WrittenFile(
            table=table,
            path=self._name,
            rows=self._rows,
            size_bytes=size,
            modified_at_ms=time.time_ns() // 1_000_000,
            # delta-rs misreads escaped characters beyond the first 65,536
            statistics=json.dumps(_statistics(self._made[0]), ensure_ascii=False),
        )

    def discard(self) -> None:
        for opened in (self._writer, self._stream):
            with suppress(OSError, pa.ArrowException):
                opened.close()
        with suppress(OSError):
            if "://" in self._path:
                object_store.remove(self._path)
            else:
                Path(self._path).unlink(missing_ok=True)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Let an error say which file it is about: that of a stream does not."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), self._path) from None


def _statistics(file: pq.FileMetaData) -> dict[str, Any]:
    """Delta's statistics of a file: of each column that holds no others the least and the greatest value, and its nulls.

    No column may lack them that has them in another file of the table: delta-rs' datasets take what is missing for null, and a filter
    passes over such files.
    """
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
        with_values = [one for one in of_groups if one.num_values]
        if not with_values:
            continue
        if all(one.has_min_max for one in with_values):
            ends: list[Any] = [end for one in with_values for end in (one.min, one.max)]
            least[name], greatest[name] = _lower_bound(min(ends)), _upper_bound(max(ends))
        elif file.schema.column(place).physical_type == "BYTE_ARRAY":  # a text so long that Parquet keeps none
            least[name], greatest[name] = "", _upper_bound(_GREATEST * (_LONGEST_TEXT + 1))
    return {"numRecords": file.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _lower_bound(value: Any) -> Any:
    """A value as Delta's JSON has it, or one that is a little less: the beginning of a long text, a time to the millisecond."""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z"
    if isinstance(value, date):
        return value.isoformat()
    return value[:_LONGEST_TEXT] if isinstance(value, str) else value


def _upper_bound(value: Any) -> Any:
    """The same, or one that is a little greater."""
    if isinstance(value, datetime):
        return _lower_bound(value + timedelta(microseconds=-value.microsecond % 1000))
    if not isinstance(value, str) or len(value) <= _LONGEST_TEXT:
        return _lower_bound(value)
    end = next((place for place in range(_LONGEST_TEXT, len(value)) if value[place] != _GREATEST), len(value))
    return value[:end] + _GREATEST
