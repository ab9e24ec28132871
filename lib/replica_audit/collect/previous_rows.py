"""The rows of an earlier collection's `segments.parquet`, looked up by replica directory and segment, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from replica_audit.collect.file_identity import FileIdentity
from replica_audit.files.locations import opened
from replica_audit.formats.collection.broker_folder import CollectedLogDir, index_path
from replica_audit.formats.collection.collected_rows import (
    ROWS,
    ForgedError,
    check_file,
    check_scan,
    check_segment,
    errors_as_forged,
    opened_rows,
    reports_descending_offsets,
    runs_fit,
    unpacked,
)

_KEYS = ["capture", "directory"]
_SEGMENT_COLUMNS = ["name", "base_offset", "swap", "size_bytes", "batch_count", "index_bytes", "damaged", "failed", "problems"]
_SEGMENT_COLUMNS += ["identity", "verified_at_ms", "kept_crc32c", *_KEYS]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousSegment:
    """A segment as it was collected: `place` is the position of its row, `identity` is None where none was recorded.

    `index_bytes` is None where there is no index of its batches, `kept_crc32c` where there is neither an index nor a copy.
    """

    name: str
    size_bytes: int
    index_bytes: int | None
    kept_crc32c: int | None
    has_problems: bool
    identity: FileIdentity | None
    verified_at_ms: int | None
    place: tuple[int, int]


class PreviousRows:
    """The rows of one log directory."""

    def __init__(self, log_dir: CollectedLogDir) -> None:
        """Open the rows, and check them against the manifest.

        Raises:
            OSError: they cannot be read, or (ForgedError) are not those that were collected.
        """
        self._log_dir = log_dir
        self._stream = opened(log_dir.store)
        try:
            before = os.fstat(self._stream.fileno())
            problem = log_dir.problem_of_rows()
            if problem is None and not os.path.samestat(before, log_dir.store.stat()):
                problem = "it was replaced meanwhile"
            if problem is not None:
                raise ForgedError(problem)
            with errors_as_forged():
                self._file = opened_rows(self._stream)
                check_file(self._file, log_dir.said.segments_bytes, ROWS)
                self._ranges = self._row_ranges()
        except BaseException:
            self._stream.close()
            raise
        self._directory: tuple[str, dict[str, PreviousSegment]] = ("", {})
        self._segment_group: tuple[int, pa.Table | None] = (-1, None)
        self._full_group: tuple[int, pa.Table | None] = (-1, None)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _group(self, group: int, columns: list[str] | None = None) -> pa.Table:
        found = self._file.read_row_group(group, columns=columns)
        schema = pa.schema([ROWS.field(name) for name in found.schema.names])
        return pa.Table.from_batches([unpacked(rows) for rows in found.to_batches()], schema)

    def _row_ranges(self) -> dict[str, list[tuple[int, int, int]]]:
        """Positions of the rows of each replica directory: row group, first row, end (exclusive)."""
        captures = {directory: replica.capture for directory, replica in self._log_dir.captured.items()}
        found: dict[str, list[tuple[int, int, int]]] = {}
        for group in range(self._file.num_row_groups):
            keys = self._group(group, _KEYS)
            last = None
            for row, key in enumerate(zip(keys["directory"].to_pylist(), keys["capture"].to_pylist(), strict=True)):
                directory, capture = cast("tuple[str, int]", key)
                if captures.get(directory) != capture:
                    last = None
                    continue
                ranges = found.setdefault(directory, [])
                if key == last:
                    ranges[-1] = (group, ranges[-1][1], row + 1)
                else:
                    ranges.append((group, row, row + 1))
                last = key
        return found

    @property
    def path(self) -> str:
        """The log directory's path when it was collected."""
        return self._log_dir.said.path

    def all_segments(self) -> Iterator[tuple[str, str, PreviousSegment]]:
        """Every segment that may be reused, with `path` and its replica directory."""
        for directory in self._ranges:
            for segment in self._segments(directory):
                if segment.identity is not None and not segment.has_problems:
                    yield self.path, directory, segment

    def of(self, directory: str) -> Mapping[str, PreviousSegment]:
        """Segments of a replica directory by name; rows that cannot be of a segment are left out."""
        if self._directory[0] != directory:
            self._directory = (directory, {one.name: one for one in self._segments(directory)})
        return self._directory[1]

    def _segments(self, directory: str) -> Iterator[PreviousSegment]:
        for group, first, end in self._ranges.get(directory, ()):
            try:
                with errors_as_forged():
                    if self._segment_group[0] != group:
                        self._segment_group = (group, self._group(group, _SEGMENT_COLUMNS))
                    rows = cast(pa.Table, self._segment_group[1]).slice(first, end - first).to_pylist()
            except OSError:
                continue  # damaged since it was opened
            for number, row in enumerate(rows, first):
                try:
                    with errors_as_forged():
                        check_segment(row)
                        made = _segment(row, (group, number))
                except ForgedError:
                    continue
                yield made

    def row(self, directory: str, segment: PreviousSegment) -> dict[str, Any]:
        """The whole row of a segment.

        Raises:
            OSError: it cannot be read, or (ForgedError) cannot be the row of this segment.
        """
        group, number = segment.place
        with errors_as_forged():
            if self._full_group[0] != group:
                self._full_group = (-1, None)  # not two of them at a time
                self._full_group = (group, self._group(group))
            table = cast(pa.Table, self._full_group[1]).slice(number, 1)
            (row,) = table.to_pylist()
            runs = cast("pa.ListArray[Any]", table["runs"].combine_chunks())
            check_segment(row)
            check_scan(row, has_runs=runs_fit(runs, [reports_descending_offsets(row)])[0])
            if (row["directory"], row["name"]) != (directory, segment.name):
                raise ForgedError(f"a row of {row['directory']} in the place of one of {directory}")
            if row["batch_count"] != sum(run["batch_count"] for run in row["runs"]):
                raise ForgedError(f"the row of {row['name']} of {directory} contradicts itself")
        return row

    def index(self, directory: str, segment: PreviousSegment) -> Path:
        """Path of the batch index of a segment, if there is one."""
        return self._log_dir.folder / index_path(directory, segment.name)

    def copy(self, directory: str, segment: PreviousSegment) -> Path:
        """Path of the copy of a segment, if there is one."""
        return self._log_dir.folder / directory / segment.name


def _segment(row: Mapping[str, Any], place: tuple[int, int]) -> PreviousSegment:
    identity = row["identity"]
    if identity is not None and None in identity.values():
        raise ForgedError(f"the identity of {row['name']} lacks values")
    same = ("name", "size_bytes", "index_bytes", "kept_crc32c", "verified_at_ms")
    return PreviousSegment(
        **{name: row[name] for name in same},
        has_problems=row["swap"] or row["damaged"] is not False or row["failed"] is not False or bool(row["problems"]),
        identity=FileIdentity(**identity) if identity is not None else None,
        place=place,
    )
