"""The table of transactions that are open at the end of their leaders' logs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from replica_audit.rows.columns import (
    BY_PARTITION,
    PARTITION_CHECK,
    Bigint,
    Int,
    Leader,
    LeaderSource,
    PartitionNumber,
    Topic,
    same_columns,
    table,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionElsewhere:
    """The same transaction in the log of another replica."""

    broker_id: Annotated[Int, "broker that holds the replica"]
    standing: Annotated[str, "open, finished (a marker ends it there), or not-there"]
    marker_offset: Annotated[Bigint | None, "finished: offset of the marker; null: unknown, its batches could not be read again"]
    is_removed: Annotated[bool | None, "finished: the replica truncates the marker (or already has) to follow the leader; null: unknown"]
    outcome: Annotated[str | None, "finished: committed or aborted, according to the marker; null: its record is not in the input"] = None


@dataclass(frozen=True, kw_only=True)
class TransactionPlace:
    """The partition of a transaction, and whose log it is."""

    __slots__ = ()

    topic: Topic
    partition: PartitionNumber
    leader_id: Leader
    leader_source: LeaderSource


@dataclass(frozen=True, kw_only=True)
class TransactionFacts:
    """What is known of a transaction that is open at the end of the leader's log."""

    __slots__ = ()

    producer_id: Annotated[Bigint, "producer id"]
    producer_epoch: Annotated[Int, "its epoch in the transaction's last batch"]
    first_offset: Annotated[Bigint, "first offset of the transaction"]
    last_offset: Annotated[Bigint, "last offset of it so far"]
    began_at: Annotated[datetime | None, "newest record of its first batch, UTC"]
    last_written_at: Annotated[datetime | None, "newest record of its last batch, UTC"]
    last_stable_offset: Annotated[Bigint, "last stable offset of the leader: consumers with read_committed stop there"]
    elsewhere: Annotated[tuple[TransactionElsewhere, ...], "the other replicas whose logs show it"]
    transactional_id: Annotated[str | None, "transactional id, from __transaction_state; null: not in the input"]
    coordinator_state: Annotated[str | None, "state of that transactional id in __transaction_state"]
    coordinator_epoch: Annotated[Int | None, "producer epoch of that transactional id in __transaction_state"]
    timeout_ms: Annotated[Bigint | None, "timeout of its transactions"]
    hangs_because: Annotated[
        str | None,
        "why nobody will end it: marker-removed, coordinator-went-on or past-timeout; null: it may still end, or that is unknown",
    ]
    waiting_groups: Annotated[
        tuple[str, ...], "groups whose committed offset is the last stable offset, or is below it with nothing but control batches between"
    ]
    may_be_committed: Annotated[
        bool | None, "whether its producer may consider it committed, so that an abort would hide valid records; null: unknown"
    ] = None
    coordinator_producer_id: Annotated[
        Bigint | None,
        "producer id of that transactional id in __transaction_state; may differ from an earlier producer_id (KIP-890)",
    ] = None
    abort_form: Annotated[
        str | None,
        "what kafka-transactions.sh abort needs: start-offset, or producer-id and both epochs (brokers before 3.0); null: version unknown",
    ] = None
    marker_coordinator_epoch: Annotated[
        Int | None, "coordinator epoch in the last marker of this producer in the leader's log; -1: none; null: unknown"
    ] = None
    approaching_groups: Annotated[
        tuple[str, ...] | None, "groups whose committed offset is below the last stable offset, with records between"
    ] = None
    groups_beyond: Annotated[tuple[str, ...] | None, "groups whose committed offset is above the last stable offset"] = None


# the columns of the last of the bases come first
@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransactionRow(TransactionFacts, TransactionPlace):
    """A transaction that is open at the end of the leader's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction(TransactionFacts):
    """The same as a finding has it."""

    @classmethod
    def of(cls, row: OpenTransactionRow) -> HangingTransaction:
        """The same columns of the row."""
        return same_columns(cls, row)


OPEN_TRANSACTIONS = table(
    OpenTransactionRow,
    name="open_transactions",
    grain="one row per partition and transaction that is open at the end of its leader's log",
    constraints={
        **PARTITION_CHECK,
        "known_reason": "hangs_because IS NULL OR hangs_because IN ('marker-removed', 'coordinator-went-on', 'past-timeout')",
    },
    cluster_by=BY_PARTITION,
)
