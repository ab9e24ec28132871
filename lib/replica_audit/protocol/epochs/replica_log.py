"""What a broker makes of a replica's files when it loads them.

Sources: LogLoader, LogSegment.recover and UnifiedLog of 4.2.0, compared with real brokers of 1.1.1, 2.4.1, 3.9.1 and 4.2.0.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from replica_audit.frozen import once
from replica_audit.model import UNDEFINED_EPOCH, BatchRun, Segment, Window
from replica_audit.protocol.epochs.epoch_table import (
    EMPTY,
    Building,
    EpochTable,
    ascending,
    goes_back,
    latest_epoch,
    truncate_from_end,
    truncate_from_start,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLog:
    """A replica as its broker would see it after loading.

    `epochs` is the table as found: healed, completed by recovery and cut at the log start, but with entries at the log end still in it:
    they are real on a live leader, and `truncate_from_end` drops them everywhere else.
    `runs` are those inside the log, ascending. `went_back`: first offset of the first batch that begins below the end of the one before it
    in its segment, though it matches its CRC: then each offset is in `runs` once. `corrupt_offset`: first offset of a batch inside the log
    whose CRC does not match.
    `broken_segment`: base offset of a segment that is damaged, or overlaps its predecessor, inside the log.
    `recovery_cut`: offset at which recovery ended the log, if it cut anything; `cut_runs`: the whole batches that it cuts behind the
    damaged one; `cut_hides`: there may be more of them, which could not be read. `missing`: (first, last) inclusive
    offsets missing between segments. `windows`: digests of the batches below `digested_until`, by offset, of one segment after the
    other. `segment_bases`: base offsets of its segments, ascending; of those that another follows, `damaged_segments` are the damaged
    ones, and `empty_segments` those without a batch. `epochs_on_disk`: the table as a running broker's file has it, where `epochs` has
    more; else empty. `deleted_end`: where the segments end, exclusive, if the log start lies beyond that: a broker that starts deletes
    them all (LogLoader.deleteSegmentsIfLogStartGreaterThanLogEnd), and the log is empty. `table_in_file`: the table before the log was
    loaded, None where that is `epochs`.
    """

    log_start_offset: int
    log_end_offset: int
    first_segment_base: int
    epochs: EpochTable
    runs: tuple[BatchRun, ...]
    corrupt_offset: int | None = None
    broken_segment: int | None = None
    recovery_cut: int | None = None
    cut_runs: tuple[BatchRun, ...] = ()
    cut_hides: bool = False
    went_back: int | None = None
    missing: tuple[tuple[int, int], ...] = ()
    windows: tuple[Window, ...] = ()
    digested_until: int = 0
    segment_bases: tuple[int, ...] = ()
    damaged_segments: tuple[int, ...] = ()
    empty_segments: tuple[int, ...] = ()
    epochs_on_disk: EpochTable = EMPTY
    deleted_end: int | None = None
    table_in_file: EpochTable | None = None

    @property
    def epochs_before(self) -> EpochTable:
        """The table before the log was loaded: recovery learns the highest epochs of the batches, and forgets the last ones."""
        return self.epochs if self.table_in_file is None else self.table_in_file

    @property
    def began_again(self) -> int | None:
        """As `began_again`, by the table before recovery."""
        return began_again(self.epochs_before, self.runs)

    @property
    def epochs_in_log(self) -> EpochTable:
        """The table of every replica but a live leader: entries at or above the log end are dropped when a log is loaded (LogLoader)."""
        return truncate_from_end(self.epochs, self.log_end_offset)

    @property
    def missing_files(self) -> tuple[tuple[int, int], ...]:
        """What is missing between segments behind a whole one: behind a damaged, or empty, one it is that file that lacks it."""
        not_whole = {*self.damaged_segments, *self.empty_segments}
        return tuple(hole for hole in self.missing if self.segment_bases[bisect_right(self.segment_bases, hole[0]) - 1] not in not_whole)

    def segment_end(self, offset: int) -> int:
        """Where the segment that holds an offset ends, exclusive: where the next one begins, or at the log end."""
        following = bisect_right(self.segment_bases, offset)
        return self.segment_bases[following] if following < len(self.segment_bases) else self.log_end_offset


def after_swaps(segments: Iterable[Segment]) -> list[Segment]:
    """Put finished `.swap` files in the place of the segments they replace (LogLoader.load); ascending by base offset.

    Every ordinary segment whose base lies in [smallest swap base, largest swap next offset) goes.
    """
    ordered = sorted(segments, key=lambda segment: (segment.base_offset, not segment.swap))
    swaps = [segment for segment in ordered if segment.swap]
    if not swaps:
        return ordered
    low, high = swaps[0].base_offset, max(segment.next_offset for segment in swaps)
    renamed_over = {segment.base_offset for segment in swaps}
    return [
        segment for segment in ordered if segment.swap or not (low <= segment.base_offset < high or segment.base_offset in renamed_over)
    ]


@once
def load_log(
    segments: Sequence[Segment],
    *,
    checkpoint: EpochTable,
    log_start_checkpoint: int | None,
    recovery_point: int,
    recovers: bool,
    runs_on: bool = False,
) -> LoadedLog:
    """Load a replica the way LogLoader does.

    Args:
        segments: a tuple of at least one, ascending by base offset, `.swap` files already in place.
        checkpoint: the epoch table of `leader-epoch-checkpoint`, healed; empty if there is none.
        log_start_checkpoint: the entry of `log-start-offset-checkpoint`; None if there is none.
        recovery_point: first offset that may not have been flushed; 0 if unknown.
        recovers: whether the broker would recover the log, that is: it was not shut down cleanly and is not running.
        runs_on: whether the broker is running: it knows every epoch of its batches, a table that lacks the newest was copied before them.
    """
    found = checkpoint
    if runs_on and checkpoint:
        building = Building(checkpoint)
        newer = (run for segment in segments for run in segment.runs if run.first_offset > checkpoint[-1].start_offset)
        for run in newer:
            building.recover(run.leader_epoch, run.first_offset, run.magic)
        checkpoint = building.table()
    kept, epochs, recovery_cut = _recover(segments, checkpoint, recovery_point) if recovers else (list(segments), checkpoint, None)
    back = next((run for run in (goes_back(segment.runs) for segment in kept) if run is not None), None)
    first_base = kept[0].base_offset
    log_end_offset = kept[-1].next_offset
    log_start_offset = max(first_base, log_start_checkpoint or 0)
    if log_end_offset < log_start_offset:
        return LoadedLog(
            log_start_offset=log_start_offset,
            log_end_offset=log_start_offset,
            first_segment_base=log_start_offset,
            epochs=EMPTY,
            runs=(),
            recovery_cut=recovery_cut,
            deleted_end=log_end_offset,
        )
    return LoadedLog(
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        first_segment_base=first_base,
        epochs=truncate_from_start(epochs, log_start_checkpoint or 0),
        runs=tuple(run for segment in kept for run in segment.runs) if back is None else _below(kept, log_end_offset),
        corrupt_offset=next((run.first_offset for segment in kept for run in segment.runs if not run.intact), None),
        broken_segment=_broken_segment(kept),
        recovery_cut=recovery_cut,
        cut_runs=_cut_runs(segments, recovery_cut),
        went_back=None if back is None else back.first_offset,
        missing=tuple((_end(before), after.base_offset - 1) for before, after in pairwise(kept) if _end(before) < after.base_offset),
        windows=tuple(window for segment in kept for window in segment.windows),
        digested_until=next(
            (part.base_offset for part in kept if part.runs and (not part.windows or goes_back(part.runs))),
            log_end_offset,
        ),
        segment_bases=tuple(segment.base_offset for segment in kept),
        damaged_segments=tuple(segment.base_offset for segment in kept[:-1] if segment.damaged),
        empty_segments=tuple(segment.base_offset for segment in kept[:-1] if not segment.runs and not segment.damaged),
        epochs_on_disk=truncate_from_start(found, log_start_checkpoint or 0) if runs_on and found != checkpoint else EMPTY,
        table_in_file=None if found == epochs else found,
    )


def _recover(segments: Sequence[Segment], epochs: EpochTable, recovery_point: int) -> tuple[list[Segment], EpochTable, int | None]:
    """Recover from the segment that holds the recovery point: end the log at the first bad batch, learn epochs above the latest."""
    first = max((i for i, segment in enumerate(segments) if segment.base_offset <= recovery_point), default=0)
    kept = list(segments[:first])
    building = Building(epochs)
    for segment in segments[first:]:
        good: list[BatchRun] = []
        for run in segment.runs:
            if not run.intact:
                break
            good.append(run)
            building.recover(run.leader_epoch, run.first_offset, run.magic)
        whole = len(good) == len(segment.runs) and not segment.damaged
        # the digests of a segment are of all its batches
        windows = segment.windows if len(good) == len(segment.runs) else ()
        kept.append(Segment(base_offset=segment.base_offset, runs=tuple(good), windows=windows))
        if not whole:
            return kept, building.table(), kept[-1].next_offset
    return kept, building.table(), None


def _cut_runs(segments: Sequence[Segment], recovery_cut: int | None) -> tuple[BatchRun, ...]:
    if recovery_cut is None:
        return ()
    return tuple(run for segment in segments for run in segment.runs if run.intact and run.first_offset >= recovery_cut)


def _end(segment: Segment) -> int:
    """Behind the last offset of a segment that any of its batches holds."""
    return max((run.last_offset + 1 for run in segment.runs), default=segment.base_offset)


def _below(segments: Sequence[Segment], end_offset: int) -> tuple[BatchRun, ...]:
    """The runs of a log whose offsets go back as they are read, up to its end: that is behind its last batch, wherever that is."""
    runs = ascending([run for segment in segments for run in segment.runs])
    return tuple(run._replace(last_offset=min(run.last_offset, end_offset - 1)) for run in runs if run.first_offset < end_offset)


def _broken_segment(segments: Sequence[Segment]) -> int | None:
    """A torn or zero-filled end is harmless in the last segment only; no segment may begin below the end of the one before it."""
    for before, after in pairwise(segments):
        if before.damaged:
            return before.base_offset
        if after.base_offset < before.next_offset or (after.runs and after.runs[0].first_offset < before.next_offset):
            return after.base_offset
    return None


def epochs_from_runs(runs: Iterable[BatchRun]) -> EpochTable:
    """The table that the batches alone give: the first batch of each epoch, assigned in order; one before magic 2 clears it."""
    building = Building()
    for run in runs:
        building.append(run.leader_epoch, run.first_offset, run.magic)
    return building.table()


@once
def contradiction(
    epochs: EpochTable, runs: Sequence[BatchRun], floor: int, *, copied_apart: bool = False
) -> tuple[BatchRun, int, int | None] | None:
    """Where a table contradicts the batches beside it: (run, offset, what the table says), or None.

    The table's epoch at the first offset of every run at or above `floor` (the larger of log start and cleaner checkpoint), and at its last
    offset, must be the run's epoch. Starts are ascending, so both ends of a run decide for every batch in it.

    What lies below the last batch of a format before magic 2 does not count: its append cleared the table; nor what lies below the offset
    where epochs began again: that entry took the higher ones out. With `copied_apart` (a running
    broker, its files copied one after the other) neither do the last batches, of epochs above the table's latest, if it has any: the table
    may be older; nor what lies where it begins an epoch above all batches: it may be newer, and the log cut since.
    """
    again = began_again(epochs, runs)
    since = max((i + 1 for i, run in enumerate(runs) if run.magic < 2), default=0)
    floor = floor if again is None else max(floor, again)
    newest, starts = latest_epoch(epochs), [entry.start_offset for entry in epochs]
    cut = began_since(epochs, runs) if copied_apart else None
    written_since = len(runs)  # behind all batches of epochs that the table knows
    while copied_apart and written_since and runs[written_since - 1].leader_epoch > newest >= 0:
        written_since -= 1
    for place, run in enumerate(runs[since:], since):
        epoch, first, last = run[:3]
        if cut is not None:
            last = min(last, cut - 1)
        if last < max(first, floor) or place >= written_since:
            continue
        for offset in (first if first > floor else floor, last):
            later = bisect_right(starts, offset)
            said = epochs[later - 1].epoch if later else None
            if (UNDEFINED_EPOCH if said is None else said) != epoch:
                return run, offset, said
    return None


def began_again(epochs: EpochTable, runs: Sequence[BatchRun]) -> int | None:
    """Where a log goes on in a lower epoch than all before, and its table begins: the cluster's metadata was lost and epochs began again.

    LeaderEpochFileCache.assign takes out every entry of the same or a higher epoch, and so all of before. None if epochs only grow, or the
    table knows an earlier epoch: then it is a batch that has a wrong one.
    """
    if not epochs:
        return None
    epoch, start = epochs[0]
    before = [run.leader_epoch for run in runs if run.first_offset < start and run.leader_epoch >= 0]
    goes_on = any((run.leader_epoch, run.first_offset) == (epoch, start) for run in runs)
    return start if goes_on and before and min(before) >= epoch and max(before) > epoch else None


def began_since(epochs: EpochTable, runs: Sequence[BatchRun]) -> int | None:
    """Where a table that was copied after the log begins the first epoch that is above all batches; None if it does not."""
    latest = max((run.leader_epoch for run in runs), default=UNDEFINED_EPOCH)
    return next((entry.start_offset for entry in epochs if entry.epoch > latest), None)


def moved_start(epochs: EpochTable, log: LoadedLog) -> int | None:
    """Where a table says that the log starts now, if above what the log itself says; None if it does not.

    UnifiedLog.maybeIncrementLogStartOffset truncates the table at once, log-start-offset-checkpoint is written within a minute. The first
    entry is then of the epoch that covers it, or stands at the log end.
    """
    if not epochs or epochs[0].start_offset <= log.log_start_offset:
        return None
    epoch, start = epochs[0]
    covered = any(run.leader_epoch == epoch and run.first_offset <= start <= run.last_offset for run in log.runs)
    return start if covered or start == log.log_end_offset else None


def truncate_batches(batches: Sequence[tuple[int, int]], offset: int) -> tuple[list[tuple[int, int]], int]:
    """`LocalLog.truncateTo(offset)` on (base, last) ranges, both inclusive: the surviving ranges and the log end offset in memory.

    The whole batch that holds the offset goes, yet the log end offset becomes the offset itself.
    """
    log_end_offset = batches[-1][1] + 1 if batches else offset
    if offset >= log_end_offset:
        return list(batches), log_end_offset
    return [batch for batch in batches if batch[1] < offset], offset


# Where a running broker's log begins, and what was deleted below it while its files were copied one after the other.
# Sources: UnifiedLog.deleteOldSegments, maybeIncrementLogStartOffset and LeaderEpochFileCache.truncateFromStart, 3.9 to 4.3: retention and
# DeleteRecords delete whole segments from the front only, and move the log start, and the first entry of the table with it, before they do.


def known_start(table: EpochTable, checkpoint: int | None, log: LoadedLog | None) -> int:
    """The log start that a broker wrote down: no file that is missing can feign it. 0 if it wrote none.

    Args:
        table: its epoch table as the file has it; empty if it is not known.
        checkpoint: its entry in log-start-offset-checkpoint.
        log: the log beside the table. Batches of a format without epochs are in no table: one that begins behind them tells nothing.
    """
    first = table[0].start_offset if table else 0
    is_silent = log is not None and any(run.magic < 2 and run.first_offset < first for run in log.runs)
    return max(checkpoint or 0, 0 if is_silent else first)


def deleted_until(log: LoadedLog, front: int) -> int | None:
    """Up to where a copy holds nothing but leftovers of deleted segments: the end of the last hole that a known log start reaches.

    The log start may have been written down before the last segments of a hole were deleted: one where a hole begins says that all below
    is deleted, and what is deleted next is what the copy lacks. Not so behind a segment that is there and damaged, or empty: its own end
    is what is missing, and deleting takes whole files. Only a log start behind the hole says that it does not matter.

    Args:
        log: the copy's.
        front: the largest known log start of the partition.

    Returns:
        An exclusive end, which is where a segment begins; None if every hole begins above the front.
    """
    files = log.missing_files
    return max((last + 1 for first, last in log.missing if (first if (first, last) in files else last + 1) <= front), default=None)


def emptied_segment(log: LoadedLog, cleaned_until: int | None, *, copied_apart: bool) -> tuple[int, int] | None:
    """The first segment without a batch that another follows, and that neither retention nor the cleaner leaves so: (base, end).

    Retention deletes files and empties none; a segment is rolled only when it holds a batch, so only the newest is empty by itself. Where
    each of its records had a newer one, the cleaner leaves an empty file until it is merged with the next (Cleaner.cleanSegments).

    Args:
        log: of the replica.
        cleaned_until: exclusive end of what its cleaner has been through; 0 if it has none, None if that is unknown.
        copied_apart: whether a running broker may have changed the files between their copies: one that was copied while it was the newest,
            and empty, may have been rolled since. An oldest one is not excused so: a log is seldom that young.

    Returns:
        Its base offset and where the next one begins; None if there is none. What lies below the log start does not count.
    """
    for base in log.empty_segments:
        end = log.segment_end(base)
        may_be_cleaned = cleaned_until is None or cleaned_until >= end or (copied_apart and cleaned_until > 0)
        if end > log.log_start_offset and not may_be_cleaned and not (copied_apart and base > log.segment_bases[0]):
            return base, end
    return None


def begins_as_retention_leaves_it(table: EpochTable, log: LoadedLog) -> bool:
    """Whether a table's first entry starts behind batches of its own epoch, and where a segment of the log does.

    Retention leaves it so for as long as the segments below are still listed. A table that lacks its first entries begins where an epoch
    does; one that was lost begins where the broker next appended, which is in the middle of a segment.
    """
    if not table or table[0].start_offset not in log.segment_bases:
        return False
    return any(run.leader_epoch == table[0].epoch and run.first_offset < table[0].start_offset for run in log.runs)


# Segments that the cleaner had merged into the one before them, and that a copy of a running broker's files holds all the same. Sources:
# Cleaner.cleanSegments and UnifiedLog.replaceSegments, 3.9 to 4.3: a group of segments becomes one with the base offset of the first; the
# new file is renamed, then the old ones are, and deleted a minute later. The active segment is in no group: where the newest of a copy was
# replaced, the broker began another after the copy had listed the directory.


def replaced_segments(segments: Sequence[Segment]) -> frozenset[int]:
    """The base offsets of segments that begin below the end of a segment before them, which replaced them if a cleaner wrote it.

    Args:
        segments: ascending by base offset, `.swap` files already in place.
    """
    replaced: set[int] = set()
    end = 0
    for segment in segments:
        if segment.base_offset < end:
            replaced.add(segment.base_offset)
        else:
            end = segment.next_offset
    return frozenset(replaced)
