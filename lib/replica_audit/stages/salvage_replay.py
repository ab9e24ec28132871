"""The saved records of a partition → the files that replay them, in the order in which they were written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack
from heapq import merge
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from pydantic import TypeAdapter

from replica_audit.formats.salvage.saved_file import (
    UNFINISHED,
    ConsoleRecord,
    encoded_line,
    line_of,
    put_in_place,
    saved_rows,
)
from replica_audit.model.salvage import ReplayOutcome, ReplayUnit
from replica_audit.own_folder import open_anew

REPLAY_UNIT, REPLAY_OUTCOME = TypeAdapter(ReplayUnit), TypeAdapter(ReplayOutcome)
_READ = ("offset", "leader_epoch", "timestamp_ms", "key", "value", "headers", "kept_back")
_ORDER = itemgetter("leader_epoch", "offset")
_SAME = itemgetter("timestamp_ms", "key", "value", "headers")


def replayed(unit: ReplayUnit) -> ReplayOutcome:
    """Write the replay files of a partition.

    Records go to the file for the console producer up to the first one that it cannot be told; that one and all behind it go to the other,
    so that the partition's order is kept where one file is replayed after the other.

    Raises:
        OSError: a file cannot be read or written, or is there already.
    """
    duplicates = unsendable = 0
    with ExitStack() as stack:
        console = stack.enter_context(_LinesFile(Path(unit.console)))
        encoded = stack.enter_context(_LinesFile(Path(unit.encoded)))
        for row, is_repeated in _chosen(unit):
            if is_repeated:
                duplicates += 1
                continue
            headers = tuple((header["key"], header["value"]) for header in row["headers"])
            if not all(_is_text(name) for name, _value in headers):
                unsendable += 1
                continue
            record = ConsoleRecord(row["key"], row["value"], headers)
            line = None if encoded.count else line_of(record)
            if line is not None:
                console.add(line)
            else:
                encoded.add(encoded_line(unit.topic, unit.partition, row["offset"], row["timestamp_ms"], record))
        made = [file.finish() for file in (console, encoded)]
    return ReplayOutcome(
        topic=unit.topic,
        partition=unit.partition,
        saved_records=unit.saved_records,
        console=made[0],
        console_records=console.count,
        console_sha256=console.sha256,
        encoded=made[1],
        encoded_records=encoded.count,
        encoded_sha256=encoded.sha256,
        duplicates=duplicates,
        unsendable=unsendable,
    )


def _chosen(unit: ReplayUnit) -> Iterator[tuple[dict[str, Any], bool]]:
    """The records to replay in the order of their epochs and offsets, and whether one was there already, from another broker."""
    logs = [saved_rows([Path(path) for path in of_holder], _READ) for of_holder in unit.saved]
    for _place, rows in groupby(merge(*logs, key=_ORDER), key=_ORDER):
        written: list[tuple[Any, ...]] = []
        for row in rows:
            if row["kept_back"] is None or row["kept_back"] in unit.asked_for:
                content = _SAME(row)
                yield row, content in written
                written.append(content)


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


class _LinesFile:
    """A text in the making; it is there once it was finished, if it has a line. `count`: its lines; `sha256` is of what was written."""

    def __init__(self, path: Path) -> None:
        self.count = 0
        self._digest = hashlib.sha256()
        self._path, self._made = path, path.with_name(f".{path.name}{UNFINISHED}")
        self._stream: IO[str] | None = None

    def __enter__(self) -> _LinesFile:
        self._stream = os.fdopen(open_anew(self._made), "w", encoding="utf-8", newline="\n")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._stream is not None:
            self._stream.close()
        self._made.unlink(missing_ok=True)

    def add(self, line: str) -> None:
        if self._stream is not None:
            self._stream.write(f"{line}\n")
            self._digest.update(f"{line}\n".encode())
            self.count += 1

    @property
    def sha256(self) -> str:
        """Digest of all lines."""
        return self._digest.hexdigest()

    def finish(self) -> str | None:
        if self._stream is not None:
            self._stream.close()
        if not self.count:
            return None
        put_in_place(self._made, self._path)
        return str(self._path)
