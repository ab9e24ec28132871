"""The entries of a log directory's offset checkpoints: as they were copied, and as they are by now."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from replica_audit.errors import CheckpointError
from replica_audit.formats.log_dir import checkpoints
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.small_files import whole_content

FILES = {
    "high_watermark": log_dir.HIGH_WATERMARKS,
    "recovery_point": log_dir.RECOVERY_POINTS,
    "log_start_offset": log_dir.LOG_STARTS,
    "cleaner_offset": log_dir.CLEANER_OFFSETS,
}
_Offsets = dict[tuple[str, int], int]


def file_identity(path: Path) -> tuple[int, int] | None:
    """What tells one version of a small file from the next; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


class OffsetEntries:
    """The four files, by the names of FILES."""

    def __init__(self, path: Path, copied: Mapping[str, bytes]) -> None:
        """Of the log directory `path`, of which these files were copied."""
        self._path = path
        self._at_start = {key: _offsets_in(copied.get(file)) for key, file in FILES.items()}
        self._read: dict[str, tuple[tuple[int, int], _Offsets]] = {}  # by file, as it was when last read

    def now(self, key: str, parsed: log_dir.ReplicaDirectory) -> int:
        """The entry of a partition by now; -1 if there is none."""
        identity = file_identity(self._path / FILES[key])
        if identity is None:
            return -1
        if key not in self._read or self._read[key][0] != identity:
            with suppress(OSError):
                self._read[key] = identity, _offsets_in(whole_content(self._path / FILES[key]))
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
