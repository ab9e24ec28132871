"""Reuse of an earlier collection for segments whose files did not change: the row, and the batch index or the copy beside it.

Files are linked where possible, else copied, so that the earlier collection can be deleted. A linked file is never written to.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import crc32c

from replica_audit.collect.file_identity import END_BYTES, FileIdentity, ReadCause, difference, digest, end_positions
from replica_audit.collect.live_file import LiveFile
from replica_audit.collect.output import writing
from replica_audit.collect.pace import Pace
from replica_audit.collect.previous_rows import PreviousRows, PreviousSegment
from replica_audit.collect.rows_file import content_of_row
from replica_audit.collect.scrub import Scrub
from replica_audit.collect.segment_capture import FLAGS, TAIL_BYTES, Listed, Read, copy_file
from replica_audit.files.opened import open_in

_CHUNK = 1 << 20


def link_or_copy(old: Path, new: Path, size: int | None, checksum: int | None) -> bool:
    """Link or copy a file of the earlier collection; return False, and leave nothing, if it is not what was collected.

    Raises:
        OutputError: it cannot be written.
    """
    with writing(new):
        new.unlink(missing_ok=True)
    try:
        if not stat.S_ISREG(old.lstat().st_mode):
            return False
        try:
            os.link(old, new)
        except OSError:  # another file system, one without links, too many of them, or another user's file
            with LiveFile(os.open(old, FLAGS), old.stat().st_size, Pace(None)) as file:
                copy_file(file, new)
        if new.stat().st_size == size and checksum_of(new) == checksum:
            return True
    except OSError:
        pass  # gone or unreadable
    with writing(new):
        new.unlink(missing_ok=True)
    return False


def checksum_of(path: Path) -> int:
    """The CRC-32C of a file of a collection.

    Raises:
        OSError: it cannot be read.
    """
    checksum, buffer = 0, bytearray(_CHUNK)
    with LiveFile(os.open(path, FLAGS), path.stat().st_size, Pace(None)) as file:
        while count := file.readinto(buffer):
            checksum = crc32c.crc32c(memoryview(buffer)[:count], checksum)
    return checksum


class SegmentReuse:
    """Reuses segments of one log directory."""

    def __init__(self, rows: PreviousRows | None, pace: Pace, scrub: Scrub | None, *, verify_crc: bool) -> None:
        """Reuse the rows of an earlier collection.

        Args:
            rows: of the earlier collection; None if there is none.
            pace: to read the segments' ends at.
            scrub: which segments are to be verified again; None: none.
            verify_crc: whether segments have to be those of which CRCs were verified.
        """
        self._rows, self._pace, self._scrub, self._verify_crc = rows, pace, scrub, verify_crc

    def rank(self, directory: str) -> int:
        """Sort key of a replica directory, as `Scrub.rank`."""
        return self._scrub.rank(self._rows.path, directory) if self._scrub is not None and self._rows is not None else 0

    def reuse(self, directory: str, listed: Listed, *, index: Path | None, copy: Path | None) -> tuple[Read, bytes] | ReadCause:
        """Reuse a segment, and return what reading it would have given, with its row; or return why it has to be read.

        Args:
            directory: of the replica.
            listed: the segment.
            index: where the index of its batches belongs, in a folder that is there; None: nowhere.
            copy: where its copy belongs, the same.

        Raises:
            FileNotFoundError: the segment is gone.
            OutputError: the index or the copy cannot be written.
        """
        if listed.is_newest:
            return ReadCause.NEWEST
        if self._rows is None:
            return ReadCause.NO_PREVIOUS
        before = self._rows.of(directory).get(listed.name)
        if before is None:
            return ReadCause.NEW
        cause = self._unusable_cause(before, index, copy) or self._due_cause(directory, before) or self._changed_cause(before, listed)
        if isinstance(cause, ReadCause):
            return cause
        try:
            row = self._rows.row(directory, before)
        except OSError:
            return ReadCause.DAMAGED
        kept = index or copy
        if kept is not None:
            old = self._rows.index(directory, before) if index is not None else self._rows.copy(directory, before)
            if not link_or_copy(old, kept, before.index_bytes if index is not None else before.size_bytes, before.kept_crc32c):
                return ReadCause.DAMAGED
        else:
            row |= {"index_bytes": None, "kept_crc32c": None}
        read = Read(
            inode=listed.status.st_ino,
            end=before.size_bytes,
            tail_bytes=len(cause),
            tail_crc32c=crc32c.crc32c(cause),
            size_bytes=before.size_bytes,
            batch_count=row["batch_count"],
            was_newest=False,
            failed=None,
            identity=before.identity,
            verified_at_ms=before.verified_at_ms,
        )
        return read, content_of_row(row)

    def _unusable_cause(self, before: PreviousSegment, index: Path | None, copy: Path | None) -> ReadCause | None:
        """Return why the earlier row cannot be used, whether or not the file changed."""
        if before.has_problems:
            return ReadCause.PROBLEMS
        if before.identity is None:
            return ReadCause.WAS_NEWEST
        if not before.identity.was_at_rest:
            return ReadCause.NOT_AT_REST
        has_index = before.index_bytes is not None
        has_copy = before.kept_crc32c is not None and not has_index
        if (index is not None and not has_index) or (copy is not None and not has_copy):
            return ReadCause.OPTIONS
        if self._verify_crc and before.verified_at_ms is None:
            return ReadCause.OPTIONS
        return None

    def _due_cause(self, directory: str, before: PreviousSegment) -> ReadCause | None:
        """Return DUE if the segment is to be verified again."""
        if self._scrub is None or self._rows is None:
            return None
        return ReadCause.DUE if self._scrub.is_due(self._rows.path, directory, before.name, before.size_bytes) else None

    def _changed_cause(self, before: PreviousSegment, listed: Listed) -> ReadCause | bytes:
        """Return why a file is not the one that was read, or the bytes at its end if it is."""
        if before.identity is None:
            return ReadCause.WAS_NEWEST
        if cause := difference(before.identity, before.size_bytes, listed.status):
            return cause
        try:
            fd = open_in(listed.directory, listed.name)
        except FileNotFoundError:
            raise
        except OSError:
            return ReadCause.CHANGED  # reading it will find out why
        with LiveFile(fd, before.size_bytes, self._pace, is_sequential=False) as file:
            try:
                return _compare_ends(file, before.identity, before.size_bytes)
            except OSError:
                return ReadCause.ENDS


def _compare_ends(file: LiveFile, identity: FileIdentity, size: int) -> ReadCause | bytes:
    if cause := difference(identity, size, os.fstat(file.fileno())):
        return cause
    ends = []
    for position in end_positions(size):
        file.seek(position)
        ends.append(file.read(END_BYTES) or b"")
    if cause := difference(identity, size, os.fstat(file.fileno())):
        return cause
    return ends[-1][-TAIL_BYTES:] if digest(*ends) == identity.ends else ReadCause.ENDS
