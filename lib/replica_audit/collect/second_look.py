"""The end of a log once more, after all replicas of the broker were captured: how far it reached by then, and in which epochs.

What a follower elsewhere holds may have been written after its leader was captured. The second look shows whether the leader held it, too.
It counts only where the log still holds what was captured last: from there on it was only appended to. Read are the headers of the batches
behind that, or, where a new segment was begun, its own; not more than some, for the end so found is a lower bound in any case.
"""

from __future__ import annotations

import os
from pathlib import Path

from replica_audit.collect.pace import Pace
from replica_audit.collect.replica_capture import SMALL_FILES, ReplicaCapture, base_of, now_ms, only_grew, read_small_files
from replica_audit.collect.segment_capture import Read
from replica_audit.errors import CheckpointError, SegmentError
from replica_audit.files.opened import open_folder, open_in
from replica_audit.formats.log_dir import checkpoints
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.segment.record_batch import HEADER_UP_TO_MAGIC, V2_HEADER, decode_header
from replica_audit.model import SecondLook

_MOST_BATCHES = 256  # whose headers are read of one log
_HEADER = V2_HEADER.size


CapturedEnd = tuple[str, Read]  # the newest segment of a replica, by its name, and as far as it was read


def captured_end(found: ReplicaCapture) -> CapturedEnd | None:
    """Where a capture ended; None if its newest segment could not be read."""
    name = max(found.reads, key=base_of, default=None)
    if name is None or found.reads[name].failed or found.reads[name].is_reused:
        return None
    return name, found.reads[name]


def look_again(path: Path, inode: int, captured: CapturedEnd, log_start_checkpoint: int | None, pace: Pace) -> SecondLook | None:
    """Look at the end of a log again.

    Args:
        path: of the replica directory.
        inode: of it, when it was captured.
        captured: where the capture ended.
        log_start_checkpoint: what the broker wrote down of its log start by now, None if nothing.
        pace: to keep.

    Returns:
        None where the directory is another, the log no longer holds the end of the capture, or something of it cannot be read.
    """
    try:
        fd = open_folder(path)
    except OSError:
        return None
    try:
        return _read_end(fd, captured, log_start_checkpoint, pace) if os.fstat(fd).st_ino == inode else None
    except (OSError, CheckpointError):
        return None
    finally:
        os.close(fd)


def _read_end(fd: int, captured: CapturedEnd, log_start_checkpoint: int | None, pace: Pace) -> SecondLook | None:
    name, read = captured
    before = _epoch_table(fd)
    names = [name for name, _parsed in log_dir.counted_segments([name for name in os.listdir(fd) if name.isprintable()])]
    looked_at_ms = now_ms()
    if name not in names or not read.still_holds(os.stat(name, dir_fd=fd), name, fd):
        return None
    newest = max(names, key=base_of)
    at = (read.end, read.next_offset) if newest == name else (0, base_of(newest))
    end = _end_of_log(fd, newest, *at, pace)
    after = _epoch_table(fd)
    # an epoch is in the table before its first batch is in the log, and a truncation takes it away
    if after is None or not only_grew(before, after) or not read.still_holds(os.stat(name, dir_fd=fd), name, fd):
        return None
    entries = [(line.epoch, line.start_offset) for line in checkpoints.leader_epoch_lines(after)]
    covering = max((number for number, entry in enumerate(entries) if entry[1] <= read.next_offset), default=0)
    return SecondLook(
        looked_at_ms=looked_at_ms,
        log_start_offset=max(min(map(base_of, names)), log_start_checkpoint or 0),
        log_end_offset=end,
        epochs=tuple(entries[covering:]),
    )


def _epoch_table(fd: int) -> bytes | None:
    return read_small_files(fd, SMALL_FILES)[0].get(log_dir.EPOCH_CHECKPOINT)


def _end_of_log(fd: int, name: str, position: int, next_offset: int, pace: Pace) -> int:
    """The end of the log behind a byte of its newest segment, as far as whole batches follow it."""
    file = open_in(fd, name)
    try:
        size = os.fstat(file).st_size
        for _ in range(_MOST_BATCHES):
            head = os.pread(file, _HEADER, position)
            pace.wait_for(len(head))
            if len(head) < HEADER_UP_TO_MAGIC:
                break
            batch = decode_header(head.ljust(_HEADER, b"\0"), position, next_offset)
            if batch.base_offset < next_offset or position + batch.size_bytes > size:
                break  # room that was made for batches to come, or one that is being written
            position, next_offset = position + batch.size_bytes, batch.last_offset + 1
    except SegmentError:
        pass
    finally:
        os.close(file)
    return next_offset
