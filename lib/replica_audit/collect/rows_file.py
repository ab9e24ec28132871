"""Writing `segments.parquet` and `small-files.parquet`: rows of segments are kept aside until it is known that they belong together."""

from __future__ import annotations

import io
import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar

import crc32c
import numpy as np
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from replica_audit.collect.output import abandon, writing
from replica_audit.collect.segment_capture import Listed, Read
from replica_audit.formats.collection.collected_rows import ROWS, SMALL_FILE_ROWS
from replica_audit.formats.segment.segment_scan import Scanned
from replica_audit.formats.values import producers_row

T = TypeVar("T")
SmallFileRow = tuple[int, bytes, bytes, bytes]  # capture, directory, name, content
_ROW_GROUP_BYTES = 1 << 22
_CHUNK = 1 << 20
_OF_THE_REPLICA = ("capture", "directory", "topic", "partition")


def row_content(listed: Listed, read: Read, found: Scanned, *, index_bytes: int | None, kept_crc32c: int | None) -> bytes:
    """One segment's row except the replica that it is of, as text: rows wait on disk, for those of a compacted log may be large."""
    scan = found.scan
    return json.dumps(
        {
            "name": listed.name,
            "base_offset": listed.file.base_offset,
            "swap": listed.name.endswith(".swap"),
            "size_bytes": read.size_bytes,
            "index_bytes": index_bytes,
            "identity": None if read.identity is None else asdict(read.identity),
            "verified_at_ms": read.verified_at_ms,
            "kept_crc32c": kept_crc32c,
            "batch_count": read.batch_count,
            "runs": [run._asdict() for run in scan.runs],
            "damaged": scan.damage is not None,
            "failed": found.failed,
            "problems": [asdict(problem) for problem in found.problems],
            "windows": [window._asdict() for window in scan.windows],
            "producers": None if found.failed else producers_row(scan.producers),
        }
    ).encode()


def content_of_row(row: Mapping[str, Any]) -> bytes:
    """The same of a row that is there already."""
    return json.dumps({name: value for name, value in row.items() if name not in _OF_THE_REPLICA}).encode()


class Spool:
    """Texts on disk, each at its place."""

    def __init__(self, folder: Path) -> None:
        """Keep them in a file without a name in a folder."""
        self._folder = folder
        with writing(folder):
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it lives as long as this does
        self._end = 0

    def put(self, content: bytes) -> tuple[int, int]:
        """Keep a text; returns its place."""
        with writing(self._folder):
            self._file.seek(self._end)
            self._file.write(content)
            self._file.flush()
        place = (self._end, len(content))
        self._end += len(content)
        return place

    def get(self, place: tuple[int, int]) -> bytes:
        """The text at a place."""
        self._file.seek(place[0])
        return self._file.read(place[1])

    def clear(self) -> None:
        """Forget all of them."""
        with writing(self._folder):
            self._file.truncate(0)
        self._end = 0

    def close(self) -> None:
        """Give the disk back."""
        with suppress(OSError):  # it is flushed for nothing
            self._file.close()


class _RowsInGroups(ABC, Generic[T]):
    """A Parquet file being written: rows wait until they are enough for a row group."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        with writing(path):
            self._writer = pq.ParquetWriter(str(path), schema, compression="zstd", write_page_checksum=True)
        self._pending: list[T] = []
        self._pending_bytes = 0

    @staticmethod
    @abstractmethod
    def _table(rows: Sequence[T]) -> pa.Table:
        """Some rows, at least one, in Arrow."""

    def _put(self, row: T, size: int) -> None:
        self._pending.append(row)
        self._pending_bytes += size
        if self._pending_bytes >= _ROW_GROUP_BYTES:
            self._write()

    def _write(self) -> None:
        if not self._pending:
            return
        table = self._table(self._pending)
        with writing(self._path):
            self._writer.write_table(table)
        self._pending, self._pending_bytes = [], 0

    def close(self) -> tuple[int, int]:
        """Complete the file; returns its size and the CRC-32C of all of it."""
        self._write()
        size, checksum = 0, 0
        with writing(self._path):
            self._writer.close()
            with self._path.open("rb") as stream:
                while chunk := stream.read(_CHUNK):
                    size, checksum = size + len(chunk), crc32c.crc32c(chunk, checksum)
        return size, checksum

    def abandon(self) -> None:
        """Let go of the file."""
        self._pending = []
        abandon(self._writer)


class SmallFilesFile(_RowsInGroups[SmallFileRow]):
    """The file of replicas' small files being written."""

    def __init__(self, path: Path) -> None:
        """Begin the file; `close` completes it."""
        super().__init__(path, SMALL_FILE_ROWS)

    def add(self, capture: int, directory: str, files: Mapping[str, bytes]) -> None:
        """Add the small files of a replica, by name."""
        for name, content in sorted(files.items()):
            self._put((capture, directory.encode(), name.encode(), content), len(directory) + len(content))

    @staticmethod
    def _table(rows: Sequence[SmallFileRow]) -> pa.Table:
        captures, *texts = zip(*rows, strict=True)
        numbers = pa.py_buffer(np.array(captures, np.int32).data)
        columns = [
            pa.Array.from_buffers(pa.int32(), len(captures), [None, numbers]),
            *(_of_bytes(column, field.type) for column, field in zip(texts, list(SMALL_FILE_ROWS)[1:], strict=True)),
        ]
        return pa.Table.from_arrays(columns, schema=SMALL_FILE_ROWS)


def _of_bytes(values: Sequence[bytes], kind: pa.DataType) -> pa.Array[Any]:
    """Values as an array of texts, or of bytes; `pa.array` imports pandas, to ask it whether a list is one of its own."""
    ends = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(ends.data), pa.py_buffer(b"".join(values))])


class RowsFile(_RowsInGroups[bytes]):
    """The file of the rows of segments being written."""

    def __init__(self, path: Path) -> None:
        """Begin the file; `close` completes it."""
        super().__init__(path, ROWS)

    def add(self, keys: dict[str, Any], rows: Iterable[bytes]) -> None:
        """Add the rows of a replica, each with its keys."""
        begin = json.dumps(keys).encode()[:-1] + b", "
        for row in rows:
            whole = begin + row[1:]
            self._put(whole, len(whole))

    @staticmethod
    def _table(rows: Sequence[bytes]) -> pa.Table:
        block = 2 * max(map(len, rows)) + 2  # a row that reaches over two ends of blocks would be refused
        text = io.BytesIO(b"\n".join(rows) + b"\n")
        # from text because building such rows from Python values imports pandas, to ask it whether a list is one of its own
        options = pj.ParseOptions(explicit_schema=ROWS, unexpected_field_behavior="error")
        table = pj.read_json(text, pj.ReadOptions(use_threads=False, block_size=max(block, _CHUNK)), options)
        return pa.Table.from_arrays(table.columns, schema=ROWS)
