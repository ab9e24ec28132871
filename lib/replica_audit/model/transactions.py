"""What the coordinator of transactions says of one transactional id: the newest record of it in `__transaction_state`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """The state of one transactional id as its coordinator wrote it last.

    `state` is Kafka's name: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead or PrepareEpochFence.
    `producer_id` and `producer_epoch` are those that its next transaction uses, or its open one. `timeout_ms` is the transaction's, which
    the producer chose. `partitions` are (topic, partition), those of the transaction that is not complete. `last_update_ms` and `start_ms`
    are -1 where the record tells none: `start_ms` is when the open transaction began.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: str
    partitions: tuple[tuple[str, int], ...]
    last_update_ms: int
    start_ms: int
