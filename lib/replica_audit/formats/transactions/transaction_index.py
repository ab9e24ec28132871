"""Indexes of aborted transactions (`%020d.txnindex`), one beside each segment that holds markers of such.

Sources: TransactionIndex, AbortedTxn (storage, 4.2.0), of whose version Kafka looks at the first byte only.
"""

from __future__ import annotations

import struct

from replica_audit.errors import SegmentError
from replica_audit.model import AbortedTransaction

_ENTRY = struct.Struct(">bxqqqq")
ENTRY_BYTES = _ENTRY.size


def aborted_transactions(data: bytes, base_offset: int) -> tuple[tuple[AbortedTransaction, ...], SegmentError | None]:
    """The entries of an index in order, and what ends the reading before the end of the file, if anything does.

    Args:
        data: the bytes of the file.
        base_offset: of its segment: no marker lies below it (TransactionIndex.sanityCheck).
    """
    found: list[AbortedTransaction] = []
    for at in range(0, len(data) - ENTRY_BYTES + 1, ENTRY_BYTES):
        version, *values = _ENTRY.unpack_from(data, at)
        entry = AbortedTransaction(*values)
        reason = _refused(version, entry, base_offset, found[-1].last_offset if found else -1)
        if reason:
            return tuple(found), SegmentError(reason, byte_offset=at)
        found.append(entry)
    left = len(data) % ENTRY_BYTES
    torn = SegmentError(f"{left} bytes behind the last entry of {ENTRY_BYTES}", byte_offset=len(data) - left) if left else None
    return tuple(found), torn


def _refused(version: int, entry: AbortedTransaction, base_offset: int, last: int) -> str | None:
    if version > 0:
        return f"version {version} of an aborted transaction is not known, only 0 is"
    if entry.last_offset < base_offset:
        return f"a transaction that ends at offset {entry.last_offset}, below the segment's base offset {base_offset}"
    if entry.last_offset <= last:
        return f"a transaction that ends at offset {entry.last_offset} behind one that ends at {last}"
    return None
