"""The rows of a log directory's segments: each reused from an earlier collection, or read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from replica_audit.collect.file_identity import ReadCause
from replica_audit.collect.output import Output, writing
from replica_audit.collect.pace import Pace
from replica_audit.collect.rows_file import row_content
from replica_audit.collect.segment_capture import Listed, Read, SegmentCapture
from replica_audit.collect.segment_reuse import SegmentReuse, checksum_of
from replica_audit.formats.collection.broker_folder import index_path


class SegmentRows:
    """Makes rows, and what is kept beside them: indexes of batches, or copies of segments."""

    def __init__(
        self,
        folder: Path,
        output: Output,
        pace: Pace,
        reuse: SegmentReuse | None,
        *,
        verify_crc: bool,
        is_live: bool,
        has_index: bool,
    ) -> None:
        """Make the rows of a log directory.

        Args:
            folder: in the output.
            output: the collection.
            pace: to read segments at.
            reuse: reuses segments of an earlier collection; None if there is none.
            verify_crc: whether the CRCs of all that are read are verified, not only of those that are to be verified again.
            is_live: whether a broker is at work in the log directory.
            has_index: whether indexes of batches are made.
        """
        self._folder, self._output, self._reuse, self._has_index = folder, output, reuse, has_index
        self._segments = SegmentCapture(pace, verify_crc=verify_crc, is_live=is_live)
        self._verifying = SegmentCapture(pace, verify_crc=True, is_live=is_live)
        self.is_live = is_live

    def make(self, directory: str, listed: Listed, *, is_copied: bool) -> tuple[Read, bytes]:
        """Capture one segment of a replica directory, which is copied whole or indexed, and make its row.

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
        if isinstance(reused, tuple):
            return reused
        read, found = (self._verifying if reused is ReadCause.DUE else self._segments).capture(listed, index=index, copy=copy)
        kept = index or copy
        index_bytes = checksum = None
        if kept is not None:
            with writing(kept):
                if not read.failed:
                    index_bytes = index.stat().st_size if index is not None else None
                    checksum = checksum_of(kept)
                elif index is not None:
                    index.unlink(missing_ok=True)
        return replace(read, cause=reused), row_content(listed, read, found, index_bytes=index_bytes, kept_crc32c=checksum)

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
