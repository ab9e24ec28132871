"""Everything below one broker's folder: its replica directories with their small files read, and what cannot be used.

Files are known by name and content. Nothing here decides about the protocol, and nothing raises for what a user's disk may hold.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from replica_audit.errors import InputError
from replica_audit.formats import checkpoints, log_dir
from replica_audit.formats.dump_texts import DumpTexts
from replica_audit.formats.tree_walk import CANNOT_READ, Folder, cannot_read, walk
from replica_audit.model import Problem, ReplicaFiles, SegmentFile
from replica_audit.protocol.epoch_table import EpochTable

_T = TypeVar("_T")
_OF_A_LOG_DIR = (log_dir.META_PROPERTIES, log_dir.CLEAN_SHUTDOWN, *log_dir.OFFSET_CHECKPOINTS)
_REMEDIES = {
    log_dir.EPOCH_CHECKPOINT: "copy the file again; if the broker holds the same bytes it will not load this replica: "
    "move the file away on the broker and let the replica be recovered from its leader",
    log_dir.HIGH_WATERMARKS: "copy the file again; a broker that holds the same bytes takes the log directory offline",
    log_dir.PARTITION_METADATA: "copy the file again; without a topic id a re-created topic cannot be told from the old one",
}


class ServerLog(NamedTuple):
    """A log that the broker wrote of itself, packed if its name ends with `.gz`."""

    path: Path


@dataclass(slots=True)
class _LogDir:
    """The offset checkpoints of one log directory while its replicas are collected."""

    offsets: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    clean_shutdown: bool = False
    offline_reason: str | None = None


def replicas_of(folder: Path) -> Iterator[ReplicaFiles | ServerLog | Problem]:
    """Walk one broker's folder.

    Yields:
        One `ReplicaFiles` per replica directory, with its own problems in it, one `ServerLog` per log of the broker itself, and one
        `Problem` for each that belongs to no replica.
    """
    walk = _Walk()
    yield from walk.run(folder)


class _Walk:
    def __init__(self) -> None:
        self.log_dirs: dict[str, _LogDir] = {}
        self.parents: dict[str, None] = {}  # of replicas, and log directories; in the order found
        self.problems: list[Problem] = []
        self.replicas: dict[tuple[str, str], ReplicaFiles] = {}
        self.texts = DumpTexts(self.problems)
        self.empty: list[Folder] = []
        self.described: set[str] = set()  # log directories of which a replica's partition.metadata was copied

    def run(self, top: Path) -> Iterator[ReplicaFiles | ServerLog | Problem]:
        for folder in walk(top, self.problems.append, self._is_no_replica):
            self._visit(folder, is_top=folder.path == top)
        self._add_empty_replicas()
        self.texts.attach(self.replicas, list(self.parents), self._only_dumped)
        self._tell_missing_from_not_collected()
        if self.texts.unknown:
            self.problems.append(
                Problem(
                    path=str(self.texts.unknown[0]),
                    kind="file",
                    code="unrecognised-files",
                    detail=f"{len(self.texts.unknown)} file(s) in {top.name} are neither Kafka's nor kafka-dump-log's; this is the first",
                    remedy="nothing to do if they do not belong to the brokers; else check how they were copied",
                )
            )
        yield from self.replicas.values()
        yield from (ServerLog(path) for path in self.texts.server_logs)
        yield from self.problems

    def _is_no_replica(self, folder: Folder) -> bool:
        """Kafka never looks below a replica directory, nor does the audit."""
        return (str(folder.path.parent), folder.path.name) not in self.replicas

    def _visit(self, folder: Folder, *, is_top: bool) -> None:
        path, files = folder.path, list(folder.files)
        name = log_dir.replica_directory(path.name)
        if name and self._holds_a_replica(folder, is_top=is_top):
            self._replica(folder, name)
        else:
            if any(file in folder.names for file in _OF_A_LOG_DIR):
                self._log_dir(folder)
            self._tell_misplaced(folder)
        for file in files:
            if not log_dir.is_known(file):
                self.texts.take(path / file)
        for other in folder.others:
            if not log_dir.is_known(other):
                self._tell(path / other, "file", "not-a-file", "neither a file nor a folder, or a link to nothing", "copy the file itself")

    def _holds_a_replica(self, folder: Folder, *, is_top: bool) -> bool:
        """By its files; not if it is a log directory, whose stray files make no replica, but an empty folder among replicas is one."""
        if log_dir.META_PROPERTIES in folder.files or (is_top and folder.folders):
            return False
        if not folder.names:
            self.empty.append(folder)
            return False
        if any(log_dir.replica_directory(child) for child in folder.folders) and any(f in folder.files for f in log_dir.OFFSET_CHECKPOINTS):
            return False
        small = (log_dir.EPOCH_CHECKPOINT, log_dir.PARTITION_METADATA)
        return any(name in small or log_dir.segment_name(name) or log_dir.is_beside_a_segment(name) for name in folder.names)

    def _add_empty_replicas(self) -> None:
        """An empty folder named TOPIC-PARTITION among replicas is one, too."""
        for folder in self.empty:
            name = log_dir.replica_directory(folder.path.name)
            if name and str(folder.path.parent) in self.parents:
                self._replica(folder, name)

    def _tell_misplaced(self, folder: Folder) -> None:
        """Files of a replica in a folder that is none."""
        segments = [file for file in folder.files if log_dir.segment_name(file)]
        if segments:
            self.problems.append(
                Problem(
                    path=str(folder.path),
                    kind="directory",
                    code="segments-outside-a-replica",
                    detail=f"{len(segments)} segment(s) in a folder that is no TOPIC-PARTITION are left out",
                    remedy="rename the folder to the TOPIC-PARTITION that it is a copy of",
                )
            )
        parsers: dict[str, Callable[[bytes], object]] = {
            log_dir.EPOCH_CHECKPOINT: checkpoints.leader_epoch_lines,
            log_dir.PARTITION_METADATA: checkpoints.topic_id,
        }
        for file, parser in parsers.items():
            if file in folder.files and self._parse(folder.path / file, parser, self.problems) is not None:
                remedy = "put it into the replica directory that it belongs to"
                self._tell(folder.path / file, file, "misplaced", "lies outside of any replica directory, and is not used", remedy)

    def _tell(self, path: Path, kind: str, code: str, detail: str, remedy: str) -> None:
        self.problems.append(Problem(path=str(path), kind=kind, code=code, detail=detail, remedy=remedy))

    def _log_dir(self, folder: Folder) -> None:
        path = folder.path
        found = self.log_dirs.setdefault(str(path), _LogDir())
        self.parents[str(path)] = None
        found.clean_shutdown = log_dir.CLEAN_SHUTDOWN in folder.files
        if log_dir.META_PROPERTIES in folder.names:
            self._parse(path / log_dir.META_PROPERTIES, checkpoints.meta_properties, self.problems)
        self._offset_checkpoints(folder, found, self.problems)

    def _offset_checkpoints(self, folder: Folder, found: _LogDir, problems: list[Problem]) -> None:
        for name in log_dir.OFFSET_CHECKPOINTS:
            if name not in folder.names:
                continue
            before = len(problems)
            lines = self._parse(folder.path / name, checkpoints.offset_lines, problems)
            if lines is None and name == log_dir.HIGH_WATERMARKS:
                found.offline_reason = _why_offline(f"{name} of its log directory", problems[before])
            found.offsets[name] = {(line.topic, line.partition): line.offset for line in lines or ()}

    def _replica(self, folder: Folder, name: log_dir.ReplicaDirectory) -> None:
        path = folder.path
        self.parents[str(path.parent)] = None
        problems: list[Problem] = []
        checkpoint = self._epoch_checkpoint(folder, problems)
        segments = tuple(segment for segment in _segments(folder, problems) if not self.texts.takes_segment(Path(segment.path)))
        topic_id = None
        if log_dir.PARTITION_METADATA in folder.names:
            self.described.add(str(path.parent))
            topic_id = self._parse(path / log_dir.PARTITION_METADATA, checkpoints.topic_id, problems)
        if any(file in folder.files for file in log_dir.OFFSET_CHECKPOINTS):  # a copy of one partition, made by hand
            self._offset_checkpoints(folder, self.log_dirs.setdefault(str(path), _LogDir()), problems)
        for nested in folder.folders:
            if not log_dir.segment_name(nested) and nested not in (log_dir.EPOCH_CHECKPOINT, log_dir.PARTITION_METADATA):
                detail = "a folder in a replica directory is not looked into, nor would a broker"
                self._tell(path / nested, "directory", "folder-in-a-replica", detail, "none, if it is no replica; else move it out")
        found = self._files(path, name, segments=segments, topic_id=topic_id, checkpoint=checkpoint, problems=problems)
        self.replicas[(found.log_dir, found.directory)] = found

    def _files(
        self,
        path: Path,
        name: log_dir.ReplicaDirectory,
        *,
        segments: tuple[SegmentFile, ...],
        topic_id: str | None,
        checkpoint: tuple[str, list[checkpoints.EpochLine], EpochTable],
        problems: list[Problem],
    ) -> ReplicaFiles:
        """A replica with the entries of its log directory's offset checkpoints."""
        owner = self.log_dirs.get(str(path.parent)) or _LogDir()
        own = self.log_dirs.get(str(path)) or _LogDir()
        key = (name.topic, name.partition)
        state, lines, healed = checkpoint

        def offset(file: str) -> int | None:
            return owner.offsets.get(file, {}).get(key, own.offsets.get(file, {}).get(key))

        offline = owner.offline_reason or own.offline_reason
        if state == "unreadable":
            offline = _why_offline(log_dir.EPOCH_CHECKPOINT, problems[0])
        return ReplicaFiles(
            log_dir=str(path.parent),
            directory=path.name,
            topic=name.topic,
            partition=name.partition,
            state=name.state,
            topic_id=topic_id,
            segments=segments,
            checkpoint_state=state,
            checkpoint=tuple((line.line, line.epoch, line.start_offset) for line in lines),
            epochs=tuple((entry.epoch, entry.start_offset) for entry in healed),
            high_watermark=offset(log_dir.HIGH_WATERMARKS),
            high_watermarks_collected=log_dir.HIGH_WATERMARKS in (*owner.offsets, *own.offsets),
            recovery_point=offset(log_dir.RECOVERY_POINTS),
            log_start_offset=offset(log_dir.LOG_STARTS),
            cleaner_offset=offset(log_dir.CLEANER_OFFSETS),
            clean_shutdown=owner.clean_shutdown,
            offline_reason=offline,
            problems=tuple(problems),
        )

    def _epoch_checkpoint(self, folder: Folder, problems: list[Problem]) -> tuple[str, list[checkpoints.EpochLine], EpochTable]:
        if log_dir.EPOCH_CHECKPOINT not in folder.names:
            return "missing", [], ()
        file = folder.path / log_dir.EPOCH_CHECKPOINT
        lines = self._parse(file, checkpoints.leader_epoch_lines, problems)
        if lines is None:
            return "unreadable", [], ()
        healed = checkpoints.healed(lines)
        for line, note in healed.notes:
            remedy = "compare the file with epoch_start_offsets; before the broker restarts, let the replica be recovered from its leader"
            problems.append(
                Problem(
                    path=str(file), kind=log_dir.EPOCH_CHECKPOINT, code="checkpoint-out-of-order", detail=note, remedy=remedy, line=line
                )
            )
        state = "healed" if healed.notes else "ok" if lines else "empty"
        return state, lines, healed.epochs

    def _parse(self, path: Path, parser: Callable[[bytes], _T], problems: list[Problem]) -> _T | None:
        """Read and parse a small file; what fails becomes a problem and None."""
        remedy = _REMEDIES.get(path.name, "copy the file again, or compare it with the broker's own")
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise OSError(0, "is not a regular file")
            return parser(path.read_bytes())
        except InputError as error:
            code, detail, line, at = "malformed", error.reason, error.line, error.byte_offset
        except OSError as error:
            code, detail, line, at = "cannot-read", error.strerror or str(error), None, None
            remedy = CANNOT_READ
        problems.append(Problem(path=str(path), kind=path.name, code=code, detail=detail, remedy=remedy, line=line, byte_offset=at))
        return None

    def _only_dumped(self, parent: str, directory: str, name: log_dir.ReplicaDirectory) -> ReplicaFiles:
        """A replica without files of its own: text of kafka-dump-log, perhaps with the offset checkpoints of its log directory."""
        return self._files(Path(parent) / directory, name, segments=(), topic_id=None, checkpoint=("missing", [], ()), problems=[])

    def _tell_missing_from_not_collected(self) -> None:
        """Where no replica of a log directory has any small file, none was copied; where some have, the checkpoint is missing."""
        copied = self.described | {replica.log_dir for replica in self.replicas.values() if replica.checkpoint_state != "missing"}
        for key, replica in self.replicas.items():
            if replica.checkpoint_state == "missing" and replica.log_dir not in copied:
                self.replicas[key] = replace(replica, checkpoint_state="not-collected")


def _why_offline(what: str, problem: Problem) -> str:
    """Why a replica cannot be used for a small file's sake. That the audit may not read a file says nothing about the broker."""
    if problem.code == "cannot-read":
        return f"{what} cannot be read by the audit: {problem.detail}"
    return f"{what} cannot be loaded ({problem.detail}): a broker takes the directory offline"


def _segments(folder: Folder, problems: list[Problem]) -> Iterator[SegmentFile]:
    """The segment files that count: `.deleted` and `.cleaned` never, `.swap` unless a `.cleaned` file voids it."""
    cleaned = min((base for f in folder.files if (base := log_dir.is_cleaned(f)) is not None), default=None)
    for file in folder.names:
        path, name = folder.path / file, log_dir.segment_name(file)
        if name is None or name.suffix in (".deleted", ".cleaned"):
            continue
        if name.suffix == ".swap" and cleaned is not None and name.base_offset >= cleaned:
            continue
        if file not in folder.files:
            problems.append(cannot_read(path, "segment", OSError(0, "is not a regular file")))
            continue
        try:
            size = path.stat().st_size
        except OSError as error:
            problems.append(cannot_read(path, "segment", error))
            continue
        yield SegmentFile(path=str(path), source="raw", base_offset=name.base_offset, size_bytes=size, swap=name.suffix == ".swap")
