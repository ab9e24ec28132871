"""What `collect` wrote of segments and a collection lacks: batch indexes and copies that were lost, and indexes that were never made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from replica_audit.formats.collection.collected_rows import COPY_AGAIN
from replica_audit.formats.collection.collection_manifest import SEGMENTS_FILE
from replica_audit.model import INCOMPLETE_COLLECTION, Problem

BATCHES_FOLDER = "batches"
_BY_OFFSETS = "what a truncation removes is known by offsets, not by batches"


def index_path(directory: str, file_name: str) -> str:
    """Where a segment's batch index lies in its log directory: `batches/orders-0/00000000000000000000.parquet`, or `...swap.parquet`."""
    return f"{BATCHES_FOLDER}/{directory}/{file_name.replace('.log', '', 1)}.parquet"


@dataclass(slots=True)
class MissingFiles:
    """Of one log directory: the files that were written and are not here, or not as long as they were; by their paths in it.

    `never_made`: whether a segment was collected with neither an index of its batches nor a copy.
    """

    indexes: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    never_made: bool = False

    def add_index(self, directory: str, name: str) -> None:
        """The batch index of a segment is missing."""
        self.indexes.append(index_path(directory, name))

    def add_copy(self, directory: str, name: str) -> None:
        """The copy of a segment is missing."""
        self.copies.append(f"{directory}/{name}")

    def problems(self, folder: Path) -> Iterator[Problem]:
        """What is to be reported of it; `folder` is where the log directory is now."""
        if self.never_made:
            yield Problem(
                path=str(folder / SEGMENTS_FILE),
                kind="collection",
                code="no-batch-index",
                detail=f"segments were collected without an index of their batches: {_BY_OFFSETS}",
                remedy="collect without --no-batch-index, and copy the whole folder",
            )
        if self.indexes:
            yield _lost(folder, "batch indexes", self.indexes, f"; there {_BY_OFFSETS}")
        if self.copies:
            yield _lost(folder, "copied segments", self.copies, "")


def _lost(folder: Path, what: str, paths: Sequence[str], effect: str) -> Problem:
    detail = f"{what} that are missing, or not as long as they were: {len(paths)}; the first is {min(paths)}{effect}"
    return Problem(path=str(folder), kind="collection", code=INCOMPLETE_COLLECTION, detail=detail, remedy=COPY_AGAIN)
