"""One segment file of a broker that may be writing to it: scanned, indexed, or copied whole."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import crc32c
import numpy as np

from replica_audit.collect.file_identity import FileIdentity, ReadCause, identity_of
from replica_audit.collect.live_file import LiveFile
from replica_audit.collect.output import abandon, writing
from replica_audit.collect.pace import Pace
from replica_audit.collect.segment_reading import read_segment
from replica_audit.files.opened import LinkOutsideError, NotAFileError, open_in
from replica_audit.formats.indexes import IndexCheck, index_check, reader_of
from replica_audit.formats.replicas.segment_reader import Index
from replica_audit.formats.segment.batch_index import BatchIndexWriter
from replica_audit.formats.segment.segment_fold import Scan
from replica_audit.formats.segment.segment_scan import TAILS, Scanned, scanned
from replica_audit.model import BatchHeader, SegmentFile

_PAUSES = (0.05, 0.2, 0.5)
TAIL_BYTES = 1 << 12
_CHUNK = 1 << 20
FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW  # of what a collection holds


class ChangedError(Exception):
    """The file is no longer the one that was listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What is kept of a segment that was read. `inode` and the bytes before `end` tell whether it is still the same.

    The time of its last change does not: it is that of the last tick of a clock, in which a broker does a lot.

    `was_newest`: it was read as far as it went when it was listed. `next_offset` is the one behind its last batch, -1 where its row is of
    an earlier collection. `cause`: why it was read though there is one. `failed` is why it could not be read. `identity` is for the next
    collection, None where that has to read it again in any case; `verified_at_ms` when its CRCs were last verified, if ever.
    """

    inode: int
    end: int
    tail_bytes: int
    tail_crc32c: int
    size_bytes: int
    batch_count: int
    was_newest: bool
    failed: str | None
    identity: FileIdentity | None = None
    verified_at_ms: int | None = None
    next_offset: int = -1
    cause: ReadCause | None = None

    @property
    def is_reused(self) -> bool:
        """Whether its row is of an earlier collection."""
        return self.next_offset < 0

    def still_holds(self, now: os.stat_result, name: str, directory: int) -> bool:
        """Whether what was read is still there: all that there is, or of the newest segment the beginning of more."""
        if now.st_ino != self.inode or now.st_size < self.end or not (self.was_newest or now.st_size == self.size_bytes):
            return False
        if self.failed:
            return True
        try:
            fd = open_in(directory, name)
        except OSError:
            return False
        try:
            tail = os.pread(fd, self.tail_bytes, self.end - self.tail_bytes)
            return len(tail) == self.tail_bytes and crc32c.crc32c(tail) == self.tail_crc32c
        finally:
            os.close(fd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A segment to be read: its name in an open directory, and the file that rows name.

    `beside`: how the names of its index files end.
    """

    name: str
    directory: int
    status: os.stat_result
    file: SegmentFile
    is_newest: bool
    beside: tuple[str, ...] = ()


class SegmentCapture:
    """Captures segments one after the other. `is_live`: a broker is at work in the log directory."""

    def __init__(self, pace: Pace, *, verify_crc: bool, is_live: bool) -> None:
        self.is_live = is_live
        self._pace, self._verify_crc = pace, verify_crc

    def capture(self, listed: Listed, *, index: Path | None, copy: Path | None) -> tuple[Read, Scanned]:
        """Read one segment.

        What looks wrong is looked at again as long as the file changes, so that what is told to be wrong is.

        Args:
            listed: the segment. The newest is read as far as it went when it was listed.
            index: where the index of its batches goes.
            copy: where a copy of it goes.

        Returns:
            What is to be kept of it, and its scan, which may be large.

        Raises:
            FileNotFoundError: it is gone.
            ChangedError: it is another file now.
            NotAFileError, LinkOutsideError: as of `open_in`.
            OutputError: the index or the copy cannot be written.
        """
        for pause in (*_PAUSES, None):
            read, found, is_settled = self._attempt(listed, index, copy)
            if is_settled or pause is None:
                return read, found
            time.sleep(pause)
        raise AssertionError("the last attempt returns")

    def _attempt(self, listed: Listed, index: Path | None, copy: Path | None) -> tuple[Read, Scanned, bool]:
        began_ns = time.time_ns()
        try:
            fd = open_in(listed.directory, listed.name)
        except (FileNotFoundError, NotAFileError, LinkOutsideError):
            raise
        except OSError as error:
            return *self._failed(listed, error), True
        with LiveFile(fd, 0, self._pace, is_hot=listed.is_newest, is_sequential=self._verify_crc or copy is not None) as file:
            status = os.fstat(fd)
            if status.st_ino != listed.status.st_ino:
                raise ChangedError
            # one that was made longer in advance becomes shorter when it is rolled
            file.size = min(listed.status.st_size, status.st_size) if listed.is_newest else status.st_size
            read, found, is_settled = self._read(listed, file, status, index, copy)
            is_verified = self._verify_crc and not found.failed  # of a damaged one as far as it can be read
            # the newest is read as if it ended well, so that it is read again once another is the newest
            identity = None if listed.is_newest or found.failed else identity_of(fd, status, began_ns)
            return replace(read, identity=identity, verified_at_ms=began_ns // 1_000_000 if is_verified else None), found, is_settled

    def _read(
        self, listed: Listed, file: LiveFile, status: os.stat_result, index: Path | None, copy: Path | None
    ) -> tuple[Read, Scanned, bool]:
        ends: list[int] = []

        def scan(_file: SegmentFile) -> Scan:
            if copy is not None:
                copy_file(file, copy)
                with LiveFile(os.open(copy, FLAGS), file.size, Pace(None)) as copied:
                    return self._scan(copied, listed, None, ends)
            return self._scan(file, listed, index, ends)

        found = scanned(listed.file, scan)
        now = os.fstat(file.fileno())
        has_changed = (now.st_size, now.st_mtime_ns) != (listed.status.st_size, listed.status.st_mtime_ns)
        if found.scan.damage and found.scan.damage.code in TAILS and listed.is_newest and (self.is_live or has_changed):
            # a batch that is being written, or room for those to come: the log ends before it
            kept = replace(found.scan, damage=None)
            found = scanned(listed.file, lambda _file: kept)
        end = ends[0] if ends else 0
        tail = os.pread(file.fileno(), min(TAIL_BYTES, end), max(0, end - TAIL_BYTES)) if end else b""
        looks_wrong = found.scan.damage is not None or found.scan.went_back is not None or found.scan.first_bad_crc is not None
        is_settled = not (looks_wrong and (has_changed or (self.is_live and listed.is_newest)))
        return _as_read(listed, status, found, size_bytes=file.size, end=end, tail=tail), found, is_settled

    def _scan(self, file: LiveFile, listed: Listed, index: Path | None, ends: list[int]) -> Scan:
        check = None
        if listed.beside and self._verify_crc:  # before the segment: a broker writes an entry after the batch that it names
            check = index_check(listed.file.base_offset, listed.beside, partial(_opened_beside, listed), reads_markers=True)
        if index is None:
            fold = read_segment(file, listed.file.base_offset, check, verify_crc=self._verify_crc)
        else:
            writer = _IndexWriter(index)
            try:
                sink = writer if check is None else _BatchSinks(writer, check)
                fold = read_segment(file, listed.file.base_offset, sink, verify_crc=self._verify_crc)
            except BaseException:
                writer.abandon()
                raise
            writer.close()
        ends.append(fold.position)
        found = fold.scan()
        if check is None:
            return found
        return replace(found, index_problems=tuple(check.problems(listed.file.path, found, reader_of(file.fileno()))))

    @staticmethod
    def _failed(listed: Listed, error: OSError) -> tuple[Read, Scanned]:
        def fail(_file: SegmentFile) -> Scan:
            raise error

        found = scanned(listed.file, fail)
        return _as_read(listed, listed.status, found, size_bytes=listed.status.st_size, end=0, tail=b""), found


def _as_read(listed: Listed, status: os.stat_result, found: Scanned, *, size_bytes: int, end: int, tail: bytes) -> Read:
    return Read(
        inode=status.st_ino,
        end=end,
        tail_bytes=len(tail),
        tail_crc32c=crc32c.crc32c(tail),
        size_bytes=size_bytes,
        batch_count=sum(run.batch_count for run in found.scan.runs),
        was_newest=listed.is_newest,
        failed=found.problems[0].detail if found.failed else None,
        next_offset=found.scan.runs[-1].last_offset + 1 if found.scan.runs else listed.file.base_offset,
    )


def _opened_beside(listed: Listed, suffix: str) -> BinaryIO:
    name = listed.name.removesuffix(".log") + suffix
    return os.fdopen(open_in(listed.directory, name), "rb", buffering=0)


class _BatchSinks:
    """Hands headers to the index of batches and to the check of the broker's own."""

    def __init__(self, writer: BatchIndexWriter, check: IndexCheck) -> None:
        self._takers: tuple[Index, ...] = (writer, check)

    def add(self, header: BatchHeader) -> None:
        for taker in self._takers:
            taker.add(header)

    def add_columns(self, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        for taker in self._takers:
            taker.add_columns(columns)


class _IndexWriter(BatchIndexWriter):
    """Tells what cannot be written from what cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with writing(path):
            super().__init__(path)

    def _write(self) -> None:
        with writing(self._path):
            super()._write()

    def close(self) -> None:
        with writing(self._path):
            super().close()

    def abandon(self) -> None:
        self.stop()
        abandon(self._writer)


def copy_file(file: LiveFile, to: Path) -> None:
    """Copy a file from its beginning, in bounded memory.

    Raises:
        OSError: it cannot be read.
        OutputError: the copy cannot be written.
    """
    file.seek(0)
    buffer = bytearray(_CHUNK)
    with writing(to):
        stream = to.open("wb")
    with stream:
        while count := file.readinto(buffer):
            with writing(to):
                stream.write(memoryview(buffer)[:count])
