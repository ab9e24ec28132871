"""One side of the exchange as Kafka holds it in memory, and what a truncation makes of it.

Source: UnifiedLog (truncateTo, truncateFullyAndStartAt), 1.1.1 to 4.2.0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from replica_audit.frozen import made_quickly
from replica_audit.protocol.epochs.epoch_table import EMPTY, EpochTable, truncate_from_end


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """One side of the exchange, with offsets as Kafka holds them in memory.

    `log_end_offset` is exclusive, `high_watermark` lies within [start, end].
    `high_watermark_in_memory`: its broker runs, and truncated by the one in memory already, so that it is the log end here.
    `first_segment_base` is the base offset of the oldest segment: a truncation below it restarts the log. `begins_remotely`: of a log with
    remote storage (KIP-405) its log start offset; `log_start_offset` is then where the local log begins.
    """

    log_start_offset: int
    log_end_offset: int
    epochs: EpochTable
    high_watermark: int
    first_segment_base: int
    begins_remotely: int | None = None
    high_watermark_in_memory: bool = False


def truncated(replica: ReplicaState, offset: int) -> ReplicaState:
    """`UnifiedLog.truncateTo(offset)` on offsets and table; at or above the log end only table entries without data go (KAFKA-10706)."""
    if offset >= replica.log_end_offset:
        epochs = truncate_from_end(replica.epochs, replica.log_end_offset)
        return replica if epochs is replica.epochs else replace(replica, epochs=epochs)
    if offset < replica.first_segment_base:
        return restarted(replica, offset)
    return replace(
        replica,
        log_start_offset=min(replica.log_start_offset, offset),
        log_end_offset=offset,
        epochs=truncate_from_end(replica.epochs, offset),
        high_watermark=min(replica.high_watermark, offset),
    )


def restarted(replica: ReplicaState, offset: int) -> ReplicaState:
    """`UnifiedLog.truncateFullyAndStartAt(offset)`: an empty log and table that begin at the offset."""
    return replace(replica, log_start_offset=offset, log_end_offset=offset, epochs=EMPTY, high_watermark=offset, first_segment_base=offset)
