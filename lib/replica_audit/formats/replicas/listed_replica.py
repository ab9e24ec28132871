"""One replica directory, of what it holds itself and of what the files of its log directory say of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.small_files import EpochCheckpoint, LogDirFiles, why_offline
from replica_audit.model import Problem, ReplicaFiles, SegmentFile


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
    collected = {*owner.offsets, *own.offsets}

    def offset(file: str) -> int | None:
        found = [one.offset(file, (name.topic, name.partition)) for one in (owner, own)]
        return found[1] if found[0] is None else found[0]

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
        checkpoint=tuple(held.checkpoint.lines),
        epochs=held.checkpoint.epochs,
        high_watermark=offset(log_dir.HIGH_WATERMARKS),
        high_watermarks_collected=log_dir.HIGH_WATERMARKS in collected,
        recovery_point=offset(log_dir.RECOVERY_POINTS),
        log_start_offset=offset(log_dir.LOG_STARTS),
        cleaner_offset=offset(log_dir.CLEANER_OFFSETS),
        cleaner_offsets_collected=log_dir.CLEANER_OFFSETS in collected,
        clean_shutdown=owner.clean_shutdown,
        clean_shutdown_epoch=owner.clean_shutdown_epoch,
        has_lock=owner.has_lock,
        offline_reason=why_offline(log_dir.EPOCH_CHECKPOINT, held.problems[0]) if is_unreadable else None,
        problems=tuple(held.problems),
    )
