"""What is read of a segment: batches, runs of them, and where it ends. Offsets are record offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class BatchHeader(NamedTuple):
    """One record batch as its header tells it (magic 2), or one entry of a legacy message set (magic 0, 1).

    `last_offset` is inclusive. `leader_epoch` is -1 where the format has none. For a compressed legacy entry only the
    last offset is stored: `base_offset` is then the lower bound that the entry before it leaves.
    `crc_valid` is None where the checksum was not verified. `record_count` is None where the text does not tell it.
    """

    position: int
    base_offset: int
    last_offset: int
    size_bytes: int
    magic: int
    leader_epoch: int
    record_count: int | None
    max_timestamp_ms: int
    crc: int
    crc_valid: bool | None
    codec: str
    is_transactional: bool
    is_control: bool
    producer_id: int
    producer_epoch: int
    base_sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Where a segment, or its text, stops being a log. Always the last item that a reader yields.

    `code` is one of `torn-batch`, `trailing-bytes`, `zero-filled-tail`, `bad-batch-length`, `bad-batch-header`,
    `offsets-not-increasing`, `dump-truncated`, `dump-malformed`. `byte_offset` is a position in the segment (also when it was read from
    text);
    `line` is a line of the text, counted from 1.
    """

    code: str
    detail: str
    byte_offset: int | None = None
    line: int | None = None


class BatchRun(NamedTuple):
    """Consecutive batches of one segment with one leader epoch and no offset missing between them.

    Offsets are inclusive at both ends. Timestamps are the smallest and largest of the batches' max timestamps, in milliseconds.
    `magic` is the newest format in the run. `intact` is False where the run is batches whose CRC does not match.
    """

    leader_epoch: int
    first_offset: int
    last_offset: int
    batch_count: int
    record_count: int
    size_bytes: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    magic: int
    intact: bool


class Window(NamedTuple):
    """The batches that begin in one window of offsets, and a digest of them.

    `window_start_offset` is inclusive, `window_end_offset` exclusive; their difference is a power of two and divides both (but for the
    window at the very end of 64 bits, whose end is one less). `digest` is a signed 64-bit number, the sum of a number for each batch.
    """

    window_start_offset: int
    window_end_offset: int
    digest: int
    batch_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One segment as it was read: its runs in file order, digests of its batches, and whether the reader stopped before its end.

    `base_offset` is the number in the file name. `swap` marks a `.swap` file, a finished replacement that was not yet renamed.
    """

    base_offset: int
    runs: tuple[BatchRun, ...]
    damaged: bool = False
    swap: bool = False
    windows: tuple[Window, ...] = ()

    @property
    def next_offset(self) -> int:
        """The offset after the last batch; the base offset of a segment without batches (LogSegment.readNextOffset)."""
        return self.runs[-1].last_offset + 1 if self.runs else self.base_offset
