"""One replica directory of a running broker, as it was at one instant or close to it.

The small files are read and the directory is listed; then the segments are read, the newest as far as it went when it was listed.
Meanwhile the broker appends, rolls, deletes from the bottom: what was read stays what it was. It may also truncate, or replace what it
compacted: then the directory is looked at again, and what is no longer there is read again, until nothing that was read has changed.

The epoch table is read before the segments, for the audit excuses a table that is older than its log (a running broker knows the epochs of
its batches), but has no excuse for one that is newer: entries that the batches contradict.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from replica_audit.collect.rows_file import Spool
from replica_audit.collect.segment_capture import ChangedError, Listed, Read
from replica_audit.collect.segment_rows import SegmentRows
from replica_audit.errors import CheckpointError
from replica_audit.files.opened import LinkOutsideError, NotAFileError, open_folder, open_in
from replica_audit.formats.collection.manifest import Unread
from replica_audit.formats.log_dir import checkpoints
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.small_files import TooLargeError, limit_of
from replica_audit.model import SegmentFile

_ROUNDS = 6
_PAUSE = 0.05  # before the second round; each is four times as long as the one before
SMALL_FILES = (log_dir.EPOCH_CHECKPOINT, log_dir.PARTITION_METADATA)


class GoneError(Exception):
    """The directory was deleted or renamed while it was read."""


class _View(NamedTuple):
    """A directory at one instant: the small files, why some cannot be read, the segments by name, and all names."""

    small: dict[str, bytes]
    unread: dict[str, str]
    segments: dict[str, os.stat_result]
    taken_at_ms: int
    names: frozenset[str]


@dataclass(slots=True)
class ReplicaCapture:
    """What was captured of a replica. `places` are those of its segments' rows in the spool, by name."""

    directory: str
    inode: int
    taken_at_ms: int
    small: dict[str, bytes]
    unread: list[Unread] = field(default_factory=list)
    reads: dict[str, Read] = field(default_factory=dict)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    is_settled: bool = True

    @property
    def verified_at_ms(self) -> int | None:
        """When the CRCs of the segment were verified whose last check is the oldest; None: of one they never were, or there is none."""
        known = [read.verified_at_ms for read in self.reads.values() if not read.failed]
        return None if None in known else min((time for time in known if time is not None), default=None)


class ReplicaReader:
    """Captures replica directories of one log directory."""

    def __init__(self, path: Path, segments: SegmentRows, spool: Spool) -> None:
        """Capture from the log directory `path`."""
        self._path, self._segments, self._spool = path, segments, spool

    def capture(self, directory: str, *, is_copied: bool) -> ReplicaCapture:
        """Capture one replica directory, its segments copied whole or indexed.

        Raises:
            GoneError: it is not there, or no longer.
            OutputError: it cannot be written.
        """
        path = self._path / directory
        try:
            with _opened(path) as fd:
                return self._settle(fd, path, is_copied=is_copied)
        except (FileNotFoundError, NotADirectoryError):
            raise GoneError from None
        except OSError as error:
            unread = Unread(path=str(path), kind="directory", reason=error.strerror or str(error))
            return ReplicaCapture(directory=directory, inode=-1, taken_at_ms=now_ms(), small={}, unread=[unread])

    def _settle(self, fd: int, path: Path, *, is_copied: bool) -> ReplicaCapture:
        made = ReplicaCapture(directory=path.name, inode=os.fstat(fd).st_ino, taken_at_ms=0, small={})
        for attempt in range(_ROUNDS):
            if attempt:
                time.sleep(_PAUSE * 4 ** (attempt - 1))
            view = _view(fd)
            self._forget_changed(made, view, fd)
            missed = self._read_new(made, view, path, fd, is_copied=is_copied)
            _check_unmoved(path, made.inode)
            made.is_settled = self._holds(made, view, missed, fd)
            # a directory is made before its first segment
            if made.is_settled and (made.reads or made.unread or not self._segments.is_live):
                break
        made.taken_at_ms, made.small = view.taken_at_ms, view.small
        made.unread += [Unread(path=str(path / name), kind=name, reason=reason) for name, reason in view.unread.items()]
        return made

    def _forget_changed(self, made: ReplicaCapture, view: _View, fd: int) -> None:
        for name, read in list(made.reads.items()):
            now = view.segments.get(name)
            # what has been written since to the end of the log belongs to this view of it
            if now is None or read.was_newest or not read.still_holds(now, name, fd):
                self._forget(made, name)

    def _forget(self, made: ReplicaCapture, name: str) -> None:
        made.reads.pop(name, None)
        made.places.pop(name, None)
        self._segments.forget(made.directory, name)

    def _read_new(self, made: ReplicaCapture, view: _View, path: Path, fd: int, *, is_copied: bool) -> set[str]:
        """Read what has not been read yet; returns the names that had gone or changed before they could be."""
        missed = set()
        made.unread = []
        newest = max((base_of(name) for name in view.segments), default=-1)
        for name, status in sorted(view.segments.items()):
            if name in made.reads:
                continue
            base = base_of(name)
            file = SegmentFile(path=str(path / name), source="raw", base_offset=base, size_bytes=status.st_size)
            beside = tuple(suffix for suffix in log_dir.INDEXES if name.removesuffix(".log") + suffix in view.names)
            listed = Listed(name=name, directory=fd, status=status, file=file, is_newest=base == newest, beside=beside)
            try:
                made.reads[name], row = self._segments.make(made.directory, listed, is_copied=is_copied)
                made.places[name] = self._spool.put(row)
            except (FileNotFoundError, ChangedError):
                self._forget(made, name)
                missed.add(name)
            except (NotAFileError, LinkOutsideError) as error:
                made.unread.append(Unread(path=str(path / name), kind="segment", reason=str(error.strerror)))
        return missed

    def _holds(self, made: ReplicaCapture, view: _View, missed: set[str], fd: int) -> bool:
        """Whether what was read is of one log: it is all still there, except what was deleted from the bottom."""
        now = _view(fd)
        if view.small.keys() != now.small.keys() or not only_grew(*(one.small.get(log_dir.EPOCH_CHECKPOINT) for one in (view, now))):
            return False
        if view.small.get(log_dir.PARTITION_METADATA) != now.small.get(log_dir.PARTITION_METADATA):
            return False
        lowest = min(map(base_of, now.segments), default=None)
        for name in missed:
            if name in now.segments or lowest is None or base_of(name) >= lowest:
                return False
        deleted_to = max(map(base_of, missed), default=-1)
        for name, read in list(made.reads.items()):
            if base_of(name) <= deleted_to:
                self._forget(made, name)  # below a hole
            elif name in now.segments:
                if not read.still_holds(now.segments[name], name, fd):
                    return False
            elif lowest is None or base_of(name) >= lowest:
                return False
        # listing a directory may show what was made last, and not what was made before it
        highest = max(map(base_of, made.reads), default=-1)
        no_files = {Path(one.path).name for one in made.unread}
        return not any(base_of(name) <= highest and name not in made.reads and name not in no_files for name in now.segments)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    fd = open_folder(path)
    try:
        yield fd
    finally:
        os.close(fd)


def _check_unmoved(path: Path, inode: int) -> None:
    try:
        is_there = path.stat().st_ino == inode
    except OSError:
        is_there = False
    if not is_there:
        raise GoneError


def base_of(name: str) -> int:
    """The base offset in the name of a segment; -1 of another name."""
    found = log_dir.segment_name(name)
    return found.base_offset if found else -1


def now_ms() -> int:
    """Now, in milliseconds."""
    return time.time_ns() // 1_000_000


def _view(fd: int) -> _View:
    """Look at a directory: its small files before its segments."""
    small, unread = read_small_files(fd, SMALL_FILES)
    taken_at_ms = now_ms()
    names = os.listdir(fd)
    segments = {}
    for name, _parsed in log_dir.counted_segments([name for name in names if name.isprintable()]):
        with suppress(FileNotFoundError):
            segments[name] = os.stat(name, dir_fd=fd)
    return _View(small, unread, segments, taken_at_ms, frozenset(names))


def read_small_files(fd: int, names: tuple[str, ...]) -> tuple[dict[str, bytes], dict[str, str]]:
    """Small files of a directory by name, and why some cannot be read; those that are not there are in neither."""
    found, unread = {}, {}
    for name in names:
        try:
            with os.fdopen(open_in(fd, name), "rb") as stream:
                limit = limit_of(name)
                content = stream.read(limit + 1) if os.fstat(stream.fileno()).st_size <= limit else None
                if content is None or len(content) > limit:
                    raise TooLargeError(limit)
                found[name] = content
        except FileNotFoundError:
            continue
        except OSError as error:
            unread[name] = error.strerror or str(error)
    return found, unread


def only_grew(before: bytes | None, after: bytes | None) -> bool:
    """Whether an epoch table only got entries at its end and lost some at its start; a truncation takes from its end."""
    if before == after:
        return True
    try:
        old, new = ({line.epoch: line.start_offset for line in checkpoints.leader_epoch_lines(table or b"")} for table in (before, after))
    except CheckpointError:
        return False
    return _only_grew(old, new)


def _only_grew(old: Mapping[int, int], new: Mapping[int, int]) -> bool:
    first = min(new, default=None)
    if first is None:
        return not old
    # the entry that covers the log start moves up with it
    return all(
        epoch < first or (new.get(epoch, -1) >= start if epoch == first else new.get(epoch) == start) for epoch, start in old.items()
    )
