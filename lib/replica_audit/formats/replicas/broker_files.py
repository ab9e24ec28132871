"""Everything below one broker's folder: its replica directories with their small files read, and what cannot be used.

Files are known by name and content. Nothing here decides about the protocol, and nothing raises for what a user's disk may hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from heapq import nsmallest
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from replica_audit.errors import MetadataError
from replica_audit.files.locations import located
from replica_audit.files.opened import status
from replica_audit.files.tree_walk import Folder, cannot_read, walk
from replica_audit.formats.collection.broker_folder import (
    CollectedLogDir,
    MissingFiles,
    OpenedCollections,
    as_on_the_broker,
    log_dirs_of,
    problem_on_the_broker,
)
from replica_audit.formats.collection.collected_rows import COPY_AGAIN
from replica_audit.formats.collection.manifest import MANIFEST, SEGMENTS_FILE, SMALL_FILES_FILE, UnknownVersionError, is_collected_log_dir
from replica_audit.formats.dump import dump_texts
from replica_audit.formats.dump.dump_texts import DumpTexts
from replica_audit.formats.log_dir import checkpoints
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.checkpoints import MetaProperties
from replica_audit.formats.log_dir.small_files import (
    NO_CHECKPOINT,
    NO_FILES,
    EpochCheckpoint,
    LogDirFiles,
    SharedCheckpoints,
    SmallFiles,
    why_offline,
)
from replica_audit.formats.metadata.metadata_files import unread_text
from replica_audit.model import INCOMPLETE_COLLECTION, NOT_OPENED, LogDirectory, Problem, ReplicaFiles, SegmentFile


class OwnFiles(NamedTuple):
    """What a replica directory holds itself; the first problem is that of the checkpoint, if that is unreadable."""

    segments: tuple[SegmentFile, ...]
    checkpoint: EpochCheckpoint
    topic_id: str | None = None
    problems: Sequence[Problem] = ()


def listed_replica(
    log_dir_path: str, directory: str, name: log_dir.ReplicaDirectory, held: OwnFiles, owner: LogDirFiles, own: LogDirFiles
) -> ReplicaFiles:
    """A replica with the entries of its log directory's offset checkpoints.

    Args:
        log_dir_path: of its log directory.
        directory: its name.
        name: what that says.
        held: its own files.
        owner: the files of its log directory.
        own: such files as lie in the replica directory itself, where a copy of one partition was made by hand.
    """
    key = (name.topic, name.partition)

    def offset(file: str) -> int | None:
        found = owner.offset(file, key)
        return own.offset(file, key) if found is None else found

    is_unreadable = held.checkpoint.state == "unreadable"
    return ReplicaFiles(
        log_dir=log_dir_path,
        directory=directory,
        topic=name.topic,
        partition=name.partition,
        state=name.state,
        topic_id=held.topic_id,
        segments=held.segments,
        checkpoint_state=held.checkpoint.state,
        checkpoint=held.checkpoint.lines,
        epochs=held.checkpoint.epochs,
        checkpoint_sha256=held.checkpoint.sha256,
        high_watermark=offset(log_dir.HIGH_WATERMARKS),
        high_watermarks_collected=log_dir.HIGH_WATERMARKS in owner.offsets or log_dir.HIGH_WATERMARKS in own.offsets,
        recovery_point=offset(log_dir.RECOVERY_POINTS),
        log_start_offset=offset(log_dir.LOG_STARTS),
        cleaner_offset=offset(log_dir.CLEANER_OFFSETS),
        cleaner_offsets_collected=log_dir.CLEANER_OFFSETS in owner.offsets or log_dir.CLEANER_OFFSETS in own.offsets,
        clean_shutdown=owner.clean_shutdown,
        clean_shutdown_epoch=owner.clean_shutdown_epoch,
        has_lock=owner.has_lock,
        offline_reason=why_offline(log_dir.EPOCH_CHECKPOINT, held.problems[0]) if is_unreadable else None,
        problems=tuple(held.problems),
    )


# A log directory as a whole: whose it is, how much of it is in the input, and which replicas it says that it has.
# Sources: MetaPropertiesEnsemble and KIP-858 (`directory.id`), LogManager.checkpointRecoveryOffsetsInDir and
# ReplicaManager.checkpointHighWatermarks: both files name every replica of their directory.

_SAMPLE = 64  # names, of two directories those with the smallest hashes
_MANY = 1000  # replicas without a directory: what was copied are some partitions only
_NAME_ALL = (log_dir.HIGH_WATERMARKS, log_dir.RECOVERY_POINTS)


def log_directory(
    folder: str,
    path: str,
    meta: MetaProperties,
    files: LogDirFiles,
    directories: Collection[str],
    problems: Sequence[Problem],
    store: CollectedLogDir | None = None,
) -> LogDirectory:
    """One log directory.

    Args:
        folder: of its broker in the input.
        path: where it is in the input.
        meta: its `meta.properties`.
        files: its offset checkpoints.
        directories: the names of its replica directories, in every state.
        problems: all that the folder has.
        store: what was collected, if it was.
    """
    named = [found for name in directories if (found := log_dir.replica_directory(name)) is not None]
    current = sorted(f"{one.topic}-{one.partition}" for one in named if one.state == "current" and one.topic != log_dir.METADATA_TOPIC)
    there = {f"{one.topic}-{one.partition}" for one in named}  # one that was renamed stays listed until the next checkpoint
    listed = {f"{topic}-{partition}" for entries in files.offsets.values() for topic, partition in entries}
    lacking = sorted({*(listed - there), *(() if store is None else store.said.vanished)})
    is_refused = any(one.code in NOT_OPENED and (one.path == path or one.path.startswith(f"{path}/")) for one in problems)
    is_refused = is_refused or files.is_partly_read or (store is not None and bool(store.said.unread))
    names_all = any(files.offsets.get(name) is not None for name in _NAME_ALL)
    return LogDirectory(
        folder=folder,
        path=path if store is None else store.said.path,
        directory_id=meta.directory_id,
        is_kraft=meta.is_kraft,
        is_whole=names_all and not is_refused and len(lacking) <= _MANY,
        reaches=sum((files.offsets.get(log_dir.HIGH_WATERMARKS) or {}).values()),
        replicas=len(current),
        sample=tuple(nsmallest(_SAMPLE, current, key=lambda name: (crc32(name.encode("utf-8", "surrogateescape")), name))),
        without_directory=tuple(lacking[:_MANY]),
    )


# Files of a replica in a folder that is none, and folders in a replica.


_NOT_IN_A_LOG_DIR = (
    "if the broker's own log directory has this folder, move it out of there before the broker starts: it refuses to start beside a folder "
    "that is not named after a TOPIC-PARTITION (LogManager.loadLogs); if only the copy has it, take it out of the copy"
)


def misplaced(folder: Folder, small: SmallFiles, *, is_in_a_log_dir: bool) -> Iterator[Problem]:
    """What is wrong with them: they are not used."""
    segments = [file for file in folder.files if log_dir.segment_name(file)]
    if segments:
        yield Problem(
            path=str(folder.path),
            kind="directory",
            code="segments-outside-a-replica",
            detail=f"no TOPIC-PARTITION is known for the folder; segments left out: {len(segments)}",
            remedy=_NOT_IN_A_LOG_DIR
            if is_in_a_log_dir
            else "put them into a folder named after their TOPIC-PARTITION, beside its leader-epoch-checkpoint",
        )
        if is_in_a_log_dir:
            return  # what lies beside them is not told again
    parsers: dict[str, Callable[[bytes], object]] = {
        log_dir.EPOCH_CHECKPOINT: checkpoints.leader_epoch_lines,
        log_dir.PARTITION_METADATA: checkpoints.topic_id,
    }
    for file, parser in parsers.items():
        if file in folder.files:
            problems: list[Problem] = []
            if small.parse(folder, file, parser, problems) is not None:
                detail, remedy = (
                    "is not in a replica directory, and is not used",
                    "put it into the replica directory that it belongs to",
                )
                problems.append(Problem(path=str(folder.path / file), kind=file, code="misplaced", detail=detail, remedy=remedy))
            yield from problems


def folders_in(folder: Folder) -> Iterator[Problem]:
    """The folders in a replica directory."""
    for nested in folder.folders:
        if not log_dir.segment_name(nested) and nested not in (log_dir.EPOCH_CHECKPOINT, log_dir.PARTITION_METADATA):
            yield Problem(
                path=str(folder.path / nested),
                kind="directory",
                code="folder-in-a-replica",
                detail="a folder in a replica directory is not read; a broker does not read it either",
                remedy="none, if it is not a replica; else move it out",
            )


# The segment files of a replica directory that count.


def segment_files(folder: Folder, problems: list[Problem], is_text: Callable[[Path], bool]) -> Iterator[SegmentFile]:
    """The segment files that count, except those that are text."""
    files = frozenset(folder.files)
    for file, name in log_dir.counted_segments(folder.names, beside=folder.files):
        path = folder.path / file
        if file not in files:
            problems.append(cannot_read(path, "segment", OSError(0, "is not a regular file")))
            continue
        try:
            size = status(path).st_size
        except OSError as error:
            problems.append(cannot_read(path, "segment", error))
            continue
        if not is_text(path):
            stem = file.removesuffix(".log")
            yield SegmentFile(
                path=str(path),
                source="raw",
                base_offset=name.base_offset,
                size_bytes=size,
                swap=name.suffix == ".swap",
                beside=" ".join([suffix for suffix in log_dir.INDEXES if stem + suffix in files]),
            )


_OF_A_LOG_DIR = (log_dir.META_PROPERTIES, log_dir.CLEAN_SHUTDOWN, *log_dir.OFFSET_CHECKPOINTS)
_OF_META_PROPERTIES = (
    "copy the file again; if the broker's is the same, put back an earlier copy before the broker starts: a KRaft broker does not start "
    "without it, a ZooKeeper broker may take another id"
)
_NO_MANIFEST = "no manifest names it: collect was ended before it was done, or what it wrote was copied in part"
_NO_DIGESTS = (
    "an earlier release collected it, without digests: what was changed since in the manifest, or in the small files of a log directory, "
    "would not be noticed"
)


class ServerLog(NamedTuple):
    """A log that the broker wrote of itself, packed if its name ends with `.gz`."""

    path: Path


def replicas_of(
    folder: Path, *, is_replica: bool = False, opened: OpenedCollections | None = None
) -> Iterator[ReplicaFiles | ServerLog | LogDirectory | Problem]:
    """Walk one broker's folder.

    Args:
        folder: the broker's; or, with `is_replica`, what is known to be one replica's.
        is_replica: whether it is that.
        opened: takes what is to be kept.

    Yields:
        One `ReplicaFiles` per replica directory, with its own problems in it, one `ServerLog` per log of the broker itself, one
        `LogDirectory` for each with a `meta.properties`, and one `Problem` for each that belongs to no replica.
    """
    walk = _Walk(None if opened is None else opened.checkpoints)
    walk.visit_all(folder, is_replica=is_replica)
    if opened is not None:
        opened.log_dirs.update({store.rows_path: store for store in walk.collected.values()})
    yield from walk.found(folder)


class _Walk:
    def __init__(self, shared: SharedCheckpoints | None) -> None:
        self.known: set[tuple[str, str]] = set()  # replicas
        self.log_dirs: dict[str, LogDirFiles] = {}
        self.metas: dict[str, checkpoints.MetaProperties] = {}  # of log directories
        self.identified: set[str] = set()  # log directories that have a meta.properties, readable or not
        self.parents: dict[str, None] = {}  # of replicas, and log directories; in the order found
        self.problems: list[Problem] = []
        self.replicas: dict[tuple[str, str], ReplicaFiles] = {}
        self.collected: dict[str, CollectedLogDir] = {}  # log directories of a collection, by where they are now
        self.small = SmallFiles(shared)
        self.texts = DumpTexts(self.problems, unread_text)
        self.empty: list[Folder] = []
        self.copied: set[str] = set()  # log directories of which a small file of any replica was copied

    def visit_all(self, top: Path, *, is_replica: bool) -> None:
        """Look into every folder."""
        self.texts.top = top
        for folder in walk(top, self.problems.append, self._is_entered, log_dir.is_opened):
            self._visit(folder, is_top=folder.path == top and not is_replica)
        self._add_empty_replicas()

    def found(self, top: Path) -> Iterator[ReplicaFiles | ServerLog | LogDirectory | Problem]:
        """What was found, once all is looked into."""
        self.texts.attach(self.replicas, list(self.parents), self._is_among_replicas, self._only_dumped)
        self._tell_missing_from_not_collected()
        self._tell_missing_meta_properties()
        self.texts.tell_unused()
        if not (self.replicas or self.known or self.log_dirs or self.texts.server_logs or self.problems):
            remedy = "copy the broker's log directories into it; leave the folder out if the broker has none"
            self._tell(top, "directory", "empty-broker-folder", "neither this folder nor those below it hold anything of a broker", remedy)
        refused = {problem.path for problem in self.problems if problem.kind == "directory" and problem.code in NOT_OPENED}
        for replica in self.replicas.values():
            told = as_on_the_broker(replica, self.collected.get(replica.log_dir))
            yield replace(told, is_refused=True) if refused and told.path in refused else told
        yield from (ServerLog(path) for path in self.texts.server_logs)
        yield from self._log_directories(top)
        yield from (problem_on_the_broker(problem, self.collected.values()) for problem in self.problems)

    def _log_directories(self, top: Path) -> Iterator[LogDirectory]:
        directories: dict[str, set[str]] = {}
        for parent, directory in (*self.known, *self.replicas):
            directories.setdefault(parent, set()).add(directory)
        for path, meta in self.metas.items():
            held = directories.get(path, ())
            yield log_directory(str(top), path, meta, self.log_dirs[path], held, self.problems, self.collected.get(path))

    def _is_entered(self, folder: Folder) -> bool:
        """Kafka never looks below a replica directory, nor does the audit; what is in a collection its manifest says."""
        return (str(folder.path.parent), folder.path.name) not in self.known and not self._is_collected(folder)

    def _is_collected(self, folder: Folder) -> bool:
        """Whether it is a log directory of a collection, as it shows, or as its manifest says though the scans are missing."""
        return is_collected_log_dir(folder.files) or str(folder.path) in self.collected

    def _visit(self, folder: Folder, *, is_top: bool) -> None:
        path, files = folder.path, list(folder.files)
        if self._is_collected(folder):
            self._collected_log_dir(folder)
            return
        if MANIFEST in files and self._open_collection(folder):
            files.remove(MANIFEST)
        name = log_dir.replica_directory(path.name)
        if name and self._holds_a_replica(folder, is_top=is_top):
            self._replica(folder, str(path.parent), name)
        else:
            if any(file in folder.names for file in _OF_A_LOG_DIR):
                self._log_dir(folder)
            is_in_a_log_dir = log_dir.META_PROPERTIES not in files and str(path.parent) in self.metas
            self.problems += misplaced(folder, self.small, is_in_a_log_dir=is_in_a_log_dir)
        for file in files:
            if not log_dir.is_known(file):
                self.texts.take(path / file)
        for other in folder.others:
            if not log_dir.is_known(other):
                self._tell(path / other, "file", "not-a-file", "neither a file nor a folder, or a link to nothing", "copy the file itself")

    def _open_collection(self, folder: Folder) -> bool:
        """Learn what is in a collection; False if the manifest is not one of ours."""
        try:
            manifest, found = log_dirs_of(folder.path)
        except OSError as error:
            self.problems.append(cannot_read(folder.path / MANIFEST, "collection", error))
            return True
        except MetadataError as error:
            if any((folder.path / name / file).exists() for name in folder.folders for file in (SEGMENTS_FILE, SMALL_FILES_FILE)):
                remedy = error.remedy if isinstance(error, UnknownVersionError) else COPY_AGAIN
                self._tell(folder.path / MANIFEST, "collection", "malformed", error.reason, remedy)
                return True
            return False
        self.collected |= found
        if not manifest.is_sealed:
            self._tell(folder.path / MANIFEST, "collection", "no-digests", _NO_DIGESTS, "collect again with this release")
        for unread in (*manifest.unread, *(one for said in manifest.log_dirs for one in said.unread if one.kind == "directory")):
            self.problems.append(cannot_read(Path(unread.path), unread.kind, OSError(0, unread.reason)))
        return True

    def _collected_log_dir(self, folder: Folder) -> None:
        """A log directory of a collection: small files as copied, segments as scanned on the broker."""
        store = self.collected.get(str(folder.path))
        reason = _NO_MANIFEST if store is None else store.problem()
        if store is None or reason:
            self._tell(folder.path, "collection", INCOMPLETE_COLLECTION, f"left out: {reason}", COPY_AGAIN)
            return
        missing = MissingFiles()
        try:
            segments = store.segment_files(missing)
        except OSError as error:
            self.problems.append(cannot_read(store.store, "collection", error))
            return
        try:
            small = store.small_files()
        except OSError as error:
            self.problems.append(cannot_read(store.small_files_path, "collection", error))
            return
        own, unusable = store.own_files()
        self.small.unread |= store.unread() | unusable
        self._log_dir(store.listed(None, own))
        parent = str(folder.path)
        self.problems += missing.problems(folder.path)
        for replica in store.said.replicas:
            name = log_dir.replica_directory(replica.directory)
            if name:
                self._seen(parent, replica.directory, (*replica.files, *store.unread_of(replica)))
                contents = {} if small is None else small[replica.directory]
                self._read_replica(store.listed(replica, contents), parent, name, tuple(segments[replica.directory]))

    def _holds_a_replica(self, folder: Folder, *, is_top: bool) -> bool:
        """By its files; not if it is a log directory, whose stray files make no replica, but an empty folder among replicas is one."""
        if log_dir.META_PROPERTIES in folder.files or is_top:
            return False
        if not folder.names:
            self.empty.append(folder)
            return False
        if any(log_dir.replica_directory(child) for child in folder.folders) and any(f in folder.files for f in log_dir.OFFSET_CHECKPOINTS):
            return False
        if log_dir.EPOCH_CHECKPOINT in folder.names or log_dir.PARTITION_METADATA in folder.names:
            return True
        if not any(log_dir.segment_name(name) or log_dir.is_beside_a_segment(name) for name in folder.names):
            return False
        return dump_texts.of_folder(folder.path.name) is not None or self._is_among_replicas(folder.path)

    def _is_among_replicas(self, path: Path) -> bool:
        """Whether a folder is a replica, or lies in a log directory as its checkpoints show: nothing else named like a replica does."""
        found = self.log_dirs.get(str(path.parent))
        return (str(path.parent), path.name) in self.known or (found is not None and bool(found.offsets))

    def _add_empty_replicas(self) -> None:
        """An empty folder named TOPIC-PARTITION among replicas is one, too."""
        for folder in self.empty:
            name = log_dir.replica_directory(folder.path.name)
            parent = str(folder.path.parent)
            if name and parent in self.parents:
                self._replica(folder, parent, name)

    def _tell(self, path: Path, kind: str, code: str, detail: str, remedy: str) -> None:
        self.problems.append(Problem(path=str(path), kind=kind, code=code, detail=detail, remedy=remedy))

    def _log_dir(self, folder: Folder) -> None:
        path = folder.path
        found = self.log_dirs.setdefault(str(path), LogDirFiles())
        self.parents[str(path)] = None
        self.small.marks(folder, found, self.problems)
        if log_dir.META_PROPERTIES in folder.names:
            self.identified.add(str(path))
            meta = self.small.parse(folder, log_dir.META_PROPERTIES, checkpoints.meta_properties, self.problems)
            if meta is not None:
                self.metas[str(path)] = meta
                if meta.refused is not None:
                    self._tell(path / log_dir.META_PROPERTIES, log_dir.META_PROPERTIES, "malformed", meta.refused, _OF_META_PROPERTIES)
        self.small.offset_checkpoints(folder, found, self.problems)

    def _tell_missing_meta_properties(self) -> None:
        """Name the log directories whose own files were copied, but not the one that says whose they are."""
        with_files = {parent for parent, _directory in self.known}
        without_replicas = self.parents.keys() - {parent for parent, _directory in self.replicas}
        for path in sorted((with_files | without_replicas) - self.identified):
            files = self.log_dirs.get(path, NO_FILES)
            if files.offsets or files.is_partly_read or files.clean_shutdown:
                file = located(path) / log_dir.META_PROPERTIES
                detail = "the log directory has no such file: which broker it is of is not known for sure"
                self._tell(file, log_dir.META_PROPERTIES, "missing-meta-properties", detail, _OF_META_PROPERTIES)

    def _seen(self, parent: str, directory: str, names: Collection[str]) -> None:
        """Know a replica directory, with the names in it, and its log directory."""
        self.parents[parent] = None
        if log_dir.PARTITION_METADATA in names or log_dir.EPOCH_CHECKPOINT in names:
            self.copied.add(parent)
        self.known.add((parent, directory))

    def _replica(self, folder: Folder, parent: str, name: log_dir.ReplicaDirectory) -> None:
        self._seen(parent, folder.path.name, folder.names)
        self.problems += folders_in(folder)
        self._read_replica(folder, parent, name)

    def _read_replica(
        self, folder: Folder, parent: str, name: log_dir.ReplicaDirectory, collected: tuple[SegmentFile, ...] | None = None
    ) -> None:
        path = folder.path
        problems: list[Problem] = []
        checkpoint = self.small.epoch_checkpoint(folder, problems)
        segments = tuple(segment_files(folder, problems, self.texts.takes_segment)) if collected is None else collected
        topic_id = None
        if log_dir.PARTITION_METADATA in folder.names:
            topic_id = self.small.parse(folder, log_dir.PARTITION_METADATA, checkpoints.topic_id, problems)
        if any(file in folder.files for file in log_dir.OFFSET_CHECKPOINTS):  # a copy of one partition, made by hand
            self.small.offset_checkpoints(folder, self.log_dirs.setdefault(str(path), LogDirFiles()), problems)
        found = self._files(path, parent, name, OwnFiles(segments, checkpoint, topic_id, problems))
        told = log_dir.producer_files(folder.files) if collected is None else ()
        self.replicas[(found.log_dir, found.directory)] = replace(found, producer_files=told) if told else found

    def _files(self, path: Path, parent: str, name: log_dir.ReplicaDirectory, held: OwnFiles) -> ReplicaFiles:
        owner, own = (self.log_dirs.get(place) or NO_FILES for place in (parent, str(path)))
        return listed_replica(parent, path.name, name, held, owner, own)

    def _only_dumped(self, parent: str, directory: str, name: log_dir.ReplicaDirectory) -> ReplicaFiles:
        """A replica without files of its own: text of kafka-dump-log, perhaps with the offset checkpoints of its log directory."""
        path = located(parent) / directory
        return self._files(path, str(path.parent), name, OwnFiles((), NO_CHECKPOINT))

    def _tell_missing_from_not_collected(self) -> None:
        """Where no replica of a log directory has any small file, none was copied; where some have, the checkpoint is missing."""
        for key, replica in self.replicas.items():
            if replica.checkpoint_state == "missing" and replica.log_dir not in self.copied:
                self.replicas[key] = replace(replica, checkpoint_state="not-collected")
