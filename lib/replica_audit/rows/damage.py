"""The table of batches that changed on one disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from replica_audit.rows.columns import BY_PARTITION, PARTITION_CHECK, Bigint, Broker, Int, PartitionNumber, Topic, table


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedBatch:
    """A batch of a replica that is not as it was written, and which replicas hold it well."""

    topic: Topic
    partition: PartitionNumber
    broker_id: Broker
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
        **PARTITION_CHECK,
        "known_damage": "damage IN ('crc', 'unframed', 'base_offset', 'leader_epoch')",
        "known_recovery": "recovery IN ('recoverable', 'unconfirmed', 'copies_disagree', 'no_good_copy')",
    },
    cluster_by=BY_PARTITION,
)
