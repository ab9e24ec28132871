"""The tables of batches and records: damaged batches, what compaction or a copy left different, gaps in sequences, open transactions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from replica_audit.rows.columns import (
    Bigint,
    Int,
    Leader,
    LeaderSource,
    OfPair,
    OfPartition,
    OfReplica,
    same_columns,
    table,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedBatch(OfReplica):
    """A batch of a replica that is not as it was written, and which replicas hold it well."""

    damage: Annotated[
        str,
        "crc: its bytes do not match its CRC; unframed: the bytes there are not a batch, reading stops; base_offset, leader_epoch: a field"
        " that the CRC does not cover differs from the other replicas, and cannot be right",
    ]
    first_offset: Annotated[Bigint, "first affected offset"]
    last_offset: Annotated[Bigint | None, "last affected offset, inclusive; null: unknown"]
    path: Annotated[str, "file"]
    byte_offset: Annotated[Bigint | None, "byte of the file at which the batch starts"]
    size_bytes: Annotated[Bigint | None, "its size according to its header; null: unframed"]
    leader_epoch: Annotated[Int | None, "leader epoch in its header"]
    stored_crc: Annotated[Bigint | None, "CRC that its header has"]
    computed_crc: Annotated[Bigint | None, "CRC computed from its bytes; null: its bytes are not in the input"]
    wrong_fields: Annotated[
        tuple[str, ...],
        "what differs from the good copies: base_offset, length, leader_epoch, magic, crc, or payload (records and the rest of the header)",
    ]
    good_broker_ids: Annotated[tuple[Int, ...], "brokers whose batch at the first offset passes its CRC"]
    copies_agree: Annotated[bool | None, "whether those have the same offsets, CRC, epoch and size; null: there is none"]
    recovery: Annotated[
        str,
        "recoverable: the copies are the batch as written, because they have its CRC, or two agree; unconfirmed: one passes, and nothing"
        " proves that it is the same batch; copies_disagree; no_good_copy",
    ]
    recover_from_id: Annotated[Int | None, "broker to recover it from: the leader if its copy is good; null: not recoverable"]
    good_path: Annotated[str | None, "its file there"]
    good_leader_epoch: Annotated[Int | None, "its leader epoch there"]
    good_crc: Annotated[Bigint | None, "its CRC there"]
    cut_by_recovery: Annotated[bool, "whether the broker truncates it when it starts, and fetches it again"]


DAMAGED_BATCHES = table(
    DamagedBatch,
    name="damaged_batches",
    grain="one row per replica and damaged batch, the first 50 of each replica",
    constraints={
        "known_damage": "damage IN ('crc', 'unframed', 'base_offset', 'leader_epoch')",
        "known_recovery": "recovery IN ('recoverable', 'unconfirmed', 'copies_disagree', 'no_good_copy')",
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRecord:
    """A record that a replica holds, without its contents: the newest of a key, or the one at an offset."""

    offset: Bigint | None
    timestamp_ms: Bigint
    is_tombstone: bool | None = None
    key_bytes: Int | None = None
    key_hash: str | None = None
    value_bytes: Int | None = None
    value_hash: str | None = None
    headers_hash: str | None = None
    key: str | None = None


class DifferenceKind(StrEnum):
    """What two replicas differ in: a key of a compacted partition, or a record of another one."""

    KEY = "key"
    RECORD = "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(OfPair):
    """A key, or a transaction marker, of which compaction cannot have left what two replicas hold; or a record that they do not share."""

    kind: Annotated[
        DifferenceKind, "key: a key, or a transaction marker, of a compacted partition; record: a record of one that is not compacted"
    ]
    cause: Annotated[
        str | None,
        "of a key: key-missing (a live key), key-missing-or-deleted (a live key, or one that was deleted while the other replica was "
        "away), key-resurrected (a deleted key is live), other-value, tombstone-gone or marker-gone (both too early)",
    ] = None
    broker_id: Annotated[
        Int | None,
        "of a key: the wrong replica: it lacks the record, has the key back, or serves the older value; for key-missing-or-deleted the one "
        "without the key",
    ] = None
    key_hash: Annotated[str | None, "of a key: first 64 bits of its hash (XXH64), hexadecimal; of a marker its producer id"] = None
    key: Annotated[
        str | None,
        "of a key: as text, with --show-keys: UTF-8 with \\ and what cannot be printed escaped, 200 characters of it at most; other bytes "
        "as hexadecimal digits after 0x. Null: not asked for, a marker, or it could not be read again",
    ] = None
    offset: Annotated[Bigint | None, "of a record"] = None
    parts: Annotated[
        tuple[str, ...] | None,
        "of a record, what differs: presence (one side lacks it), key, value, headers, timestamp, producer (id, epoch, sequence, "
        "transaction)",
    ] = None
    leader: Annotated[
        HeldRecord | None,
        "what the leader holds, null: nothing. Of a key its newest record below the smaller end of both logs, the follower's after its "
        "cut: offset, time, whether it is a tombstone. Of a record sizes (null: it has none) and hashes (XXH3 of 128 bits, hexadecimal, "
        "that of the headers of all of them as they are encoded), and its key as text, with --show-keys",
    ]
    follower: Annotated[HeldRecord | None, "what the follower holds"]


DIFFERENCES = table(
    Difference,
    name="differences",
    grain="one row per leader, follower and differing key (at most 100 for each cause and broker) or record (the first 100 of each pair), "
    "with --compare records; replica_verdicts.differing_keys and differing_records have their numbers",
    constraints={
        "known_kind": "kind IN ('key', 'record')",
        "known_cause": "cause IS NULL OR cause IN ('key-missing', 'key-missing-or-deleted', 'key-resurrected', 'other-value', "
        "'tombstone-gone', 'marker-gone')",
    },
)


@dataclass(frozen=True, kw_only=True)
class GapFacts:
    """What is known of sequences that are missing."""

    __slots__ = ()

    broker_id: Annotated[Int, "broker whose log it is: the leader, or without a leader the best replica"]
    producer_id: Annotated[Bigint, "producer id"]
    producer_epoch: Annotated[Int, "its epoch in the batch after the gap"]
    sequence_before: Annotated[Bigint | None, "last sequence before the gap; null: the producer has no batch before it"]
    sequence_after: Annotated[Bigint, "first sequence behind it"]
    missing_records: Annotated[Bigint, "records that are missing"]
    last_offset_before: Annotated[Bigint | None, "offset of the last record before the gap"]
    first_offset_after: Annotated[Bigint, "offset of the first record after the gap"]
    written_after: Annotated[datetime | None, "max timestamp of the batch before the gap, the client's, UTC"]
    written_before: Annotated[datetime | None, "max timestamp of the batch after the gap, the client's, UTC"]
    is_certain: Annotated[bool, "whether the records certainly were in the leader's log and no replica in the input holds them"]
    doubt: Annotated[
        str | None,
        "why they may not have been lost: first-in-log (the producer's first batches may have been refused), damaged-batches, "
        "log-start-moved (retention, DeleteRecords), state-expired (producer.id.expiration.ms) or time-unknown; null: no reason",
    ]
    held_by: Annotated[tuple[Int, ...] | None, "brokers whose replica still has them, at least the first"]


# the columns of the last of the bases come first
@dataclass(frozen=True, slots=True, kw_only=True)
class MissingSequences(GapFacts, OfPartition):
    """Sequences of a producer that are missing between two of its batches, or before its first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRecords(GapFacts):
    """The same as a finding has it."""

    @classmethod
    def of(cls, row: MissingSequences) -> LostRecords:
        """The same columns of the row."""
        return same_columns(cls, row)


SEQUENCE_GAPS = table(
    MissingSequences,
    name="sequence_gaps",
    grain="one row per place in the leader's log where sequences of an idempotent producer are missing; no rows for compacted logs",
    constraints={
        "known_doubt": "doubt IS NULL OR doubt IN ('first-in-log', 'damaged-batches', 'log-start-moved', 'state-expired', 'time-unknown')",
        "something_missing": "missing_records > 0",
    },
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
class TransactionPlace(OfPartition):
    """The partition of a transaction, and whose log it is."""

    __slots__ = ()

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
        "known_reason": "hangs_because IS NULL OR hangs_because IN ('marker-removed', 'coordinator-went-on', 'past-timeout')",
    },
)
