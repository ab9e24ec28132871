"""Holding a replica's epoch table against its own batches, every disagreement named.

What may differ without anything being wrong: reference to LeaderEpochFileCache's flushes (assign is written before the append, truncations
after it), becomeLeader (an epoch without a record), the log start, and the cleaner, which never touches the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from replica_audit.protocol.epochs.epoch_table import EpochTable, epoch_for_offset
from replica_audit.protocol.epochs.once import once
from replica_audit.protocol.epochs.replica_log import LoadedLog, epochs_from_runs


class EpochDifference(StrEnum):
    """Why checkpoint and batches give an epoch different starts."""

    TRIVIAL_EPOCH = "trivial-epoch"
    LEGAL_LAG = "legal-lag"
    LOG_START = "log-start"
    COMPACTION = "compaction"
    REFETCHED_COMPACTED_RANGE = "refetched-compacted-range"
    NOT_COLLECTED = "not-collected"
    CORRUPT = "corrupt"


class ReconciledEpoch(NamedTuple):
    """One epoch of one replica.

    `start_offset` is that of the table in effect, else of the checkpoint, else of the batches; `end_offset` is exclusive.
    """

    leader_epoch: int
    start_offset: int
    end_offset: int | None
    checkpoint_start_offset: int | None
    segment_start_offset: int | None
    in_effect: bool
    difference: EpochDifference | None

    @property
    def agrees(self) -> bool:
        """Whether both sources give the same start."""
        return self.checkpoint_start_offset is not None and self.checkpoint_start_offset == self.segment_start_offset

    @property
    def source(self) -> str:
        """Which sources know the epoch."""
        if self.checkpoint_start_offset is None:
            return "segments"
        return "checkpoint" if self.segment_start_offset is None else "both"


@once
def reconcile(
    log: LoadedLog,
    in_effect: EpochTable,
    checkpoint: Sequence[tuple[int, int]] | None,
    *,
    cleaned_until: int,
    compacted: bool,
    leader: EpochTable | None = None,
) -> tuple[ReconciledEpoch, ...]:
    """Every epoch that checkpoint or batches know, ascending.

    Args:
        log: the loaded replica.
        in_effect: the table its broker uses.
        checkpoint: the entries as found in the file, (epoch, start offset); None if none was collected.
        cleaned_until: the larger cleaner checkpoint of the partition's replicas, 0 if none.
        compacted: whether batches may be missing anywhere.
        leader: the leader's table, to tell refetched compacted ranges; None for the leader itself.
    """
    by_checkpoint = {epoch: start for epoch, start in checkpoint or ()}
    by_batches: dict[int, int] = {}
    for run in log.runs:
        if run.leader_epoch >= 0:
            by_batches.setdefault(run.leader_epoch, run.first_offset)
    effective, of_leader, of_batches = dict(in_effect), dict(leader or ()), epochs_from_runs(log.runs)
    ends = {entry.epoch: following.start_offset for entry, following in pairwise(in_effect)}
    if in_effect:
        ends[in_effect[-1].epoch] = max(log.log_end_offset, in_effect[-1].start_offset)
    rows = []
    for epoch in sorted({*by_checkpoint, *by_batches, *effective}):
        claimed, held = by_checkpoint.get(epoch), by_batches.get(epoch)
        start = next(value for value in (effective.get(epoch), claimed, held) if value is not None)
        difference: EpochDifference | None
        if checkpoint is None:
            difference = EpochDifference.NOT_COLLECTED
        elif claimed != held:
            until = max(cleaned_until, log.log_end_offset if compacted else 0)
            difference = _why(log, of_batches, claimed, held, epoch in effective, until)
        elif start < cleaned_until and of_leader.get(epoch) not in (start, None):
            difference = EpochDifference.REFETCHED_COMPACTED_RANGE
        else:
            difference = None
        rows.append(ReconciledEpoch(epoch, start, ends.get(epoch), claimed, held, epoch in effective, difference))
    return tuple(rows)


def _why(
    log: LoadedLog, of_batches: EpochTable, claimed: int | None, held: int | None, in_effect: bool, cleaned_until: int
) -> EpochDifference:
    if claimed is None:
        if in_effect:
            return EpochDifference.LEGAL_LAG  # recovery learns it from the batches
        return EpochDifference.LOG_START if _ends_below_log_start(log, of_batches, held or 0) else EpochDifference.CORRUPT
    if claimed >= log.log_end_offset:
        return EpochDifference.TRIVIAL_EPOCH if claimed == log.log_end_offset else EpochDifference.LEGAL_LAG
    if claimed < cleaned_until and (held is None or held > claimed):
        return EpochDifference.COMPACTION
    if claimed <= log.log_start_offset and (held is None or held < log.log_start_offset or claimed < log.log_start_offset):
        return EpochDifference.LOG_START
    return EpochDifference.CORRUPT


def _ends_below_log_start(log: LoadedLog, of_batches: EpochTable, held: int) -> bool:
    return held < log.log_start_offset and epoch_for_offset(of_batches, held) != epoch_for_offset(of_batches, log.log_start_offset)
