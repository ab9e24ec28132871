"""How much a listing has of everything, in one pass."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What was listed.

    Args:
        replicas: directories that are audited.
        files: segments.
        size: their bytes.
        offsets: replicas of `__consumer_offsets`.
        states: replicas of `__transaction_state`.
        copies: of the metadata log.
        collections: replicas that were scanned on their brokers.
        logs: the other replicas.
        versions: that server logs tell.
    """

    replicas: int
    files: int
    size: int
    offsets: int
    states: int
    copies: int
    collections: int
    logs: int
    versions: int

    @classmethod
    def of(cls, listed: DataFrame) -> Amounts:
        """Count rows of the shape INVENTORY."""
        replica, is_audited = F.col("replica"), F.col("is_audited")
        found = listed.agg(
            F.count(F.when(is_audited, replica)),
            F.sum(F.size(replica.segments)),
            F.sum(F.aggregate(replica.segments, F.lit(0).cast("bigint"), lambda a, s: a + s.size_bytes)),
            F.count(F.when(F.col("topic") == F.lit(GROUP_OFFSETS_TOPIC), replica)),
            F.count(F.when(F.col("topic") == F.lit(TRANSACTIONS_TOPIC), replica)),
            F.count("metadata_copy"),
            F.count("replica.scans"),
            F.count(F.when(replica.isNotNull() & replica.scans.isNull(), 1)),
            F.count("versions"),
        ).first()
        return cls(**dict(zip(cls.__slots__, (number or 0 for number in found or [0] * len(cls.__slots__)), strict=True)))
