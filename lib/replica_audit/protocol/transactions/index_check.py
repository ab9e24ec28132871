"""An index of aborted transactions against the segment beside which it lies.

Sources: LogSegment.updateTxnIndex and recover, ProducerAppendInfo.appendEndTxnMarker (storage, 4.2.0): an entry is written for each ABORT
marker that ends a transaction with records. A read_committed consumer is told of aborted records by this index alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from replica_audit.model import AbortedTransaction, BatchHeader

_Aborts = dict[int, tuple[int, int | None]]  # by offset of the marker: producer id, first offset; None: it began below the log start


def index_contradictions(
    entries: Sequence[AbortedTransaction],
    batches: Iterable[tuple[BatchHeader, bool | None]],
    open_before: Mapping[int, int],
    *,
    log_start_offset: int,
    is_sealed: bool,
) -> Iterator[str]:
    """Where an index contradicts the log.

    Args:
        entries: of the index.
        batches: of its segment, whole, each with whether it is a marker that aborts (None: no marker). It was never compacted.
        open_before: by producer id the first offset of each transaction that is open where the segment begins.
        log_start_offset: where the log begins.
        is_sealed: whether a segment follows, so that nothing can have been added to this one after the index was copied.
    """
    aborts, other, end = _aborts(batches, open_before)
    for entry in entries:
        if entry.last_offset >= end:
            continue  # the copy of the log is older
        producer, first = aborts.get(entry.last_offset, (None, None))
        if producer != entry.producer_id:
            what = "a COMMIT marker" if other.get(entry.last_offset) == entry.producer_id else "no ABORT marker"
            yield f"producer {entry.producer_id} aborted at offset {entry.last_offset}, where the log has {what} of it"
        elif first is not None and first != entry.first_offset and entry.first_offset >= log_start_offset:
            yield (
                f"the transaction of producer {entry.producer_id} that aborted at offset {entry.last_offset} began at offset "
                f"{entry.first_offset}, by the log at {first}"
            )
    known = {entry.last_offset for entry in entries}
    for offset, (producer, first) in aborts.items():
        is_told = offset in known or first is None
        if not is_told and (is_sealed or any(later > offset for later in known)):
            yield f"the transaction of producer {producer} that aborted at offset {offset} is not in it: its records are read as committed"


def _aborts(batches: Iterable[tuple[BatchHeader, bool | None]], open_before: Mapping[int, int]) -> tuple[_Aborts, Mapping[int, int], int]:
    """The aborted transactions, the producers of the other markers by offset, and the offset behind the last batch."""
    opened, aborts, other, end = dict(open_before), _Aborts(), dict[int, int](), 0
    for batch, is_abort in batches:
        end = batch.last_offset + 1
        if is_abort is not None:
            first = opened.pop(batch.producer_id, None)
            if is_abort:
                aborts[batch.base_offset] = (batch.producer_id, first)
            else:
                other[batch.base_offset] = batch.producer_id
        elif batch.is_transactional and not batch.is_control:
            opened.setdefault(batch.producer_id, batch.base_offset)
    return aborts, other, end
