"""Reading batches of a replica again, where its runs do not tell enough: what a cut takes, and whether fetching then fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.model import BatchHeader, StoredBatch
from replica_audit.partition.known.known_partition import UnreadBatchesError
from replica_audit.partition.pairs.sides import Side
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.comparison.pair import Effect
from replica_audit.protocol.epochs.lineage import Span
from replica_audit.protocol.exchange.cuts import Removal, can_fail_to_append, lies_inside_a_batch, measure_removal
from replica_audit.protocol.exchange.replay import Truncation
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.salvage import may_have_transactions, records_by_transaction
from replica_audit.rows.pairs import RecordsByTransaction

MOST_BATCHES = 1_000_000  # of a log that are read again for their transactions: some ten seconds


def effect(leader: Side, follower: Side, truncation: Truncation, *, reads: bool) -> tuple[Effect, Removal | None]:
    """What a truncation does to the follower's files, and what it takes of them; without reading, by its offset alone.

    Raises:
        UnreadBatchesError: what the log held when it was scanned cannot be read again.
    """
    taken = removal(follower.loaded, follower.replica, truncation) if reads else None
    fails = reads and fetcher_fails(leader.loaded, leader.replica, truncation)
    cut = taken.physical_offset if taken else truncation.truncation_offset
    return Effect(truncation=truncation, physical_offset=cut, fetcher_fails=fails), taken


def removal(follower: Loaded, replica: Replica, truncation: Truncation) -> Removal | None:
    """What a truncation takes of the follower's log; None if nothing.

    Raises:
        UnreadBatchesError: what the log held when it was scanned cannot be read again.
    """
    start = replica.log.log_start_offset if truncation.restart_offset is not None else truncation.truncation_offset
    if start is None or (truncation.restart_offset is not None and replica.empty):
        return None
    start = max(start, replica.log.log_start_offset)  # a cut below the log start takes what there is
    return measure_removal(follower.batches_from(start), start, replica.log.log_end_offset)


def fetcher_fails(leader: Loaded, replica: Replica, truncation: Truncation) -> bool:
    """Whether the follower's next fetch begins inside one of the leader's batches, `replica` being the leader.

    Raises:
        UnreadBatchesError: what the log held when it was scanned cannot be read again.
    """
    offset = truncation.fetch_offset
    if not can_fail_to_append(truncation) or offset >= replica.log.log_end_offset:
        return False
    at = next((batch for batch in leader.batches_from(offset) if batch.last_offset >= offset), None)
    return at is not None and lies_inside_a_batch([at], offset)


def lost_by_transaction(loaded: Loaded, spans: Sequence[Span], end_offset: int, records: int) -> RecordsByTransaction | None:
    """So many records of a log by their transactions; None if there are none. The log is read only where it has transactions."""
    if not records:
        return None
    if not may_have_transactions(loaded.producers, spans[0].first_offset):
        return RecordsByTransaction(plain=records)
    return by_transaction(loaded, spans, end_offset) or RecordsByTransaction(unknown=records)


def by_transaction(loaded: Loaded, spans: Sequence[Span], end_offset: int) -> RecordsByTransaction | None:
    """The records that a log holds in spans by their transactions; None if they are too many to read again, or cannot be read.

    Args:
        loaded: the replica.
        spans: ascending and disjoint, at least one.
        end_offset: of its log, exclusive.
    """
    first = spans[0].first_offset
    if sum(run.batch_count for runs in loaded.scanned.values() for run in runs if run.last_offset >= first) > MOST_BATCHES:
        return None
    is_end_known = not loaded.is_end_unknown and (loaded.log is None or not loaded.log.cut_runs)
    try:
        return records_by_transaction(_with_markers(loaded, first), spans, end_offset, is_end_known=is_end_known)
    except UnreadBatchesError:
        return None


def _with_markers(loaded: Loaded, offset: int) -> Iterator[tuple[BatchHeader, bool | None]]:
    """The batches from the one that holds an offset on, of a marker whether it aborts."""
    for one in loaded.stored_from(offset):
        if isinstance(one, StoredBatch):
            marker = one.marker() if one.marker is not None and one.header.is_transactional else None
            yield one.header, None if marker is None else not marker.is_commit
