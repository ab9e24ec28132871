"""The values that pass between layers. Pure data; offsets are record offsets, `end` and `log_end_offset` are exclusive."""

from replica_audit.model.amounts import BytesToRead
from replica_audit.model.batches import (
    UNDEFINED_EPOCH,
    UNDEFINED_EPOCH_OFFSET,
    BatchHeader,
    BatchRun,
    Damage,
    Producers,
    ProducerSpan,
    Segment,
    SequenceGap,
    Window,
)
from replica_audit.model.looks import Appearance, PartitionKey, PartitionLook
from replica_audit.model.metadata import (
    BrokerEvent,
    BrokerStanding,
    Election,
    IsrChange,
    LoggedVersions,
    MetadataCopy,
    MinIsrSetting,
    PartitionMetadata,
)
from replica_audit.model.replicas import CommittedOffset, Problem, ProducerText, ReplicaFiles, ScannedSegment, SecondLook, SegmentFile
from replica_audit.model.stored import BatchBody, HashedRecord, StoredBatch, StoredDamage, StoredHeader
from replica_audit.model.transactions import AbortedTransaction, EndMarker, ProducerState, TransactionState

__all__ = [
    "UNDEFINED_EPOCH",
    "UNDEFINED_EPOCH_OFFSET",
    "AbortedTransaction",
    "Appearance",
    "BatchBody",
    "BatchHeader",
    "BatchRun",
    "BrokerEvent",
    "BrokerStanding",
    "BytesToRead",
    "CommittedOffset",
    "Damage",
    "Election",
    "EndMarker",
    "HashedRecord",
    "IsrChange",
    "LoggedVersions",
    "MetadataCopy",
    "MinIsrSetting",
    "PartitionKey",
    "PartitionLook",
    "PartitionMetadata",
    "Problem",
    "ProducerSpan",
    "ProducerState",
    "ProducerText",
    "Producers",
    "ReplicaFiles",
    "ScannedSegment",
    "SecondLook",
    "Segment",
    "SegmentFile",
    "SequenceGap",
    "StoredBatch",
    "StoredDamage",
    "StoredHeader",
    "TransactionState",
    "Window",
]
