"""One log directory of a running broker.

What is copied first and what last decides what the copies can be used for:

- the offset checkpoints before any segment: what lies below a high watermark stays committed, so an old one is still true of a newer log,
  while one that is newer than the log would speak of records that the log does not hold. Before each replica they are read again, for a
  slow collection would else have high watermarks that are hours older than the log;
- the cleaner's checkpoint of a replica also after its segments: below the larger one nothing is evidence;
- the mark of a clean shutdown counts only if it was there before and after everything else.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from replica_audit.collect.file_identity import ReadCause
from replica_audit.collect.live_file import LiveFile
from replica_audit.collect.output import Output
from replica_audit.collect.pace import Pace
from replica_audit.collect.previous import Previous
from replica_audit.collect.replica_capture import GoneError, ReplicaCapture, ReplicaReader, read_small_files
from replica_audit.collect.request import CollectRequest
from replica_audit.collect.rows_file import RowsFile, SmallFilesFile, Spool
from replica_audit.collect.scrub import Scrub
from replica_audit.collect.second_look import CapturedEnd, captured_end, look_again
from replica_audit.collect.segment_capture import copy_file
from replica_audit.collect.segment_reuse import SegmentReuse
from replica_audit.collect.segment_rows import SegmentRows
from replica_audit.errors import CheckpointError, InputError
from replica_audit.files.locations import entries
from replica_audit.files.opened import open_descriptor, open_folder
from replica_audit.formats.collection.broker_folder import BATCHES_FOLDER
from replica_audit.formats.collection.manifest import (
    OFFSETS,
    SEGMENTS_FILE,
    SMALL_FILES_FILE,
    CapturedLogDir,
    CapturedReplica,
    Unread,
    file_digest,
)
from replica_audit.formats.log_dir import checkpoints
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.server_properties import LOCK, is_locked
from replica_audit.formats.log_dir.small_files import TooLargeError, whole_content

_Offsets = dict[tuple[str, int], int]


def file_identity(path: Path) -> tuple[int, int] | None:
    """What tells one version of a small file from the next; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


class OffsetEntries:
    """The four files, by the names of OFFSETS."""

    def __init__(self, path: Path, copied: Mapping[str, bytes]) -> None:
        """Of the log directory `path`, of which these files were copied."""
        self._path = path
        self._at_start = {key: _offsets_in(copied.get(file)) for key, file in OFFSETS.items()}
        self._read: dict[str, tuple[tuple[int, int], _Offsets]] = {}  # by file, as it was when last read

    def now(self, key: str, parsed: log_dir.ReplicaDirectory) -> int:
        """The entry of a partition by now; -1 if there is none."""
        identity = file_identity(self._path / OFFSETS[key])
        if identity is None:
            return -1
        if key not in self._read or self._read[key][0] != identity:
            with suppress(OSError):
                self._read[key] = identity, _offsets_in(whole_content(self._path / OFFSETS[key]))
        return self._read.get(key, (None, self._at_start[key]))[1].get((parsed.topic, parsed.partition), -1)

    def changed(self, parsed: log_dir.ReplicaDirectory, keys: tuple[str, ...]) -> dict[str, int]:
        """The entries of a partition that are not those of the copies any more."""
        now, partition = {key: self.now(key, parsed) for key in keys}, (parsed.topic, parsed.partition)
        return {key: offset for key, offset in now.items() if offset >= 0 and offset != self._at_start[key].get(partition)}


def _offsets_in(content: bytes | None) -> _Offsets:
    """The entries of an offset checkpoint; none of one that is not there or that Kafka would not load."""
    try:
        return {(line.topic, line.partition): line.offset for line in checkpoints.offset_lines(content or b"")}
    except CheckpointError:
        return {}


_LARGEST_LOG = 2**31  # bytes; FileRecords opens no larger file
_BESIDE_METADATA = ("quorum-state",)


class LogDirCapture:
    """Captures one log directory: `capture` for each replica directory, then `finish`."""

    def __init__(
        self,
        path: Path,
        name: str,
        output: Output,
        pace: Pace,
        request: CollectRequest,
        previous: Previous | None,
        scrub: Scrub | None,
    ) -> None:
        """Copy the small files.

        Args:
            path: the log directory.
            name: of its folder in the output.
            output: the collection.
            pace: to read at.
            request: how to read segments, and whether an earlier collection was to be used.
            previous: the earlier collection to take over from, if there is one that can be used.
            scrub: which segments of it are to be verified again.

        Raises:
            OSError: the directory cannot be read.
            OutputError: they cannot be written.
        """
        self.causes: dict[str, Counter[ReadCause]] = {}  # why segments were read though they might have been taken over, by directory
        self.path, self.name = path, name
        self.folder = output.folder / name
        self.replicas: dict[str, tuple[int, CapturedReplica]] = {}  # by directory, with its inode
        self._ends: dict[str, CapturedEnd] = {}  # of those that are looked at again
        self.unread: dict[str, list[Unread]] = {}  # by directory
        self.vanished: set[str] = set()
        self._output, self._pace = output, pace
        self._copied: dict[str, str] = {}  # the small files of the log directory, with their digests
        self._captures = 0
        self._was_clean = file_identity(path / log_dir.CLEAN_SHUTDOWN)
        self.is_in_use = is_locked(path / LOCK)
        fd = open_folder(path)
        try:
            found, unread = read_small_files(fd, (log_dir.META_PROPERTIES, *log_dir.OFFSET_CHECKPOINTS))
        finally:
            os.close(fd)
        self._own_unread = [Unread(path=str(path / name), kind=name, reason=reason) for name, reason in unread.items()]
        self._offsets = OffsetEntries(path, found)
        self._directory_id: str | None = None
        with suppress(InputError):
            self._directory_id = checkpoints.meta_properties(found.get(log_dir.META_PROPERTIES, b"")).directory_id
        output.make_folder(self.folder)
        # first of all what tells an audit that this is not a folder of a broker itself
        self._rows = RowsFile(self.folder / SEGMENTS_FILE)
        self._small = SmallFilesFile(self.folder / SMALL_FILES_FILE)
        self._spool = Spool(self.folder)
        try:
            for file, content in found.items():
                self._copy(file, content)
        except BaseException:
            self.abandon()
            raise
        self._reuse: SegmentReuse | None = None
        if request.since is not None:
            rows = previous.rows_of(path, self._directory_id) if previous else None
            self._reuse = SegmentReuse(rows, pace, scrub, verify_crc=request.verify_crc)
        self._replica_reader = ReplicaReader(
            path,
            SegmentRows(
                self.folder,
                output,
                pace,
                self._reuse,
                verify_crc=request.verify_crc,
                is_live=bool(self.is_in_use),
                has_index=request.has_index,
            ),
            self._spool,
        )

    def _copy(self, name: str, content: bytes) -> None:
        self._output.write(self.folder / name, content)
        self._copied[name] = file_digest(content)

    @property
    def is_of_a_broker(self) -> bool:
        """Whether there was anything that a log directory holds."""
        return bool(self._copied or self._own_unread or self.replicas or self.unread)

    def rank(self, directory: str) -> int:
        """Where a replica directory belongs in the order of the run: those with smaller numbers come first."""
        return self._reuse.rank(directory) if self._reuse is not None else 0

    def directories(self) -> Iterator[tuple[str, log_dir.ReplicaDirectory, int]]:
        """Name, parsed name and inode of every replica directory that is there now.

        Raises:
            OSError: the log directory cannot be listed.
        """
        with os.scandir(self.path) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                parsed = log_dir.replica_directory(entry.name)
                with suppress(OSError):
                    if parsed and entry.name.isprintable() and entry.is_dir():
                        yield entry.name, parsed, entry.stat().st_ino

    def capture(self, directory: str, parsed: log_dir.ReplicaDirectory, *, is_copied: bool) -> None:
        """Capture one replica directory, which may be gone.

        Raises:
            OutputError: it cannot be written.
        """
        self.forget(directory)
        self.vanished.discard(directory)
        later = self._offsets.changed(parsed, ("high_watermark", "recovery_point", "log_start_offset"))
        try:
            found = self._replica_reader.capture(directory, is_copied=is_copied)
        except GoneError:
            self._remove(directory)
            self.vanished.add(directory)
            return
        later |= self._offsets.changed(parsed, ("cleaner_offset",))
        if found.is_settled:
            self._keep(found, parsed, later, is_copied=is_copied)
        else:
            self._remove(directory)
            reason = "its files changed faster than they could be read"
            self.unread[directory] = [Unread(path=str(self.path / directory), kind="directory", reason=reason)]
        self._spool.clear()

    def _keep(self, found: ReplicaCapture, parsed: log_dir.ReplicaDirectory, later: dict[str, int], *, is_copied: bool) -> None:
        directory = found.directory
        self._captures += 1
        self._small.add(self._captures, directory, found.small)
        keys = {"capture": self._captures, "directory": directory, "topic": parsed.topic, "partition": parsed.partition}
        self._rows.add(keys, (self._spool.get(place) for _name, place in sorted(found.places.items())))
        reads = found.reads.values()
        replica = CapturedReplica(
            directory=directory,
            capture=self._captures,
            captured_at_ms=found.taken_at_ms,
            segments=len(found.reads),
            batches=sum(read.batch_count for read in reads),
            size_bytes=sum(read.size_bytes for read in reads),
            files=tuple(sorted(found.small)),
            is_copied=is_copied,
            later=later,
            taken_over=sum(read.is_reused for read in reads),
            verified_at_ms=found.verified_at_ms,
        )
        self.causes[directory] = Counter(read.cause for read in reads if read.cause is not None)
        if parsed.state == "current" and (end := captured_end(found)) is not None:
            self._ends[directory] = end
        self.replicas[directory] = (found.inode, replica)
        failed = [
            Unread(path=str(self.path / directory / name), kind="segment", reason=read.failed)
            for name, read in found.reads.items()
            if read.failed
        ]
        self.unread[directory] = [*found.unread, *failed]
        if is_copied and parsed.topic == log_dir.METADATA_TOPIC:
            self._copy_beside_metadata(directory)

    def _copy_beside_metadata(self, directory: str) -> None:
        """Copy the snapshots, after the segments: one that reaches down to the first segment is always there."""
        source, target = self.path / directory, self.folder / directory
        self._output.make_folder(target)  # also where it has no segment
        try:
            with entries(source) as listed:
                names = sorted(entry.name for entry in listed)
        except OSError as error:
            reason = Unread(path=str(source), kind="directory", reason=error.strerror or str(error))
            self.unread[directory] += [reason] if reason not in self.unread[directory] else []  # as its segments
            return
        for name in names:
            if name in _BESIDE_METADATA or (name.endswith(".checkpoint") and log_dir.is_beside_a_segment(name)):
                try:
                    fd = open_descriptor(source / name)
                    with LiveFile(fd, os.fstat(fd).st_size, self._pace) as file:
                        if file.size > _LARGEST_LOG:
                            raise TooLargeError(_LARGEST_LOG)
                        copy_file(file, target / name)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self.unread[directory].append(Unread(path=str(source / name), kind=name, reason=error.strerror or str(error)))

    def forget(self, directory: str) -> None:
        """Drop a replica directory that is no longer what was captured."""
        if self.replicas.pop(directory, None) is not None:
            self._remove(directory)
        for known in (self.unread, self.causes, self._ends):
            known.pop(directory, None)

    def _remove(self, directory: str) -> None:
        self._output.remove(self.folder / directory)
        self._output.remove(self.folder / BATCHES_FOLDER / directory)

    def look_again(self) -> None:
        """Look at the end of every log again, where a broker may be at work."""
        for directory, end in self._ends.items() if self.is_in_use is not False else ():
            inode, replica = self.replicas[directory]
            parsed = log_dir.replica_directory(directory)
            start = self._offsets.now("log_start_offset", parsed) if parsed else -1
            look = look_again(self.path / directory, inode, end, start if start >= 0 else None, self._pace)
            self.replicas[directory] = inode, replace(replica, second_look=look)

    def abandon(self) -> None:
        """Let go of the files."""
        self._rows.abandon()
        self._small.abandon()
        self._spool.close()

    def finish(self) -> CapturedLogDir:
        """Complete the files; what is said of it in the manifest.

        Raises:
            OutputError: they cannot be written.
        """
        if self._was_clean is not None and file_identity(self.path / log_dir.CLEAN_SHUTDOWN) == self._was_clean:
            with suppress(OSError):
                self._copy(log_dir.CLEAN_SHUTDOWN, whole_content(self.path / log_dir.CLEAN_SHUTDOWN))
        self.is_in_use = self.is_in_use or is_locked(self.path / LOCK)
        self._spool.close()
        size, checksum = self._rows.close()
        small_size, small_checksum = self._small.close()
        return CapturedLogDir(
            path=str(self.path),
            folder=self.name,
            directory_id=self._directory_id,
            in_use=self.is_in_use,
            segments_bytes=size,
            segments_crc32c=checksum,
            files=tuple(self._copied),
            replicas=tuple(replica for _directory, (_inode, replica) in sorted(self.replicas.items())),
            vanished=tuple(sorted(self.vanished)),
            unread=(*self._own_unread, *(one for _directory, found in sorted(self.unread.items()) for one in found)),
            small_files_bytes=small_size,
            small_files_crc32c=small_checksum,
            file_digests=self._copied,
        )
