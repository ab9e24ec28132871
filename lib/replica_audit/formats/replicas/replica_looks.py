"""How a replica directory looks from outside: its files by name, size, time and inode; of a collection what was collected of it.

Nothing that is read here is parsed. Two looks that are the same are of directories that a listing and a scan find the same in.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import NamedTuple

from replica_audit.digests import digest
from replica_audit.files.locations import is_stored
from replica_audit.files.tree_walk import Folder
from replica_audit.formats.collection.broker_folder import CollectedLogDir
from replica_audit.formats.collection.collection_manifest import CapturedLogDir, CapturedReplica
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.small_files import LogDirFiles
from replica_audit.model import Appearance, PartitionLook, ReplicaFiles

_NOT_READ = (".index", ".timeindex")  # of a segment: only that they are there can matter
_AT_REST_NS = 2_000_000_000  # a file that was written so shortly before may be written again without looking otherwise
# What each collection says anew of what did not change, or of itself. A new field of a manifest counts unless it is named here.
_MOVING_OF_REPLICA = frozenset({"capture", "captured_at_ms", "verified_at_ms", "taken_over", "second_look", "later"})
_MOVING_OF_LOG_DIR = frozenset(
    {"folder", "segments_bytes", "segments_crc32c", "small_files_bytes", "small_files_crc32c", "file_digests", "replicas"}
)
_OFFSETS = frozenset(log_dir.OFFSET_CHECKPOINTS)
_OF_REPLICA = attrgetter(*(one.name for one in fields(CapturedReplica) if one.name not in _MOVING_OF_REPLICA))
_OF_LOG_DIR = attrgetter(*(one.name for one in fields(CapturedLogDir) if one.name not in _MOVING_OF_LOG_DIR))


class CollectedReplica(NamedTuple):
    """One replica directory of a collection: its log directory, what the manifest says, and segments whose index or copy is missing."""

    store: CollectedLogDir
    said: CapturedReplica
    missing: tuple[str, ...]


class SeenReplicas:
    """The looks of the replica directories of one broker."""

    def __init__(self) -> None:
        """None yet."""
        self._seen: dict[tuple[str, str], PartitionLook] = {}
        self._collected: dict[str, str] = {}  # what is said of log directories of a collection, as digests

    def add(self, folder: Folder, parent: str, name: log_dir.ReplicaDirectory, owner: LogDirFiles) -> None:
        """Look at a replica directory as a broker or a copy has it; `owner` are the files of its log directory, which is `parent`."""
        identity = _of_directory(folder, _of_log_dir(owner, (name.topic, name.partition)))
        look = Appearance(identity=identity, log_dir=parent, directory=folder.path.name)
        self._seen[parent, folder.path.name] = PartitionLook(topic=name.topic, partition=name.partition, look=look)

    def add_collected(
        self, parent: str, name: log_dir.ReplicaDirectory, owner: LogDirFiles, found: CollectedReplica, unread: tuple[str, ...]
    ) -> None:
        """The same of a replica directory of a collection; `unread` are its small files that could not be read on the broker."""
        said = found.said
        if parent not in self._collected:
            self._collected[parent] = digest(_OF_LOG_DIR(found.store.said))
        look = Appearance(
            identity=_of_collected(found, unread, (self._collected[parent], _of_log_dir(owner, (name.topic, name.partition)))),
            log_dir=found.store.said.path,
            directory=said.directory,
            captured_at_ms=said.captured_at_ms,
            verified_at_ms=said.verified_at_ms,
            looked_at_ms=None if said.second_look is None else said.second_look.looked_at_ms,
        )
        self._seen[parent, said.directory] = PartitionLook(topic=name.topic, partition=name.partition, look=look)

    def found(self, copied: Collection[str], replicas: Mapping[tuple[str, str], ReplicaFiles], *, is_sure: bool) -> Iterator[PartitionLook]:
        """All of them, once it is known what their log directories lack.

        Args:
            copied: log directories of which a small file of any replica was copied.
            replicas: those that were read, among them some that only a text tells of.
            is_sure: no text tells of any of the replicas; else nothing can be told of them.
        """
        for key in replicas.keys() - self._seen.keys():
            one = replicas[key]
            yield PartitionLook(
                topic=one.topic, partition=one.partition, look=Appearance(identity=None, log_dir=one.log_dir, directory=one.directory)
            )
        for (parent, _directory), seen in self._seen.items():
            known = seen.look.identity if is_sure else None
            identity = known if known is None or parent in copied else f"{known}, no small files"
            yield seen if identity == seen.look.identity else seen._replace(look=seen.look._replace(identity=identity))


def _of_log_dir(found: LogDirFiles, replica: tuple[str, int]) -> tuple[object, ...]:
    """What the files of a log directory say of one of its replicas."""
    files = map(found.offsets.get, log_dir.OFFSET_CHECKPOINTS)
    offsets = [(False, None) if of_file is None else (True, of_file.get(replica)) for of_file in files]
    return *offsets, found.clean_shutdown, found.clean_shutdown_epoch, found.has_lock, found.is_partly_read


def _of_directory(folder: Folder, beside: tuple[object, ...]) -> str | None:
    """The identity of a replica directory as a broker or a copy has it.

    Args:
        folder: its names.
        beside: what its log directory says of it.

    Returns:
        None if that cannot be told: of a store that knows no inodes, of files that cannot be looked at, or that are being written.
    """
    if is_stored(folder.path) or not _OFFSETS.isdisjoint(folder.names):
        return None
    place, latest = str(folder.path), time.time_ns() - _AT_REST_NS
    files: list[tuple[object, ...]] = []
    for name in folder.files:
        if name.endswith(_NOT_READ):
            continue
        try:
            status = os.stat(f"{place}/{name}")  # noqa: PTH116 - a Path for each of a million files takes longer than to ask
        except OSError:
            return None
        if status.st_mtime_ns > latest:
            return None
        files.append((name, status.st_size, status.st_mtime_ns, status.st_ino))
    return digest((place, folder.files, folder.folders, folder.others, files, beside))


def _of_collected(collected: CollectedReplica, unread: tuple[str, ...], beside: tuple[object, ...]) -> str | None:
    """The identity of a replica directory of a collection, wherever the collection lies.

    What its rows and small files hold is in the digest that the manifest has of them; the manifest has checksums of both files, too. None:
    it has no digest, being of an earlier release, or a file of the log directory lies in it.
    """
    said = collected.said
    if said.digest is None or not _OFFSETS.isdisjoint((*said.files, *unread)):
        return None
    look = said.second_look
    known = _OF_REPLICA(said), look and (look.log_start_offset, look.log_end_offset, look.epochs), unread
    return digest((known, sorted(said.later.items()), collected.missing, beside))
