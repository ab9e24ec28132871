"""What lies in a replica's directory, by a reader of the laboratory's own: expectations must not come from the code under test."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct(">qiibIhiqqqhii")


class FileBatch(NamedTuple):
    """A batch of format v2; `content` is all of it."""

    base: int
    last: int
    epoch: int
    records: int
    content: bytes


def batches(directory: Path) -> list[FileBatch]:
    """The whole batches of all segments, in order; a torn one at the end of a segment is left out."""
    return [batch for segment in sorted(directory.glob("*.log")) for batch in _of_segment(segment.read_bytes())]


def _of_segment(content: bytes) -> Iterator[FileBatch]:
    at = 0
    while at + _HEADER.size <= len(content):
        base, length, epoch, magic, _crc, _attributes, last_delta, *_, records = _HEADER.unpack_from(content, at)
        end = at + 12 + length
        if magic != 2 or length < _HEADER.size - 12 or end > len(content):
            return
        yield FileBatch(base, base + last_delta, epoch, records, content[at:end])
        at = end


def epoch_runs(found: list[FileBatch]) -> list[tuple[int, int]]:
    """(epoch, first offset) of each run of batches of one epoch."""
    return [(epoch, next(run).base) for epoch, run in groupby(found, key=lambda batch: batch.epoch)]


def checkpointed_epochs(directory: Path) -> list[tuple[int, int]]:
    """The entries of leader-epoch-checkpoint; none if there is no file."""
    file = directory / "leader-epoch-checkpoint"
    lines = file.read_text().splitlines()[2:] if file.exists() else []
    return [(int(epoch), int(start)) for epoch, start in (line.split() for line in lines)]


def replica_directories(root: Path) -> dict[tuple[str, int, int], Path]:
    """Directories by topic, partition and broker, in a root with one folder per broker. Those with a suffix are left out."""
    found = {}
    for folder in root.glob("broker-*/data-*/*-*"):
        topic, _, partition = folder.name.rpartition("-")
        if folder.is_dir() and partition.isdigit():
            found[topic, int(partition), int(folder.parents[1].name.split("-")[1])] = folder
    return found


def log_start_offset(directory: Path) -> int:
    """From log-start-offset-checkpoint, else the base offset of the first segment; 0 where there is neither."""
    found = _offset(directory, "log-start-offset-checkpoint")
    return min((int(segment.stem) for segment in directory.glob("*.log")), default=0) if found is None else found


def _offset(directory: Path, name: str) -> int | None:
    """The entry of a replica in a checkpoint of its log directory."""
    file, (topic, _, partition) = directory.parent / name, directory.name.rpartition("-")
    for line in file.read_text().splitlines()[2:] if file.exists() else []:
        if line.split()[:2] == [topic, partition]:
            return int(line.split()[2])
    return None


def clipped(entries: list[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """Entries of (epoch, start offset) as far as they are about [start, end)."""
    before = [epoch for epoch, at in entries if at <= start]
    return [(epoch, start) for epoch in before[-1:] if start < end] + [(epoch, at) for epoch, at in entries if start < at < end]
