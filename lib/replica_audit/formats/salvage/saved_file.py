"""Files of saved records: Parquet with one row for each record, written whole or not at all, and never over another one."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from replica_audit.formats.values import Row
from replica_audit.own_folder import open_anew

_HEADERS = pa.list_(pa.struct([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())]))
_BIGINT, _INT, _TEXT = pa.int64(), pa.int32(), pa.string()
_COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("cluster_id", _TEXT, "cluster"),
    ("topic", _TEXT, "topic"),
    ("partition", _INT, "partition"),
    ("broker_id", _INT, "broker whose replica holds the record, and whose cut removes it"),
    ("leader_id", _INT, "leader that the replica is cut for"),
    ("offset", _BIGINT, "offset in that replica"),
    ("leader_epoch", _INT, "leader epoch of the batch; -1: the format has none"),
    ("timestamp_ms", _BIGINT, "timestamp; -1: none"),
    ("timestamp_type", _TEXT, "create (the producer's), append (the broker's) or none"),
    ("key", pa.binary(), "key; null: none"),
    ("value", pa.binary(), "value; null: none, which deletes the key of a compacted topic"),
    ("headers", _HEADERS, "headers in their order"),
    ("producer_id", _BIGINT, "producer id; -1: none"),
    ("producer_epoch", _INT, "producer epoch; -1: none"),
    ("sequence", _INT, "the record's sequence; -1: none"),
    (
        "transaction",
        _TEXT,
        "none, committed, aborted or open, by the markers in this replica's log; unknown: by a marker that cannot be read",
    ),
    (
        "transaction_first_offset",
        _BIGINT,
        "first record of its transaction in this log; below the cut where a part of it stays; null: not known",
    ),
    ("transaction_marker_offset", _BIGINT, "marker that ends it; null: there is none"),
    ("magic", _INT, "format of the batch: 0, 1 or 2"),
    ("on_leader", _TEXT, "what the leader has: same, resent, other (at this offset), missing, below-log-start or unknown"),
    ("resent_offset", _BIGINT, "where the leader has the producer's retry of it; null: nowhere"),
    ("newer_offset", _BIGINT, "the newest record of this key where the leader's log differs; null: none"),
    ("newer_leader_epoch", _INT, "its leader epoch; -1: none"),
    ("newer_timestamp_ms", _BIGINT, "its timestamp; -1: none"),
    ("kept_back", _TEXT, "why it is not in the replay file unless asked for; null: it is there"),
)
NULLABLE = {
    *("key", "value", "transaction_first_offset", "transaction_marker_offset", "resent_offset"),
    *("newer_offset", "newer_leader_epoch", "newer_timestamp_ms", "kept_back"),
}
SAVED = pa.schema([pa.field(name, kind, nullable=name in NULLABLE, metadata={"comment": comment}) for name, kind, comment in _COLUMNS])
_OUTCOME = b"salvage.outcome"
_GROUP_BYTES, _GROUP_ROWS = 8 << 20, 1 << 16  # of a row group: whoever reads holds one of them
UNFINISHED = ".unfinished"
_WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # what file systems say that have none


class SavedFile:
    """A file in the making; a context manager. It is there once `finish` was called, and what was not finished is removed."""

    def __init__(self, path: Path) -> None:
        """Nothing is written yet."""
        self._path, self._made = path, path.with_name(f".{path.name}{UNFINISHED}")
        self._writer: pq.ParquetWriter | None = None
        self._stream: IO[bytes] | None = None
        self._rows: list[Row] = []
        self._bytes = 0

    def __enter__(self) -> SavedFile:
        """Begin; what a killed process left of it is written again.

        Raises:
            OSError: it cannot be written.
        """
        statistics = [field.name for field in SAVED if field.name in ("offset", "leader_epoch", "timestamp_ms")]
        of_values: Any = ["topic", "cluster_id"]
        self._stream = os.fdopen(open_anew(self._made), "wb")
        self._writer = pq.ParquetWriter(
            self._stream, SAVED, compression="zstd", use_dictionary=of_values, write_statistics=statistics, write_page_checksum=True
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Remove what was not finished."""
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):
                self._writer.close()
            with suppress(OSError):
                self._close()
            self._made.unlink(missing_ok=True)

    def add(self, row: Row, size: int) -> None:
        """Take a record of so many bytes."""
        self._rows.append(row)
        self._bytes += size
        if self._bytes >= _GROUP_BYTES or len(self._rows) >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._rows and self._writer is not None:
            self._writer.write_batch(pa.RecordBatch.from_pylist(self._rows, schema=SAVED))
            self._rows, self._bytes = [], 0

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def finish(self, outcome: str) -> None:
        """Put the file in its place, with what came of the work.

        Raises:
            OSError: it cannot be written, or there is a file.
        """
        self._flush()
        if self._writer is None:
            raise ValueError("finished before it was begun")
        self._writer.add_key_value_metadata({_OUTCOME: outcome.encode()})  # type: ignore[dict-item]
        writer, self._writer = self._writer, None
        try:
            writer.close()
            self._close()
            put_in_place(self._made, self._path)
        finally:
            self._made.unlink(missing_ok=True)


def put_in_place(made: Path, path: Path) -> None:
    """Give a file that was made its name, once all of it is on the disk.

    Raises:
        FileExistsError: something has the name.
        OSError: it cannot be written.
    """
    descriptor = os.open(made, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(made, path)  # which `rename` would replace
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        made.rename(path)
        return
    made.unlink()


def outcome_of(path: Path) -> str | None:
    """What came of the work whose file this is; None if there is no such file.

    Raises:
        OSError: it cannot be read, or is not one of these files.
    """
    if not path.exists():
        return None
    try:
        found = (pq.read_metadata(str(path)).metadata or {}).get(_OUTCOME)
    except PermissionError:
        raise
    except (pa.ArrowException, OSError):  # what a disk kept of it
        found = None
    if found is None:
        raise FileExistsError(errno.EEXIST, "it is not a file of a salvage, or damaged", str(path))
    return found.decode()


def saved_rows(paths: Sequence[Path], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Some columns of the records of files, in their order; a row group at a time is held.

    Raises:
        OSError: one cannot be read.
    """
    for path in paths:
        try:
            with pq.ParquetFile(str(path), page_checksum_verification=True) as file:
                for group in range(file.num_row_groups):
                    yield from file.read_row_group(group, columns=list(names)).to_pylist()
        except PermissionError:
            raise
        except (pa.ArrowException, OSError) as error:  # what a disk kept of it
            why = " ".join(str(error).split())[:200].rstrip(".")
            raise FileExistsError(errno.EEXIST, f"it is damaged ({why})", str(path)) from None
