"""When an entry of an offset index or a time index leads a broker past records.

Sources: LogSegment.translateOffset and findOffsetByTimestamp, OffsetIndex.lookup, TimeIndex.lookup (0.10.1 to 4.0).
A lookup takes an entry that is not above what is looked for, wherever the entry stands, and the log is searched from its batch on. So each
entry is right or wrong by itself. One that points too early only takes longer: brokers write one for all that was appended at once, with
the position of the first batch, and since 2.0 the offset of the last.

Written so that the same functions take numbers of Python and whole columns.
"""

from __future__ import annotations


def skips_offsets(offset: int, *, last_before: int, begins_batch: bool) -> bool:
    """Whether a read of an offset, or of a later one, that follows an entry does not find its batch.

    Args:
        offset: of the entry.
        last_before: the last offset of the batches that begin before its position; below every offset if there are none.
        begins_batch: whether a batch begins at its position.
    """
    return (last_before >= offset) | (begins_batch ^ True)


def skips_times(timestamp: int, *, newest_before: int) -> bool:
    """Whether a search for a timestamp that follows an entry passes over a record that is as new.

    Args:
        timestamp: of the entry.
        newest_before: the largest timestamp of the batches that end before its offset; below every timestamp if there are none.
    """
    return newest_before > timestamp
