"""A log directory as a whole: whose it is, how much of it is in the input, and which replicas it says that it has.

Sources: MetaPropertiesEnsemble and KIP-858 (`directory.id`), LogManager.checkpointRecoveryOffsetsInDir and
ReplicaManager.checkpointHighWatermarks: both files name every replica of their directory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import nsmallest
from zlib import crc32

from replica_audit.formats.collection.broker_folder import CollectedLogDir
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.checkpoints import MetaProperties
from replica_audit.formats.log_dir.small_files import LogDirFiles
from replica_audit.model import NOT_OPENED, LogDirectory, Problem

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
        sample=tuple(nsmallest(_SAMPLE, current, key=_spread)),
        without_directory=tuple(lacking[:_MANY]),
    )


def _spread(name: str) -> tuple[int, str]:
    return crc32(name.encode("utf-8", "surrogateescape")), name
