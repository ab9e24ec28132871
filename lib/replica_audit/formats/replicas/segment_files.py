"""The segment files of a replica directory that count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from replica_audit.files.opened import status
from replica_audit.files.tree_walk import Folder, cannot_read
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.model import Problem, SegmentFile


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
