"""Everything below one broker's folder: its replica directories with their small files read, and what cannot be used.

Files are known by name and content. Nothing here decides about the protocol, and nothing raises for what a user's disk may hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from replica_audit.errors import MetadataError
from replica_audit.files.locations import located
from replica_audit.files.tree_walk import Folder, cannot_read, walk
from replica_audit.formats.collection.broker_folder import (
    CollectedLogDir,
    as_on_the_broker,
    log_dirs_of,
    problem_on_the_broker,
)
from replica_audit.formats.collection.collection_manifest import MANIFEST, SEGMENTS_FILE, is_collected_log_dir
from replica_audit.formats.dump import replica_names
from replica_audit.formats.dump.dump_texts import DumpTexts
from replica_audit.formats.log_dir import checkpoints
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.small_files import NO_CHECKPOINT, NO_FILES, EpochCheckpoint, LogDirFiles, SmallFiles, why_offline
from replica_audit.model import Problem, ReplicaFiles, SegmentFile

_OF_A_LOG_DIR = (log_dir.META_PROPERTIES, log_dir.CLEAN_SHUTDOWN, *log_dir.OFFSET_CHECKPOINTS)
_NO_MANIFEST = "no manifest names it: collect was ended before it was done, or what it wrote was copied in part"
_COPY_AGAIN = "copy the whole folder again; or collect again"


class ServerLog(NamedTuple):
    """A log that the broker wrote of itself, packed if its name ends with `.gz`."""

    path: Path


def replicas_of(folder: Path, *, is_replica: bool = False) -> Iterator[ReplicaFiles | ServerLog | Problem]:
    """Walk one broker's folder; or, with `is_replica`, what is known to be one replica's.

    Yields:
        One `ReplicaFiles` per replica directory, with its own problems in it, one `ServerLog` per log of the broker itself, and one
        `Problem` for each that belongs to no replica.
    """
    walk = _Walk()
    yield from walk.run(folder, is_replica=is_replica)


class _Walk:
    def __init__(self) -> None:
        self.log_dirs: dict[str, LogDirFiles] = {}
        self.parents: dict[str, None] = {}  # of replicas, and log directories; in the order found
        self.problems: list[Problem] = []
        self.replicas: dict[tuple[str, str], ReplicaFiles] = {}
        self.collected: dict[str, CollectedLogDir] = {}  # log directories of a collection, by where they are now
        self.small = SmallFiles()
        self.texts = DumpTexts(self.problems)
        self.empty: list[Folder] = []
        self.described: set[str] = set()  # log directories of which a replica's partition.metadata was copied

    def run(self, top: Path, *, is_replica: bool) -> Iterator[ReplicaFiles | ServerLog | Problem]:
        self.texts.top = top
        for folder in walk(top, self.problems.append, self._is_entered, log_dir.is_opened):
            self._visit(folder, is_top=folder.path == top and not is_replica)
        self._add_empty_replicas()
        self.texts.attach(self.replicas, list(self.parents), self._is_among_replicas, self._only_dumped)
        self._tell_missing_from_not_collected()
        self.texts.tell_unused()
        if not (self.replicas or self.log_dirs or self.texts.server_logs or self.problems):
            remedy = "copy the broker's log directories into it; leave the folder out if the broker has none"
            self._tell(top, "directory", "empty-broker-folder", "neither this folder nor those below it hold anything of a broker", remedy)
        yield from (as_on_the_broker(replica, self.collected.get(replica.log_dir)) for replica in self.replicas.values())
        yield from (ServerLog(path) for path in self.texts.server_logs)
        yield from (problem_on_the_broker(problem, self.collected.values()) for problem in self.problems)

    def _is_entered(self, folder: Folder) -> bool:
        """Kafka never looks below a replica directory, nor does the audit; what is in a collection its manifest says."""
        return (str(folder.path.parent), folder.path.name) not in self.replicas and not self._is_collected(folder)

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

    def _open_collection(self, folder: Folder) -> bool:
        """Learn what is in a collection; False if the manifest is not one of ours."""
        try:
            manifest, found = log_dirs_of(folder.path)
        except OSError as error:
            self.problems.append(cannot_read(folder.path / MANIFEST, "collection", error))
            return True
        except MetadataError as error:
            if any((folder.path / name / SEGMENTS_FILE).exists() for name in folder.folders):
                self._tell(folder.path / MANIFEST, "collection", "malformed", error.reason, _COPY_AGAIN)
                return True
            return False
        self.collected |= found
        for unread in (*manifest.unread, *(one for said in manifest.log_dirs for one in said.unread if one.kind == "directory")):
            self.problems.append(cannot_read(Path(unread.path), unread.kind, OSError(0, unread.reason)))
        return True

    def _collected_log_dir(self, folder: Folder) -> None:
        """A log directory of a collection: small files as copied, segments as scanned on the broker."""
        store = self.collected.get(str(folder.path))
        reason = _NO_MANIFEST if store is None else store.problem()
        if store is None or reason:
            self._tell(folder.path, "collection", "incomplete-collection", f"left out: {reason}", _COPY_AGAIN)
            return
        try:
            segments = store.segment_files()
        except OSError as error:
            self.problems.append(cannot_read(store.store, "collection", error))
            return
        self.small.unread |= store.unread()
        self._log_dir(store.listed())
        if store.lacks_indexes(segments):
            detail = "some batch indexes are missing: what a truncation removes is known by offsets, not by batches"
            self._tell(store.store, "collection", "no-batch-index", detail, "collect without --no-batch-index, and copy the whole folder")
        for replica in store.said.replicas:
            name = log_dir.replica_directory(replica.directory)
            if name:
                self._replica(store.listed(replica), name, tuple(segments[replica.directory]))

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
        return replica_names.of_folder(folder.path.name) is not None or self._is_among_replicas(folder.path)

    def _is_among_replicas(self, path: Path) -> bool:
        """Whether a folder is a replica, or lies in a log directory as its checkpoints show: nothing else named like a replica does."""
        found = self.log_dirs.get(str(path.parent))
        return (str(path.parent), path.name) in self.replicas or (found is not None and bool(found.offsets))

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
                    detail=f"no TOPIC-PARTITION is known for the folder; segments left out: {len(segments)}",
                    remedy="put them into a folder named after their TOPIC-PARTITION, beside its leader-epoch-checkpoint",
                )
            )
        parsers: dict[str, Callable[[bytes], object]] = {
            log_dir.EPOCH_CHECKPOINT: checkpoints.leader_epoch_lines,
            log_dir.PARTITION_METADATA: checkpoints.topic_id,
        }
        for file, parser in parsers.items():
            if file in folder.files and self.small.parse(folder.path / file, parser, self.problems) is not None:
                remedy = "put it into the replica directory that it belongs to"
                self._tell(folder.path / file, file, "misplaced", "is not in a replica directory, and is not used", remedy)

    def _tell(self, path: Path, kind: str, code: str, detail: str, remedy: str) -> None:
        self.problems.append(Problem(path=str(path), kind=kind, code=code, detail=detail, remedy=remedy))

    def _log_dir(self, folder: Folder) -> None:
        path = folder.path
        found = self.log_dirs.setdefault(str(path), LogDirFiles())
        self.parents[str(path)] = None
        self.small.marks(folder, found, self.problems)
        if log_dir.META_PROPERTIES in folder.names:
            self.small.parse(path / log_dir.META_PROPERTIES, checkpoints.meta_properties, self.problems)
        self.small.offset_checkpoints(folder, found, self.problems)

    def _replica(self, folder: Folder, name: log_dir.ReplicaDirectory, collected: tuple[SegmentFile, ...] | None = None) -> None:
        path, parent = folder.path, str(folder.path.parent)
        self.parents[parent] = None
        problems: list[Problem] = []
        checkpoint = self.small.epoch_checkpoint(folder, problems)
        segments = tuple(_segments(folder, problems, self.texts.takes_segment)) if collected is None else collected
        topic_id = None
        if log_dir.PARTITION_METADATA in folder.names:
            self.described.add(parent)
            topic_id = self.small.parse(path / log_dir.PARTITION_METADATA, checkpoints.topic_id, problems)
        if any(file in folder.files for file in log_dir.OFFSET_CHECKPOINTS):  # a copy of one partition, made by hand
            self.small.offset_checkpoints(folder, self.log_dirs.setdefault(str(path), LogDirFiles()), problems)
        for nested in folder.folders:
            if not log_dir.segment_name(nested) and nested not in (log_dir.EPOCH_CHECKPOINT, log_dir.PARTITION_METADATA):
                detail = "a folder in a replica directory is not read; a broker does not read it either"
                self._tell(path / nested, "directory", "folder-in-a-replica", detail, "none, if it is not a replica; else move it out")
        found = self._files(path, parent, name, segments=segments, topic_id=topic_id, checkpoint=checkpoint, problems=problems)
        told = log_dir.producer_files(folder.files) if collected is None else ()
        self.replicas[(found.log_dir, found.directory)] = replace(found, producer_files=told) if told else found

    def _files(
        self,
        path: Path,
        parent: str,
        name: log_dir.ReplicaDirectory,
        *,
        segments: tuple[SegmentFile, ...],
        topic_id: str | None,
        checkpoint: EpochCheckpoint,
        problems: list[Problem],
    ) -> ReplicaFiles:
        """A replica with the entries of its log directory's offset checkpoints."""
        owner, own = (self.log_dirs.get(place) or NO_FILES for place in (parent, str(path)))
        collected = {*owner.offsets, *own.offsets}

        def offset(file: str) -> int | None:
            found = [one.offset(file, (name.topic, name.partition)) for one in (owner, own)]
            return found[1] if found[0] is None else found[0]

        offline = owner.offline_reason or own.offline_reason
        if checkpoint.state == "unreadable":
            offline = why_offline(log_dir.EPOCH_CHECKPOINT, problems[0])
        return ReplicaFiles(
            log_dir=parent,
            directory=path.name,
            topic=name.topic,
            partition=name.partition,
            state=name.state,
            topic_id=topic_id,
            segments=segments,
            checkpoint_state=checkpoint.state,
            checkpoint=tuple(checkpoint.lines),
            epochs=checkpoint.epochs,
            high_watermark=offset(log_dir.HIGH_WATERMARKS),
            high_watermarks_collected=log_dir.HIGH_WATERMARKS in collected,
            recovery_point=offset(log_dir.RECOVERY_POINTS),
            log_start_offset=offset(log_dir.LOG_STARTS),
            cleaner_offset=offset(log_dir.CLEANER_OFFSETS),
            cleaner_offsets_collected=log_dir.CLEANER_OFFSETS in collected,
            clean_shutdown=owner.clean_shutdown,
            clean_shutdown_epoch=owner.clean_shutdown_epoch,
            has_lock=owner.has_lock,
            offline_reason=offline,
            problems=tuple(problems),
        )

    def _only_dumped(self, parent: str, directory: str, name: log_dir.ReplicaDirectory) -> ReplicaFiles:
        """A replica without files of its own: text of kafka-dump-log, perhaps with the offset checkpoints of its log directory."""
        path = located(parent) / directory
        return self._files(path, str(path.parent), name, segments=(), topic_id=None, checkpoint=NO_CHECKPOINT, problems=[])

    def _tell_missing_from_not_collected(self) -> None:
        """Where no replica of a log directory has any small file, none was copied; where some have, the checkpoint is missing."""
        copied = self.described | {replica.log_dir for replica in self.replicas.values() if replica.checkpoint_state != "missing"}
        for key, replica in self.replicas.items():
            if replica.checkpoint_state == "missing" and replica.log_dir not in copied:
                self.replicas[key] = replace(replica, checkpoint_state="not-collected")


def _segments(folder: Folder, problems: list[Problem], is_text: Callable[[Path], bool]) -> Iterator[SegmentFile]:
    """The segment files that count, except those that are text."""
    for file, name in log_dir.counted_segments(folder.names, beside=folder.files):
        path = folder.path / file
        if file not in folder.files:
            problems.append(cannot_read(path, "segment", OSError(0, "is not a regular file")))
            continue
        try:
            size = path.stat().st_size
        except OSError as error:
            problems.append(cannot_read(path, "segment", error))
            continue
        if not is_text(path):
            yield SegmentFile(path=str(path), source="raw", base_offset=name.base_offset, size_bytes=size, swap=name.suffix == ".swap")
