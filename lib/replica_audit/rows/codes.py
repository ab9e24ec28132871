"""Codes that columns hold: severities, the terms of an exchange, and why a follower cannot be compared.

Sources of the terms: AbstractFetcherThread (getOffsetTruncationState, fetchOffsetAndTruncate) of 2.0.1 to 4.2.0,
ReplicaFetcherThread.maybeTruncate of 1.1.1, Partition.readRecords.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Severity(StrEnum):
    """Severity of a verdict or a finding, most severe first."""

    CRITICAL = "critical"
    ERROR = "error"
    WARNING = "warning"
    NONE = "none"


SEVERITY_RANKS: Mapping[str, int] = {str(severity): rank for rank, severity in enumerate(Severity)}
"""Rank of a severity by its name, the most severe lowest."""


class Protocol(StrEnum):
    """The generations of the truncation rule, oldest first."""

    HIGH_WATERMARK = "high-watermark"
    KIP_101 = "kip-101"
    KIP_279 = "kip-279"
    TRUNCATE_ON_FETCH = "truncate-on-fetch"


class RuleKind(StrEnum):
    """Whether a rule was in force in some version of Kafka, or is an alternative that KIP-279 rejected."""

    PROTOCOL = "protocol"
    REJECTED = "rejected"


class EpochRequest(StrEnum):
    """What a follower asks its leader."""

    FETCH = "fetch"
    OFFSET_FOR_LEADER_EPOCH = "offset_for_leader_epoch"
    LIST_OFFSETS_LATEST = "list_offsets_latest"
    LIST_OFFSETS_EARLIEST = "list_offsets_earliest"


class Case(StrEnum):
    """Which case of the rule decides what a follower does.

    The first are those of an answer with an epoch: the follower knows it; it knows only lower ones, and asks again; it knows none as high.
    NO_EPOCH: the answer is an offset alone. UNDEFINED: the leader cannot tell the end. HIGH_WATERMARK: no answer decides, the follower
    falls back to its high watermark. OUT_OF_RANGE_*: what it does with OFFSET_OUT_OF_RANGE.
    """

    COMMON_EPOCH = "common-epoch"
    UNKNOWN_EPOCH = "unknown-epoch"
    LATER_EPOCH = "later-epoch"
    NO_EPOCH = "no-epoch"
    UNDEFINED = "undefined"
    HIGH_WATERMARK = "high-watermark"
    RECORDS = "records"
    OUT_OF_RANGE_LONGER = "out-of-range-longer"
    OUT_OF_RANGE_RESTART = "out-of-range-restart"
    OUT_OF_RANGE_AGAIN = "out-of-range-again"


class FallsBack(StrEnum):
    """Why a follower falls back to its high watermark: its protocol asks nothing, the leader cannot tell the end, or it has no epochs."""

    ASKS_NOTHING = "asks-nothing"
    UNDEFINED = "undefined"
    NO_EPOCHS = "no-epochs"


class OutOfRange(StrEnum):
    """Why a leader answers OFFSET_OUT_OF_RANGE."""

    EPOCH = "epoch"
    BELOW_START = "below-start"
    BEYOND_END = "beyond-end"


class Cause(StrEnum):
    """Why a follower cannot be compared: of every `inconclusive`, in words."""

    NOT_COLLECTED = "not collected"
    LEADER_COPIED_EARLIER = "leader copied earlier"
    FOLLOWER_COPIED_EARLIER = "follower copied earlier"
    NO_COMMON_RANGE = "no common range"
    LEADER_UNKNOWN = "leader unknown or unreadable"
    NO_EPOCHS = "no epochs"
    TEXT_NOT_WHOLE = "text not whole"
    RECORDS_NOT_COMPARED = "records not compared"
    DELETED_WHILE_COPIED = "deleted while copied"
    SEGMENTS_NOT_COPIED = "segments not copied"
    TOPIC_ID_IN_DOUBT = "topic id in doubt"
    UNKNOWN_BROKER = "unknown broker"
