"""The files of one replica and the scans of its segments → the replica as its broker would load it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from replica_audit.formats.log_dir.names import METADATA_TOPIC, SNAPSHOT
from replica_audit.formats.segment.segment_scan import NO_BATCH, TEXT_NOT_WHOLE, ZERO_FILLED
from replica_audit.frozen import made_quickly, once
from replica_audit.model import (
    NOT_USED,
    BatchHeader,
    BatchRun,
    Problem,
    Producers,
    ReplicaFiles,
    ScannedSegment,
    Segment,
    SegmentFile,
    StoredBatch,
    StoredDamage,
)
from replica_audit.partition.known.known_partition import ReadAgain, ReadSnapshot, ReadStored
from replica_audit.partition.replicas.replica_problems import (
    as_index_misleads,
    as_recovered,
    cleaner_offset,
    emptied_problem,
    is_left_by_recovery,
    log_problems,
    no_segments,
    with_known_stop,
    without_batch,
)
from replica_audit.protocol.epochs.checkpoint_repair import Correction
from replica_audit.protocol.epochs.epoch_table import EMPTY, table
from replica_audit.protocol.epochs.lineage import Span, history_of_runs, history_with_remote
from replica_audit.protocol.epochs.replica_log import LoadedLog, after_swaps, emptied_segment, epochs_from_runs, load_log
from replica_audit.protocol.exchange.replica import Look, Replica
from replica_audit.protocol.transactions.open_transactions import OpenTransaction
from replica_audit.protocol.transactions.producer_spans import producers_of_log
from replica_audit.protocol.verdict.reasons import goes_back
from replica_audit.rows.codes import Cause


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A replica with what its files say.

    `log` is None and `unreadable` set where nothing can be loaded; `scanned` are the segments that make up the log, ascending by base
    offset, each with the runs that its scan found, `producers` those of the log as it is stored, None if not known. `not_whole`:
    why it is unreadable though nothing is wrong with the broker's files: the text, or the copy, does not hold all of them.
    `correction` is what `leader-epoch-checkpoint` should hold, or why no table can be made; None where the file is right.
    `is_partly_read`: a segment could not be read. `is_end_unknown`: the newest one, so `log` ends where that begins, and the real one
    anywhere behind.
    `deleted_until`: below it retention or DeleteRecords deleted segments while they were copied, and what is left of them does not count;
    None if nothing tells of that. `is_known_empty`: there is no directory of it, and its broker will make an empty log.
    None if nothing tells of that. `torn_end`: bytes that are no batch at its end, which its broker, stopped cleanly, will not cut off.
    """

    broker_id: int
    files: ReplicaFiles
    log: LoadedLog | None
    unreadable: str | None
    scanned: Mapping[SegmentFile, Sequence[BatchRun]]
    problems: tuple[Problem, ...]
    read_again: ReadAgain
    read_stored: ReadStored
    read_snapshot: ReadSnapshot
    not_whole: Cause | None = None
    correction: Correction | None = None
    producers: Producers | None = None
    deleted_until: int | None = None
    is_partly_read: bool = False
    is_end_unknown: bool = False
    is_known_empty: bool = False
    torn_end: Problem | None = None

    @property
    def files_in_log(self) -> tuple[SegmentFile, ...]:
        """The segments that make up the log, ascending by base offset."""
        return tuple(self.scanned)

    @property
    def goes_back(self) -> str | None:
        """What is wrong where the offsets of the log go back; it can be read all the same."""
        return goes_back(self.log.went_back) if self.log is not None and self.log.went_back is not None else None

    @property
    def is_compared(self) -> bool:
        """Whether the replica takes part in verdicts."""
        return is_compared(self.files)

    @property
    def has_whole_log(self) -> bool:
        """Whether its batches can be read, whatever its small files are like: they tell by themselves what is in the log."""
        log = self.log
        is_usable = not self.unreadable or self.unreadable == self.files.offline_reason
        return log is not None and is_usable and log.corrupt_offset is None and log.broken_segment is None and not self.is_partly_read

    def replica(
        self,
        *,
        alive: bool | None,
        in_isr: bool,
        may_have_run: bool = False,
        frozen: bool = False,
        of_one_time: bool = True,
        has_remote_storage: bool = False,
    ) -> Replica:
        """The replica as the rules see it; only where there is a log."""
        if self.log is None:
            raise ValueError(f"replica {self.files.directory} of broker {self.broker_id} has no log")
        look, history = self.files.second_look, _history(self.log.runs)
        begins = self.files.log_start_offset if has_remote_storage else None
        if begins is not None:
            history = history_with_remote(self.log.epochs, begins, history, self.log.log_start_offset)
        return Replica(
            broker_id=self.broker_id,
            log=self.log,
            history=history,
            begins_remotely=begins,
            high_watermark=self.files.high_watermark,
            high_watermark_known=self.files.high_watermarks_collected,
            recovery_point=self.files.recovery_point,
            checkpoints_first=self.files.captured_at_ms is not None,
            cleaner_offset=self.files.cleaner_offset,
            topic_id=self.files.topic_id,
            checkpoint_known=self.files.has_known_table,
            unreadable=self.unreadable,
            alive=alive,
            may_have_run=may_have_run,
            in_isr=in_isr,
            frozen=frozen,
            of_one_time=of_one_time,
            stopped_cleanly=self.files.clean_shutdown and not alive,
            second_look=None if look is None else Look(table(look.epochs), look.log_end_offset),
            deleted_until=self.deleted_until,
            is_partly_read=self.is_partly_read,
            is_end_unknown=self.is_end_unknown,
        )

    def batches_from(self, offset: int) -> Iterator[BatchHeader]:
        """The batches of the log, read again, from the one that holds an offset on.

        Raises:
            UnreadBatchesError: they can no longer be read.
        """
        return self.read_again(self.broker_id, self.files, self.scanned, offset)

    def stored_from(self, offset: int) -> Iterator[StoredBatch | StoredDamage]:
        """The same with their files and bytes, and where a segment stops being a log.

        Raises:
            UnreadBatchesError: they can no longer be read.
        """
        return self.read_stored(self.broker_id, self.files, self.scanned, offset)

    def remembers(self, opened: OpenTransaction, *, runs: bool | None) -> bool | None:
        """Whether a transaction is open by what the broker knows of its producer, though it lies below the log start; None: not known.

        A broker forgets it when it reads its log from the log start on, where no producer snapshot tells of it.

        Args:
            opened: at the end of the log.
            runs: whether the broker does.
        """
        snapshots = [name for name in self.files.producer_files if name.endswith(SNAPSHOT)]
        if self.log is None or not snapshots:
            return None  # a collection, or a copy without them
        behind = [name for name in snapshots if opened.last_offset < int(name[:20]) <= self.log.log_end_offset]
        if not behind:
            return bool(runs)  # it has not started since: that would have made one
        states = self.read_snapshot(self.files, max(behind))
        return (
            None
            if states is None
            else any((one.producer_id, one.open_first_offset) == (opened.producer_id, opened.first_offset) for one in states)
        )

    def file_at(self, offset: int) -> str:
        """The path of the segment, or text, that holds an offset; in words where there is no directory."""
        if self.is_known_empty:
            return f"(no directory {self.files.directory})"
        holding = [file for file in self.files_in_log if file.base_offset <= offset] or list(self.files_in_log)
        return max(holding, key=lambda file: file.base_offset).path if holding else self.files.path


def is_compared(files: ReplicaFiles) -> bool:
    """Whether a replica takes part in verdicts: a current directory of an ordinary topic."""
    return files.state == "current" and files.topic != METADATA_TOPIC


@once
def _history(runs: Sequence[BatchRun]) -> tuple[Span, ...]:
    return tuple(history_of_runs(runs))


def load(
    broker_id: int,
    files: ReplicaFiles,
    scans: Sequence[ScannedSegment],
    read_again: ReadAgain,
    read_stored: ReadStored,
    read_snapshot: ReadSnapshot,
    *,
    alive: bool | None,
    compacted: bool,
    copied_apart: bool = False,
) -> Loaded:
    """Load one replica.

    Args:
        broker_id: of the broker whose folder holds it.
        files: what its small files say.
        scans: its segments as they were read, any order.
        read_again: reads its batches again.
        read_stored: reads them with their bytes.
        read_snapshot: reads one of its producer snapshots.
        alive: whether metadata says that the broker's process runs; None if unknown. A running broker has loaded nothing from these files.
        compacted: whether batches may be missing without harm.
        copied_apart: whether its broker ran, or may have, and may have changed its files while they were copied one after the other.
    """
    newest = max(scans, key=lambda scan: scan.file.base_offset, default=None)
    ends = [with_known_stop(one, files, alive=alive) for one in newest.problems] if newest is not None else []
    torn_end = next((one for one in ends if is_left_by_recovery(one, files, alive=alive)), None)
    of_scans = [(scan.segment, one) for scan in scans for one in (ends if scan is newest else scan.problems)]
    problems = [*files.problems, *(one for _segment, one in of_scans)]
    incomplete = next((problem for problem in problems if problem.code in TEXT_NOT_WHOLE), None)
    segments = after_swaps(scan.segment for scan in scans)
    read = {(part.base_offset, part.swap): part for part in (scan.file for scan in scans)}
    scanned = {read[(part.base_offset, part.swap)]: part.runs for part in segments}
    failed = {(scan.file.base_offset, scan.file.swap) for scan in scans if scan.failed}
    log: LoadedLog | None = None
    emptied: tuple[int, int] | None = None
    recovers = _recovers(files, segments, alive=alive)
    if segments:
        is_table_known = files.checkpoint_state != "not-collected"  # nor is one that is not used: of that nothing was taken over
        log = load_log(
            tuple(segments),
            checkpoint=table(files.epochs) if is_table_known else epochs_from_runs([run for part in segments for run in part.runs]),
            log_start_checkpoint=files.log_start_offset,
            recovery_point=files.recovery_point or 0,
            recovers=recovers,
            runs_on=bool(alive),
        )
        cut = log.recovery_cut
        if cut is not None and any(one.code in NO_BATCH and segment.next_offset >= cut for segment, one in of_scans):
            log = replace(log, cut_hides=True)
        if files.checkpoint_state == NOT_USED:
            log = replace(log, epochs=EMPTY, epochs_on_disk=EMPTY)
        of_scans = [
            (segment, told)
            for segment, one in of_scans
            if (told := as_index_misleads(one, files, segment, segments, log.log_start_offset, alive=alive, compacted=compacted))
        ]
        problems = [*files.problems, *(as_recovered(one, files, segment, log) for segment, one in of_scans)]
        emptied = emptied_segment(log, cleaner_offset(files) if compacted else 0, copied_apart=copied_apart)
        if emptied is not None:
            problems.append(emptied_problem(read[(emptied[0], False)].path, *emptied))
        if not incomplete and not failed:  # without all segments nothing can be said of their offsets
            problems += log_problems(files, log, alive=alive, may_have_holes=compacted)
    else:
        problems.append(no_segments(files))
    unreadable = _unreadable(files, scans, log, emptied, recovers=recovers)
    is_incomplete = incomplete is not None and not files.offline_reason and not failed
    if incomplete is not None and is_incomplete:
        unreadable = f"the text {incomplete.path} does not show the whole log: {incomplete.detail}"
    return Loaded(
        broker_id=broker_id,
        files=files,
        log=log,
        unreadable=unreadable,
        scanned=scanned,
        problems=tuple(problems),
        read_again=read_again,
        read_stored=read_stored,
        read_snapshot=read_snapshot,
        not_whole=Cause.TEXT_NOT_WHOLE if is_incomplete else None,
        producers=producers_of_log(part.producers for part in segments),
        is_partly_read=bool(failed),
        is_end_unknown=bool(segments) and (segments[-1].base_offset, segments[-1].swap) in failed,
        torn_end=torn_end,
    )


def _recovers(files: ReplicaFiles, segments: Sequence[Segment], *, alive: bool | None) -> bool:
    """Whether the broker recovers the log at its next start: it does not run, and was not stopped cleanly.

    Where the input holds nothing of the log directory, as beside a text, nobody knows how it was stopped, nor from where on it would
    recover: then what is wrong before the newest segment stays.
    """
    if files.clean_shutdown or alive:
        return False
    is_told = files.recovery_point is not None or files.high_watermarks_collected or files.has_lock
    return is_told or not any(segment.damaged or not all(run.intact for run in segment.runs) for segment in segments[:-1])


def _unreadable(
    files: ReplicaFiles, scans: Sequence[ScannedSegment], log: LoadedLog | None, emptied: tuple[int, int] | None, *, recovers: bool
) -> str | None:
    failed = next((scan.file.path for scan in scans if scan.failed), None)
    if files.offline_reason:
        return files.offline_reason
    if failed:
        return f"segment {failed} cannot be read"
    if log is None:
        return f"{files.directory} holds no segment that can be read"
    if log.corrupt_offset is not None:
        return f"the batch at offset {log.corrupt_offset} does not match its CRC"
    if log.broken_segment is not None:
        return f"segment {log.broken_segment} is damaged inside the log"
    if emptied is not None:
        return without_batch(*emptied)
    newest = max(scans, key=lambda scan: scan.file.base_offset)
    stop = next((one for one in newest.problems if one.kind == "segment" and one.code in NO_BATCH), None)
    if stop is not None and newest.segment.damaged and not recovers:
        return f"{newest.file.path} is damaged at byte {stop.byte_offset}, and nothing behind that can be read: {stop.detail}"
    reached = files.high_watermark or 0
    is_blank = any(one.code == ZERO_FILLED for one in newest.problems) and not log.runs
    if is_blank and not recovers and reached > log.log_end_offset:
        return f"{newest.file.path} holds nothing but zeros, and by its high watermark the log had reached {reached}"
    return None


def refuse_twins(loaded: Sequence[Loaded], alive: Callable[[int, ReplicaFiles], bool | None]) -> list[Loaded]:
    """A replica that stands in two log directories of one broker: neither is to be trusted.

    A broker that has both refuses to start (LogManager.loadLog), so of one that runs, and often of others, only the copy has them.
    """
    brokers = [one.broker_id for one in loaded if one.is_compared]
    if len(set(brokers)) == len(brokers):
        return list(loaded)
    current = Counter(brokers)
    checked = []
    for one in loaded:
        if one.is_compared and current[one.broker_id] > 1:
            twins = current[one.broker_id]
            runs = alive(one.broker_id, one.files) is True
            then = "only the copy can have both, for the broker runs" if runs else "if it has both, it refuses to start"
            reason = f"{one.files.directory} is in {twins} log directories of broker {one.broker_id}: {then}"
            problem = Problem(
                path=one.files.log_dir,
                kind="directory",
                code="replica-in-two-log-dirs",
                detail=reason,
                remedy="leave out the one that the broker does not have"
                + ("" if runs else "; if it has both, find out which it used last, and move the other out of its log directory"),
            )
            one = replace(one, unreadable=reason, problems=(*one.problems, problem))
        checked.append(one)
    return checked
