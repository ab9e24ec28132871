"""The small files of a log directory and of its replicas: read and parsed, what fails told as a problem."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeVar

from replica_audit.errors import InputError
from replica_audit.files.locations import is_stored
from replica_audit.files.opened import open_descriptor
from replica_audit.files.tree_walk import Folder, code_of, remedy_of
from replica_audit.formats.log_dir import checkpoints
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.model import NOT_OPENED, Problem
from replica_audit.protocol.epochs.epoch_table import EpochTable

SETTINGS_LIMIT = 1 << 20
LIST_LIMIT = 64 << 20
DOCUMENT_LIMIT = 128 << 20
_AT_ONCE = 1 << 20
_LIMITS = {
    **dict.fromkeys((log_dir.META_PROPERTIES, log_dir.PARTITION_METADATA, log_dir.CLEAN_SHUTDOWN, "quorum-state"), SETTINGS_LIMIT),
    **dict.fromkeys((log_dir.EPOCH_CHECKPOINT, *log_dir.OFFSET_CHECKPOINTS), LIST_LIMIT),
    log_dir.CLUSTER_METADATA: DOCUMENT_LIMIT,
}


class TooLargeError(OSError):
    """A file that is larger than any of its name can be. `code` and `remedy` are those of the problem that it becomes."""

    code = "too-large"
    remedy = "check what the file is, and copy the broker's own; a sparse or overwritten file does not hold what its name says"

    def __init__(self, limit: int) -> None:
        """Larger than `limit` bytes."""
        super().__init__(errno.EFBIG, f"is larger than {limit >> 20} MiB, too large for a file of this kind: it is not read")


def limit_of(name: str) -> int:
    """How many bytes a small file of this name may have; of a name that is not known, SETTINGS_LIMIT."""
    return _LIMITS.get(name, SETTINGS_LIMIT)


def whole_content(path: Path, limit: int | None = None, *, may_be_pipe: bool = False) -> bytes:
    """The bytes of a file.

    Args:
        path: of the file.
        limit: in bytes; None for that of the file's name.
        may_be_pipe: whether a user has named it, and may have named a pipe. Else what is no regular file is not opened: it might block.

    Raises:
        LinkOutsideError, NotAFileError, OSError: it cannot be opened, or read.
        TooLargeError: it is larger than the limit, by its size or as it is read.
    """
    limit = limit_of(path.name) if limit is None else limit
    if is_stored(path):
        size = path.stat().st_size
        _refuse_larger(size, limit)
        with path.open("rb") as stream:
            return _whole(stream.read, limit, size)
    # of small files opening costs more than reading: without a stream around it
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if may_be_pipe else open_descriptor(path)
    try:
        size = os.fstat(descriptor).st_size
        _refuse_larger(size, limit)
        return _whole(partial(os.read, descriptor), limit, size)
    finally:
        os.close(descriptor)


def _refuse_larger(size: int, limit: int) -> None:
    if size > limit:
        raise TooLargeError(limit)


def _whole(read: Callable[[int], bytes], limit: int, size: int) -> bytes:
    parts: list[bytes] = []
    length, expected = 0, min(limit, size) + 1
    while length <= limit and (part := read(expected - length if length < expected else min(limit + 1 - length, _AT_ONCE))):
        parts.append(part)  # several: it came in parts, or it grows, or its size is not known
        length += len(part)
    _refuse_larger(length, limit)
    return parts[0] if len(parts) == 1 else b"".join(parts)


_T = TypeVar("_T")
_MAX_NOTES = 20  # of one file; one more says how many there are beyond
_BEYOND = {"checkpoint-out-of-order": "are out of order", "not-as-written": "are none that a broker writes"}
_NOT_AS_WRITTEN = (
    "copy the file again, or compare it with the broker's own; if the broker has the same file, look at its disk before it starts again: "
    "it loads the file and begins with these offsets"
)
_REMEDIES = {
    log_dir.EPOCH_CHECKPOINT: "copy the file again; a broker with the same bytes does not start, or takes the log directory offline. "
    "Copy the replica's segments, too: the corrected lines follow from its batches",
    log_dir.HIGH_WATERMARKS: "copy the file again; a broker with the same bytes takes the log directory offline",
    log_dir.PARTITION_METADATA: "copy the file again; without a topic id a re-created topic looks like the old one",
}


class EpochCheckpoint(NamedTuple):
    """A `leader-epoch-checkpoint`: `state` as in `ReplicaFiles.checkpoint_state`, its lines, and the table as a broker loads it.

    Of a malformed file `lines` are those that are entries by themselves, and the table is empty. `sha256` is of its bytes. `notes` are the
    lines that a broker drops or moves, and what it does.
    """

    state: str
    lines: tuple[checkpoints.EpochLine, ...]
    epochs: EpochTable
    sha256: str | None = None
    notes: Sequence[tuple[int, str]] = ()


NO_CHECKPOINT = EpochCheckpoint("missing", (), ())
SharedCheckpoints = dict[bytes, EpochCheckpoint]  # by content: replicas mostly have the same


@dataclass(slots=True)
class LogDirFiles:
    """The offset checkpoints of one log directory while its replicas are listed; `is_partly_read`: one of them cannot be read.

    Such a file is as one that was not copied: the replicas themselves are there, whatever a broker with the same file does.
    """

    offsets: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    clean_shutdown: bool = False
    clean_shutdown_epoch: int | None = None
    has_lock: bool = False
    is_partly_read: bool = False

    def offset(self, file: str, replica: tuple[str, int]) -> int | None:
        """The entry of a replica, (topic, partition), in one of the files."""
        found = self.offsets.get(file)
        return found.get(replica) if found else None


NO_FILES = LogDirFiles()


class SmallFiles:
    """Reads small files.

    Of a collection `unread` says why some could not be read where they were collected, or are not what was. `shared` takes the epoch tables
    that are known already; None to make each anew.
    """

    def __init__(self, shared: SharedCheckpoints | None = None) -> None:
        self.unread: dict[str, OSError] = {}
        self._shared = shared

    def parse(self, folder: Folder, name: str, parser: Callable[[bytes], _T], problems: list[Problem]) -> _T | None:
        """Read and parse a small file of a folder; what fails becomes a problem and None."""
        remedy = _REMEDIES.get(name, "copy the file again, or compare it with the broker's own")
        try:
            if self.unread and (unread := self.unread.get(str(folder.path / name))):
                raise unread
            content = folder.contents.get(name)
            return parser(whole_content(folder.path / name) if content is None else content)
        except InputError as error:
            code, detail, line, at = "malformed", error.reason, error.line, error.byte_offset
        except OSError as error:
            code, detail, line, at = code_of(error), error.strerror or str(error), None, None
            remedy = remedy_of(error)
        problems.append(
            Problem(path=str(folder.path / name), kind=name, code=code, detail=detail, remedy=remedy, line=line, byte_offset=at)
        )
        return None

    def marks(self, folder: Folder, found: LogDirFiles, problems: list[Problem]) -> None:
        """See whether a log directory has the files by which a broker says that it uses it, or stopped in order."""
        found.has_lock = log_dir.LOCK in folder.files
        found.clean_shutdown = log_dir.CLEAN_SHUTDOWN in folder.files
        if found.clean_shutdown:
            found.clean_shutdown_epoch = self.parse(folder, log_dir.CLEAN_SHUTDOWN, checkpoints.clean_shutdown_epoch, problems)

    def offset_checkpoints(self, folder: Folder, found: LogDirFiles, problems: list[Problem]) -> None:
        """Read the four offset checkpoints, as far as they are in a folder."""
        for name in log_dir.OFFSET_CHECKPOINTS:
            if name not in folder.names:
                continue
            read = self.parse(folder, name, _offsets, problems)
            if read is None:
                found.is_partly_read = True
                continue
            lines, notes = read
            problems += _noted(folder.path / name, "not-as-written", notes, _NOT_AS_WRITTEN)
            found.offsets[name] = {(line.topic, line.partition): line.offset for line in lines if line.offset >= 0}

    def epoch_checkpoint(self, folder: Folder, problems: list[Problem]) -> EpochCheckpoint:
        """Read the epoch table of a replica directory."""
        if log_dir.EPOCH_CHECKPOINT not in folder.names:
            return NO_CHECKPOINT
        read = self.parse(folder, log_dir.EPOCH_CHECKPOINT, self._checkpoint, problems)
        if read is None:
            return self.parse(folder, log_dir.EPOCH_CHECKPOINT, _unreadable, []) or EpochCheckpoint("unreadable", (), ())
        if read.notes:
            remedy = "copy the replica's segments, too: whether the table is right, and the corrected lines, follow from its batches"
            problems += _noted(folder.path / log_dir.EPOCH_CHECKPOINT, "checkpoint-out-of-order", read.notes, remedy)
        return read

    def _checkpoint(self, content: bytes) -> EpochCheckpoint:
        if self._shared is None:
            return _checkpoint(content)
        found = self._shared.get(content)
        if found is None:
            found = self._shared[content] = _checkpoint(content)
        return found


def _checkpoint(content: bytes) -> EpochCheckpoint:
    lines = tuple(checkpoints.leader_epoch_lines(content))
    healed = checkpoints.healed(lines)
    state = "healed" if healed.notes else "ok" if lines else "empty"
    return EpochCheckpoint(state, lines, healed.epochs, sha256(content).hexdigest(), healed.notes)


def _unreadable(content: bytes) -> EpochCheckpoint:
    return EpochCheckpoint("unreadable", tuple(checkpoints.readable_epoch_lines(content)), (), sha256(content).hexdigest())


def _offsets(content: bytes) -> tuple[list[checkpoints.OffsetLine], list[tuple[int, str]]]:
    """The entries of an offset checkpoint, and what of them no broker has written."""
    lines = checkpoints.offset_lines(content)
    return lines, checkpoints.offset_notes(content, lines)


def _noted(file: Path, code: str, notes: Sequence[tuple[int, str]], remedy: str) -> Iterator[Problem]:
    """A problem of each note, (line, what is there); of very many the first, and how many more there are."""
    beyond = len(notes) - _MAX_NOTES
    shown = list(notes[:_MAX_NOTES])
    if beyond > 0:
        shown.append((notes[_MAX_NOTES][0], f"from this line on {beyond} more entries {_BEYOND[code]}"))
    for line, note in shown:
        yield Problem(path=str(file), kind=file.name, code=code, detail=note, remedy=remedy, line=line)


def why_offline(what: str, problem: Problem) -> str:
    """Why a replica cannot be used for a small file's sake. That the audit may not read a file says nothing about the broker."""
    if problem.code in NOT_OPENED or problem.code == TooLargeError.code:
        return f"{what} cannot be read by the audit: {problem.detail}"
    return f"{what} cannot be loaded ({problem.detail}): a broker takes the directory offline"
