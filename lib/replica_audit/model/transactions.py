"""What is known of producers and their transactions beside the log: from their coordinators, snapshots, indexes of aborted ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """The state of one transactional id as its coordinator wrote it last.

    `state` is Kafka's name: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead or PrepareEpochFence.
    `producer_id` and `producer_epoch` are those that its next transaction uses, or its open one. `timeout_ms` is the transaction's, which
    the producer chose. `partitions` are (topic, partition), those of the transaction that is not complete. `last_update_ms` and `start_ms`
    are -1 where the record tells none: `start_ms` is when the open transaction began.

    `previous_producer_id` is the producer id that it used before, `next_producer_id` the one that it goes on with once the present
    transaction is completed (KIP-890: when the epochs of an id are used up); -1 where there is none, or the record does not tell.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: str
    partitions: tuple[tuple[str, int], ...]
    last_update_ms: int
    start_ms: int
    previous_producer_id: int = -1
    next_producer_id: int = -1


class ProducerState(NamedTuple):
    """What a producer snapshot says of one producer id; -1 for what it does not have.

    `last_sequence` and `last_offset` (inclusive) are those of the last record that it wrote in its current epoch, `offset_delta` the number
    of records before it in its batch. `open_first_offset` is that of the transaction that is not ended, inclusive.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    open_first_offset: int


class EndMarker(NamedTuple):
    """A transaction marker: whether it commits, and the epoch of the coordinator that had it written, None where that is not known.

    The epoch of a coordinator is the leader epoch of its partition of `__transaction_state`.
    """

    is_commit: bool
    coordinator_epoch: int | None


class AbortedTransaction(NamedTuple):
    """One entry of an index of aborted transactions.

    Offsets are inclusive: of the transaction's first record, and of its marker. `last_stable_offset` is that when it ended.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
