"""The records of a part of a log by how their transactions ended, according to the log itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from replica_audit.model import BatchHeader, Producers
from replica_audit.protocol.epochs.lineage import Span
from replica_audit.protocol.exchange.cuts import RecordsWithin
from replica_audit.protocol.salvage.replay_choice import TransactionOutcome
from replica_audit.protocol.salvage.transaction_ends import TransactionEnds
from replica_audit.rows.pairs import RecordsByTransaction


def may_have_transactions(producers: Producers | None, first_offset: int) -> bool:
    """Whether a log may hold records or markers of transactions from an offset on; `producers`: of the whole log, None if not known."""
    if producers is None or producers.untold_batches:
        return True
    return any(one.last_offset >= first_offset and (one.marker_count or one.open_first_offset >= 0) for one in producers.spans)


def records_by_transaction(
    batches: Iterable[tuple[BatchHeader, bool | None]], spans: Sequence[Span], end_offset: int, *, is_end_known: bool
) -> RecordsByTransaction:
    """Count the records that lie in spans of a log.

    Args:
        batches: of the log, in order, from the one that holds the first offset of the spans or any earlier one on, each with what
            `TransactionEnds.add` takes.
        spans: ascending and disjoint. Of a batch that lies in them in part as many records count as offsets.
        end_offset: of the log, exclusive: what lies behind it does not count.
        is_end_known: whether the log ends there. Else nobody knows how a transaction ends of which no marker was read.
    """
    ends, within = TransactionEnds(), RecordsWithin(spans)
    found: Counter[TransactionOutcome] = Counter()
    pending: Counter[int] = Counter()  # by producer id, until a marker tells
    markers = 0
    for batch, is_abort in batches:
        if batch.base_offset >= end_offset:
            break
        records, _ = within.of(batch)
        if within.is_behind and not pending:
            break
        ended = ends.add(batch, is_abort)
        if ended is not None:
            found[ended] += pending.pop(batch.producer_id, 0)
        if batch.is_control:
            markers += records
        elif not batch.is_transactional:
            found[TransactionOutcome.NONE] += records
        elif records:
            pending[batch.producer_id] += records
    found[TransactionOutcome.OPEN if is_end_known else TransactionOutcome.UNKNOWN] += pending.total()
    return RecordsByTransaction(
        committed=found[TransactionOutcome.COMMITTED],
        plain=found[TransactionOutcome.NONE],
        aborted=found[TransactionOutcome.ABORTED],
        open=found[TransactionOutcome.OPEN],
        markers=markers,
        unknown=found[TransactionOutcome.UNKNOWN],
    )
