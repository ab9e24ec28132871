"""What a log holds, in few numbers: one digest for each offset-aligned window, equal where two replicas have equal batches.

A window is 2**WINDOW_BITS offsets wide and begins at a multiple of its width. Its digest is the sum, modulo 2**64, of a 64-bit mix of every
batch that begins in it: base offset, last offset delta and stored CRC. A sum does not depend on where segments begin or end, so the
windows of a log are those of its segments, added up (`content.merged`).

What is not seen: the leader epoch, which runs tell; payloads that differ and have the same 32-bit CRC; bytes that no longer match their
stored CRC, which only verifying CRCs tells; the magic byte and the length, which are outside the CRC. Equal digests are thus strong
evidence, not proof: sets of batches that differ in these three values collide by chance only, once in 2**64.

Of an entry of magic 0 or 1 the stored offset counts as both, for a compressed one that is its last: where that begins is not stored, and
what a reader takes for it depends on the segment. The CRC of these formats covers all but offset and length.

Why 2**16: a GiB is then 16 to 100 windows, of 26 bytes each in Parquet, and to find the batch in which two windows differ takes at most
65,536 headers, half a second even in Python. Two bits less make four times as many rows; two more make four times as much of a log's two
ends, where replicas do not reach equally far, comparable by reading headers only.
"""

from __future__ import annotations

from typing import Any

from replica_audit.model import BatchHeader, Window
from replica_audit.protocol.comparison.content import add_digest, window

WINDOW_BITS = 16
MAX_WINDOWS = 4096  # per segment; Kafka lets a segment span 2**31 offsets, which only a compacted one needs
SEED, FIRST_FACTOR, SECOND_FACTOR = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of SplitMix64
_MASK = (1 << 64) - 1


def batch_digest(batch: BatchHeader) -> int:
    """What one batch adds to the digest of its window: 0 to 2**64 - 1."""
    first = digest_offset(batch)
    found: int = digest(first, batch.last_offset - first, batch.crc)
    return found


def digest_offset(batch: BatchHeader) -> int:
    """The offset by which a batch belongs to a window."""
    return batch.base_offset if batch.magic == 2 else batch.last_offset


def digest(first: Any, delta: Any, crc: Any) -> Any:
    """The digest of a batch by the offset that it counts by, how many offsets further its last one is, and its stored CRC.

    All are numbers of Python, unsigned 64-bit numbers of compiled code, or columns of such.
    """
    return mixed(mixed(first + SEED) ^ (crc << 32 | delta))


def mixed(x: Any) -> Any:
    """The finalizer of SplitMix64: a bijection of 64-bit numbers in which every bit of x changes half of the result."""
    x &= _MASK
    x = (x ^ x >> 30) * FIRST_FACTOR & _MASK
    x = (x ^ x >> 27) * SECOND_FACTOR & _MASK
    return x ^ x >> 31


class WindowSums:
    """The windows of one segment while it is read, in bounded memory.

    Beyond MAX_WINDOWS windows their width is doubled, for all of the segment, until they are few enough.
    """

    def __init__(self) -> None:
        self._bits = WINDOW_BITS
        self._sums: dict[int, tuple[int, int]] = {}  # by number of the window: digest, batch count

    def add_batch(self, batch: BatchHeader) -> None:
        """Count a batch in the window that it begins in."""
        self.add(digest_offset(batch) >> WINDOW_BITS, batch_digest(batch), 1)

    def add(self, number: int, digest: int, batch_count: int) -> None:
        """Count batches in the window that begins at offset `number` << WINDOW_BITS; they may be the rest of those counted before."""
        number >>= self._bits - WINDOW_BITS
        add_digest(self._sums, number, digest, batch_count)
        while len(self._sums) > MAX_WINDOWS:
            finer, self._sums = self._sums, {}
            self._bits += 1
            for number, sums in finer.items():
                add_digest(self._sums, number >> 1, *sums)

    def windows(self) -> tuple[Window, ...]:
        """The windows that hold batches, by offset."""
        return tuple(window(number, self._bits, *sums) for number, sums in sorted(self._sums.items()))
