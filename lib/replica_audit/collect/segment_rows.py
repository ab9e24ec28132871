"""The rows of a log directory's segments: each reused from an earlier collection, or read."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from replica_audit.collect.file_identity import ReadCause
from replica_audit.collect.output import Output, writing
from replica_audit.collect.rows_file import SegmentFacts, row_content
from replica_audit.collect.segment_capture import Listed, Read, SegmentCapture
from replica_audit.collect.segment_reuse import ReusedSegment, SegmentReuse, checksum_of
from replica_audit.formats.collection.broker_folder import index_path


class SegmentRow(NamedTuple):
    """A segment as it was captured, its row as text, and why it was read; None: it was reused, or there is no earlier collection."""

    read: Read
    content: bytes
    cause: ReadCause | None
    is_reused: bool


class SegmentRows:
    """Makes rows, and what is kept beside them: indexes of batches, or copies of segments."""

    def __init__(
        self,
        folder: Path,
        output: Output,
        segments: SegmentCapture,
        reuse: SegmentReuse | None,
        verifying: SegmentCapture,
        *,
        has_index: bool,
    ) -> None:
        """Make the rows of a log directory.

        Args:
            folder: in the output.
            output: the collection.
            segments: reads them.
            reuse: reuses segments of an earlier collection; None if there is none.
            verifying: reads those whose CRCs are to be verified again.
            has_index: whether indexes of batches are made.
        """
        self._folder, self._output, self._segments, self._reuse, self._verifying = folder, output, segments, reuse, verifying
        self._has_index = has_index

    @property
    def is_live(self) -> bool:
        """Whether a broker is at work in the log directory."""
        return self._segments.is_live

    def make(self, directory: str, listed: Listed, *, is_copied: bool) -> SegmentRow:
        """Make the row of one segment of a replica directory, which is copied whole or indexed.

        Raises:
            FileNotFoundError, ChangedError, NotAFileError, LinkOutsideError, OutputError: as `SegmentCapture.capture`.
        """
        self._output.check_room()
        index = self._index_of(directory, listed.name) if self._has_index and not is_copied else None
        copy = self._folder / directory / listed.name if is_copied else None
        for path in (index, copy):
            if path is not None:
                self._output.make_folder(path.parent)
        reused = self._reuse.reuse(directory, listed, index=index, copy=copy) if self._reuse is not None else None
        if isinstance(reused, ReusedSegment):
            return SegmentRow(reused.read, reused.content, None, is_reused=True)
        read, content = self._read(self._verifying if reused is ReadCause.DUE else self._segments, listed, index, copy)
        return SegmentRow(read, content, reused, is_reused=False)

    @staticmethod
    def _read(segments: SegmentCapture, listed: Listed, index: Path | None, copy: Path | None) -> tuple[Read, bytes]:
        read, found = segments.capture(listed, index=index, copy=copy)
        kept = index or copy
        index_bytes = checksum = None
        if kept is not None:
            with writing(kept):
                if not read.failed:
                    index_bytes = index.stat().st_size if index is not None else None
                    checksum = checksum_of(kept)
                elif index is not None:
                    index.unlink(missing_ok=True)
        facts = SegmentFacts(
            name=listed.name,
            base_offset=listed.file.base_offset,
            swap=listed.name.endswith(".swap"),
            size_bytes=read.size_bytes,
            index_bytes=index_bytes,
            identity=read.identity,
            verified_at_ms=read.verified_at_ms,
            kept_crc32c=checksum,
        )
        return read, row_content(facts, found)

    def forget(self, directory: str, name: str) -> None:
        """Remove the batch index and the copy of a segment.

        Raises:
            OutputError: it cannot be removed.
        """
        for path in (self._index_of(directory, name), self._folder / directory / name):
            with writing(path):
                path.unlink(missing_ok=True)

    def _index_of(self, directory: str, name: str) -> Path:
        return self._folder / index_path(directory, name)
