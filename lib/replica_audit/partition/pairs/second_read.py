"""Reading batches of a replica again, where its runs do not tell enough: what a cut takes, and whether fetching then fails."""

from __future__ import annotations

from replica_audit.partition.pairs.sides import Side
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.comparison.pair import Effect
from replica_audit.protocol.exchange.cuts import Removal, can_fail_to_append, lies_inside_a_batch, measure_removal
from replica_audit.protocol.exchange.replay import Truncation
from replica_audit.protocol.exchange.replica import Replica


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
