"""Saved records: as Parquet with one row for each record, and as lines that kafka-console-producer.sh reads back."""

from __future__ import annotations

import errno
import json
import os
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

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


# Records as lines that kafka-console-producer.sh reads back as the same records.
# Source: LineMessageReader (tools, 4.0; ConsoleProducer of 3.9 has the same rules). It decodes lines as UTF-8, ends one at every CR and
# LF, splits at the first separator that it meets, and knows no escape: what it would read back as something else is not a line.

HEADERS_DELIMITER, HEADERS_SEPARATOR, HEADER_KEY_SEPARATOR, KEY_SEPARATOR = "~~H~~", "~~,~~", "~~=~~", "~~K~~"
NULL_MARKER = "~~null~~"
# of the file for --reader-config; headers.separator is a regular expression, so none of them has a character that means something in one
READER_CONFIG = {
    "parse.key": "true",
    "parse.headers": "true",
    "headers.delimiter": HEADERS_DELIMITER,
    "headers.separator": HEADERS_SEPARATOR,
    "headers.key.separator": HEADER_KEY_SEPARATOR,
    "key.separator": KEY_SEPARATOR,
    "null.marker": NULL_MARKER,
}
_LINE_ENDS = ("\n", "\r")


class ConsoleRecord(NamedTuple):
    """A record as the console producer sends it: without offset, partition and timestamp."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def line_of(record: ConsoleRecord) -> str | None:
    """The line, without its end, that is read back as this record; None if there is none."""
    try:
        headers = HEADERS_SEPARATOR.join(f"{name.decode()}{HEADER_KEY_SEPARATOR}{_text(value)}" for name, value in record.headers)
        key, value = _text(record.key), _text(record.value)
    except UnicodeDecodeError:
        return None
    line = f"{headers if record.headers else NULL_MARKER}{HEADERS_DELIMITER}{key}{KEY_SEPARATOR}{value}"
    if any(end in line for end in _LINE_ENDS):
        return None
    return line if parsed(line) == record else None


def _text(value: bytes | None) -> str:
    return NULL_MARKER if value is None else value.decode()


def parsed(line: str) -> ConsoleRecord | None:
    """What the console producer makes of a line; None where it stops with an error."""
    headers, found, rest = line.partition(HEADERS_DELIMITER)
    key, found_too, value = rest.partition(KEY_SEPARATOR)
    if not found or not found_too:
        return None
    pairs = [] if headers == NULL_MARKER else _split(headers)
    named = [pair.partition(HEADER_KEY_SEPARATOR) for pair in pairs]
    if any(not separator or name == NULL_MARKER for name, separator, _ in named):
        return None
    return ConsoleRecord(_bytes(key), _bytes(value), tuple((name.encode(), _bytes(told)) for name, _, told in named))


def _split(headers: str) -> Sequence[str]:
    """As Pattern.split: empty parts at the end are dropped, and of nothing there is one, which is empty."""
    parts = headers.split(HEADERS_SEPARATOR)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def _bytes(text: str) -> bytes | None:
    return None if text == NULL_MARKER else text.encode()


# Records as lines of JSON with their bytes in base64: for those that are no lines of a console producer.


def encoded_line(topic: str, partition: int, offset: int, timestamp_ms: int, record: ConsoleRecord) -> str:
    """The line, without its end, of a record that was at this place. A timestamp of -1: it had none."""
    return json.dumps(
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp_ms": timestamp_ms,
            "key": _encoded(record.key),
            "value": _encoded(record.value),
            "headers": [[name.decode(), _encoded(value)] for name, value in record.headers],
        }
    )


def _encoded(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()
