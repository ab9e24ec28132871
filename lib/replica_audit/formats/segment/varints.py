"""Numbers of variable length: seven bits a byte, the lowest first, as Kafka's ByteUtils reads them (clients, 4.2.0)."""

from __future__ import annotations

from replica_audit.errors import SegmentError

INT_BYTES, LONG_BYTES = 5, 10  # the most that one of 32, of 64 bits may have


def unsigned(data: bytes, at: int, most: int = INT_BYTES) -> tuple[int, int]:
    """A number, and where it ends.

    Args:
        data: the bytes.
        at: where it begins.
        most: bytes that it may have.

    Raises:
        SegmentError: it has more.
        IndexError: the bytes end inside it.
    """
    byte = data[at]
    number, begin, at = byte & 0x7F, at, at + 1
    while byte & 0x80:
        if at - begin == most:
            raise SegmentError("a variable-length number without an end")
        byte = data[at]
        number, at = number | (byte & 0x7F) << 7 * (at - begin), at + 1
    return number, at


def zigzag(data: bytes, at: int, most: int = LONG_BYTES) -> tuple[int, int]:
    """The same for a number that has a sign, which is its lowest bit."""
    number, at = unsigned(data, at, most)
    return (number >> 1) ^ -(number & 1), at
