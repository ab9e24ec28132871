"""Compare a replica's epoch table with its batches, and give the lines that its `leader-epoch-checkpoint` should have.

Sources: LeaderEpochFileCache (an epoch has one start, the first offset written in it; `assign` keeps epochs and starts strictly ascending),
UnifiedLog (a broker that loads a log moves the table's first entry up to the log start, and drops entries above the log end), and the
cleaner, which removes batches and leaves the table as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from replica_audit.frozen import once
from replica_audit.model import BatchRun
from replica_audit.protocol.epochs.epoch_table import EpochTable, epoch_for_offset, table
from replica_audit.protocol.epochs.replica_log import LoadedLog, epochs_from_runs


class EntrySource(StrEnum):
    """Where the start offset of a corrected entry is from.

    `batches`: the epoch's first batch follows the batch before it, or the log start, without a gap: the start is exact. In a gap, which the
    cleaner leaves, `file` is the replica's own line and `other_replica` the smallest start that another replica's table gives the epoch.
    `first_batch_left`: nothing else is known, and the epoch may have started in the gap before its first batch.
    """

    BATCHES = "batches"
    FILE = "file"
    OTHER_REPLICA = "other_replica"
    FIRST_BATCH_LEFT = "first_batch_left"


class Undetermined(StrEnum):
    """Why the batches of a log do not determine a table: a file made of them would be a guess."""

    CORRUPT_BATCH = "corrupt-batch"
    BROKEN_SEGMENT = "broken-segment"
    BATCH_WITHOUT_EPOCH = "batch-without-epoch"
    EPOCHS_GO_BACKWARDS = "epochs-go-backwards"


class CorrectedEntry(NamedTuple):
    """One line of the corrected table; `broker_id` is that of the other replica whose table gives the start, else None."""

    epoch: int
    start_offset: int
    source: EntrySource
    broker_id: int | None = None


Correction = tuple[CorrectedEntry, ...] | Undetermined


class _Held(NamedTuple):
    """An epoch that has batches: its start is at or above `lowest` and not above `first_offset`; `next_offset` follows its last batch."""

    epoch: int
    lowest: int
    first_offset: int
    next_offset: int


_NO_OTHERS: Mapping[int, EpochTable] = MappingProxyType({})


def corrected(lines: Iterable[tuple[int, int]], log: LoadedLog, others: Mapping[int, EpochTable] = _NO_OTHERS) -> Correction:
    """Return the entries that the file should have, ascending; or why the batches do not determine a table.

    Every epoch with batches gets the start that the batches give it. An epoch without batches is kept where the file names it and no batch
    contradicts it (an epoch in which nothing was written, or whose batches the cleaner removed); it is never taken from another replica,
    whose epoch may be of records that this log never held. An entry at the log end is kept: it is the current epoch of a leader, and a
    broker that loads the log drops it.

    Args:
        lines: (epoch, start offset) of the file's lines that can be read, in any order; without negative numbers.
        log: the replica as its broker would load it.
        others: the tables of other readable replicas of the partition, by broker.

    Returns:
        No table if a batch is corrupt or has no epoch though its format has one, a segment is broken, or the epochs of the batches go
        backwards (the log holds two histories).
    """
    if log.corrupt_offset is not None:
        return Undetermined.CORRUPT_BATCH
    if log.broken_segment is not None:
        return Undetermined.BROKEN_SEGMENT
    held = _held(log)
    if isinstance(held, Undetermined):
        return held
    written: dict[int, list[int]] = {}
    for epoch, start in lines:
        written.setdefault(epoch, []).append(max(start, log.log_start_offset))
    own = {one.epoch: _start(one, written.get(one.epoch, []), others, log.log_start_offset) for one in held}
    empty = [(epoch, start) for epoch in written.keys() - own.keys() for start in written[epoch] if start <= log.log_end_offset]
    return _assembled(own, empty, held)


def as_table(entries: Iterable[CorrectedEntry]) -> EpochTable:
    """The entries as an epoch table."""
    return table((entry.epoch, entry.start_offset) for entry in entries)


def _held(log: LoadedLog) -> list[_Held] | Undetermined:
    """The epochs of the batches since the last one of a format before v2, whose append clears the table."""
    runs: list[BatchRun] = []
    lowest = log.log_start_offset
    for run in log.runs:
        if run.magic < 2:
            runs, lowest = [], max(lowest, run.last_offset + 1)
        elif run.leader_epoch < 0:
            return Undetermined.BATCH_WITHOUT_EPOCH
        elif run.last_offset >= log.log_start_offset:
            runs.append(run)
    if any(after.leader_epoch < before.leader_epoch for before, after in pairwise(runs)):
        return Undetermined.EPOCHS_GO_BACKWARDS
    held: list[_Held] = []
    for run in runs:
        if held and held[-1].epoch == run.leader_epoch:
            held[-1] = held[-1]._replace(next_offset=run.last_offset + 1)
        else:
            held.append(_Held(run.leader_epoch, lowest, max(run.first_offset, lowest), run.last_offset + 1))
        lowest = run.last_offset + 1
    return held


def _start(one: _Held, written: list[int], others: Mapping[int, EpochTable], log_start: int) -> CorrectedEntry:
    """The start of an epoch that has batches. Without a gap before them there is no choice."""
    if one.lowest == one.first_offset:
        return CorrectedEntry(one.epoch, one.first_offset, EntrySource.BATCHES)
    in_file = [start for start in written if one.lowest <= start <= one.first_offset]
    if in_file:
        return CorrectedEntry(one.epoch, min(in_file), EntrySource.FILE)
    known = [
        (max(start, log_start), broker)
        for broker, entries in others.items()
        for epoch, start in entries
        if epoch == one.epoch and one.lowest <= max(start, log_start) < one.first_offset
    ]
    if known:
        start, broker = min(known)  # a table never gives an epoch an earlier start than it had: log start and refetching only raise it
        return CorrectedEntry(one.epoch, start, EntrySource.OTHER_REPLICA, broker)
    return CorrectedEntry(one.epoch, one.first_offset, EntrySource.FIRST_BATCH_LEFT)


def _assembled(own: Mapping[int, CorrectedEntry], empty: Iterable[tuple[int, int]], held: Iterable[_Held]) -> tuple[CorrectedEntry, ...]:
    """All entries, strictly ascending in both: of two empty epochs that contradict each other the later stays, as `assign` has it."""
    ends = {one.epoch: one.next_offset for one in held}
    entries: list[CorrectedEntry] = []
    for epoch, start in sorted([*((entry.epoch, entry.start_offset) for entry in own.values()), *empty], reverse=True):
        entry = own.get(epoch) or CorrectedEntry(epoch, start, EntrySource.FILE)
        after_the_one_before = max((end for before, end in ends.items() if before < epoch), default=0)
        fits_above = not entries or (epoch < entries[-1].epoch and start < entries[-1].start_offset)
        if epoch in own or (fits_above and start >= after_the_one_before):
            entries.append(entry)
    return tuple(reversed(entries))


# Holding a replica's epoch table against its own batches, every disagreement named. What may differ without anything being wrong:
# reference to LeaderEpochFileCache's flushes (assign is written before the append, truncations after it), becomeLeader (an epoch without a
# record), the log start, and the cleaner, which never touches the table.


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
