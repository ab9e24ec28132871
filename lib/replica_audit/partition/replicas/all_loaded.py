"""Every replica of a partition, loaded; of a running broker without what was deleted, or replaced, while its files were copied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

from replica_audit.formats.log_dir.names import EPOCH_CHECKPOINT, SNAPSHOT
from replica_audit.model import GONE, NOT_OPENED, NOT_USED, BatchRun, Problem, ReplicaFiles, ScannedSegment, Segment
from replica_audit.partition.known.known_partition import KnownPartition, ReadAgain, ReadSnapshot, ReadStored
from replica_audit.partition.replicas.corrected_checkpoints import with_corrections
from replica_audit.partition.replicas.loading import Loaded, is_compared, load, refuse_twins
from replica_audit.protocol.epochs.epoch_table import EMPTY, table
from replica_audit.protocol.epochs.replica_log import after_swaps, deleted_until, known_start, replaced_segments
from replica_audit.rows.codes import Cause

Readers = tuple[ReadAgain, ReadStored, ReadSnapshot]
Again = Callable[[int, ReplicaFiles, Collection[int]], Loaded]  # of the segments with these base offsets
IsAlive = Callable[[int, ReplicaFiles], bool | None]  # of a broker, by what was copied of it
IsSo = Callable[[int, ReplicaFiles], bool]
_SNAPSHOT_DIGITS = 20
_PERHAPS = "may have run then, before it was stopped"
_TABLE_OF_A_RUNNING_ONE = (
    "if the replica is no longer on that broker, remove its folder from the copy; else run collect there, for another copy of a running "
    "broker proves nothing. If the file is really missing there, do not stop the broker before the replica has taken records in a new "
    "leader epoch, which writes the file again"
)
_TABLE_OF_A_STOPPED_ONE = (
    "do not start the broker yet: {}. If the file is missing then, too, the next audit prints the lines to write before it is started"
)
_NO_SEGMENT = (
    "the copy has no segment (*.log), which every log on a broker has, also an empty one: copy the directory again. If the broker has none "
    "either, do not start it: it would begin with an empty log"
)
_REFUSED = (
    "the folder, or its segments (*.log), could not be read, and nothing is known of them: make them readable, and copy or collect again"
)
_AGAIN = "copy it again, or run collect there"
_HIDDEN = "copy its log directory again with hidden files (.kafka_cleanshutdown shows that the broker is stopped), or run collect there"


def load_all(
    known: KnownPartition,
    readers: Readers,
    *,
    alive: IsAlive,
    may_have_run: IsSo,
    changes: IsSo,
    compacted: bool,
    has_table: Callable[[int | None], bool] | None = None,
) -> list[Loaded]:
    """Load every replica directory of a partition, by broker, log directory and name.

    Args:
        known: what was read of it.
        readers: read batches, their bytes, and producer snapshots again.
        alive: whether the broker of a replica ran when its files were copied; None if unknown.
        may_have_run: whether it ran then, or may have.
        changes: whether its files may have changed while they were copied one after the other.
        compacted: whether batches may be missing without harm.
        has_table: whether a broker uses the epoch table of a log whose newest batch is of this format (None: without a batch); not given:
            always.
    """
    scans: dict[tuple[int, str, str], list[ScannedSegment]] = defaultdict(list)
    for broker, scan in known.segments:
        scans[broker, scan.log_dir, scan.directory].append(scan)

    def loaded(broker: int, files: ReplicaFiles, of: Collection[int] | None = None) -> Loaded:
        found = scans[broker, files.log_dir, files.directory]
        found = found if of is None else [scan for scan in found if scan.segment.base_offset in of]
        apart = is_compared(files) and changes(broker, files) and may_have_run(broker, files)
        return load(broker, files, found, *readers, alive=alive(broker, files), compacted=compacted, copied_apart=apart)

    def segments(one: Loaded) -> list[Segment]:
        return after_swaps(scan.segment for scan in scans[one.broker_id, one.files.log_dir, one.files.directory])

    def is_unread(one: Loaded) -> bool:
        """Whether a segment of it is there and cannot be read: then what it holds is missing for that, and was not deleted."""
        of_replica = scans[one.broker_id, one.files.log_dir, one.files.directory]
        return any(scan.failed and any(problem.code != GONE for problem in scan.problems) for scan in of_replica)

    def changed(one: Loaded) -> bool:
        return one.is_compared and changes(one.broker_id, one.files)

    def copied(broker: int, files: ReplicaFiles) -> ReplicaFiles:
        of_replica = scans[broker, files.log_dir, files.directory]
        if files.clean_shutdown and files.captured_at_ms is None:
            files = _as_of_its_log(files, _newest(of_replica))
        if has_table is not None:
            files = _if_used(files, _newest(of_replica), has_table)
        if files.checkpoint_state != "missing" or not is_compared(files) or not (changes(broker, files) and may_have_run(broker, files)):
            return files
        newest = _newest(of_replica)
        has_epochs = newest is not None and newest.leader_epoch >= 0
        return _without_table(files, runs=alive(broker, files) is True) if has_epochs else files

    found = [loaded(broker, copied(broker, files)) for broker, files in known.replicas]
    found.sort(key=lambda one: (one.broker_id, one.files.log_dir, one.files.directory))
    found = [_never_copied(one, found, changed, alive, may_have_run) for one in found]
    found = [_without_replaced(one, segments(one), found, loaded) if changed(one) and compacted else one for one in found]
    found = _without_deleted(found, lambda one: changed(one) and not is_unread(one), loaded)
    found = [
        _perhaps_deleted(one, alive) if changed(one) and may_have_run(one.broker_id, one.files) and not compacted else one for one in found
    ]
    return with_corrections(refuse_twins(found, alive), alive=lambda one: alive(one.broker_id, one.files))


def _newest(scans: Iterable[ScannedSegment]) -> BatchRun | None:
    return max((run for scan in scans for run in scan.segment.runs), key=attrgetter("last_offset"), default=None)


def _as_of_its_log(files: ReplicaFiles, newest: BatchRun | None) -> ReplicaFiles:
    """The files of a replica with the marker of a clean stop; without it where checkpoints and snapshots show that the log is of before.

    Source: UnifiedLog.close, 1.1 to 4.3: a clean stop writes a producer snapshot at the log end. Where older ones alone lie in the
    directory, a checkpoint beyond the log end was copied after the broker had gone on, and no record is missing for it.
    """
    snapshots = _offsets_of(name for name in files.producer_files if name.endswith(SNAPSHOT))
    if newest is None or not snapshots:
        return files
    reached = max(files.high_watermark or 0, files.recovery_point or 0)
    went_on = max(snapshots) <= newest.last_offset < reached - 1
    return replace(files, clean_shutdown=False, in_use=True) if went_on else files


def _if_used(files: ReplicaFiles, newest: BatchRun | None, has_table: Callable[[int | None], bool]) -> ReplicaFiles:
    """The files of a replica; without the entries of an epoch table that its broker can load and leaves alone."""
    is_used = files.checkpoint_state == "unreadable" or has_table(newest.magic if newest else None)
    return files if is_used else replace(files, checkpoint_state=NOT_USED, epochs=())


def _without_table(files: ReplicaFiles, *, runs: bool) -> ReplicaFiles:
    """Of the copy of a broker that ran, or may have, a checkpoint that is not there as one that was not copied.

    Source: CheckpointFile, 0.11 to 4.3: a broker that opens a log makes the file if there is none, and later only ever replaces it. Not of
    one in a format before v2, of which it deletes the file (UnifiedLog.maybeCreateLeaderEpochCache, up to 3.9).
    """
    ran, remedy = ("runs", _TABLE_OF_A_RUNNING_ONE) if runs else (_PERHAPS, _TABLE_OF_A_STOPPED_ONE.format(_HIDDEN))
    why = (
        f"the copy lacks the file, which a broker that runs has for each log of batches with epochs: this one {ran}, and may have moved or "
        "deleted the replica while its files were copied. The replica's epochs are taken from its batches, and its table is not checked"
    )
    problem = Problem(
        path=files.inside(EPOCH_CHECKPOINT),
        kind=EPOCH_CHECKPOINT,
        code="missing-from-copy",
        detail=why,
        remedy=remedy,
    )
    return replace(files, checkpoint_state="not-collected", problems=(*files.problems, problem))


def _never_copied(one: Loaded, loaded: Sequence[Loaded], changed: Callable[[Loaded], bool], alive: IsAlive, may_have_run: IsSo) -> Loaded:
    """Of a directory without a segment, whether it is the copy that lacks them: a log that a broker has open is never without one.

    Where the folder, or what has a segment's name, is there and cannot be read, nobody knows what is in it, also of a collection.
    Sources: LogSegments and UnifiedLog.deleteSegments, 3.9 to 4.3: a new segment is made before the last one is deleted.
    """
    if one.log is not None or one.files.segments or one.files.offline_reason or not one.is_compared:
        return one
    if one.files.is_refused or any(problem.code in NOT_OPENED and problem.kind == "segment" for problem in one.files.problems):
        return replace(one, not_whole=Cause.SEGMENTS_NOT_COPIED, unreadable=_REFUSED)
    if one.files.captured_at_ms is not None:  # `collect` listed the broker's own
        return one
    if not changed(one):
        return replace(one, not_whole=Cause.SEGMENTS_NOT_COPIED, unreadable=_NO_SEGMENT)
    front = _known_front(one, loaded, changed)
    if 0 < _reached(one.files) <= front:
        why = f"everything that was copied lies below offset {front}, where the log of a running replica starts"
    elif alive(one.broker_id, one.files):
        why = "the copy has no segment, but a running broker always has one: it was created or deleted while the others were copied"
    elif may_have_run(one.broker_id, one.files):
        why = f"the copy has no segment, and the broker {_PERHAPS}, and have created or deleted it meanwhile; {_HIDDEN}"
    else:
        return replace(one, not_whole=Cause.SEGMENTS_NOT_COPIED, unreadable=_NO_SEGMENT)
    return replace(one, not_whole=Cause.DELETED_WHILE_COPIED, unreadable=why)


def _known_front(one: Loaded, loaded: Sequence[Loaded], changed: Callable[[Loaded], bool]) -> int:
    """The largest log start that running replicas of the same topic wrote down."""
    return max((_front(other) for other in loaded if changed(other) and _is_same_topic(one, other)), default=0)


def _without_replaced(one: Loaded, segments: Sequence[Segment], loaded: Sequence[Loaded], again: Again) -> Loaded:
    """A replica without the segments that the cleaner had replaced: copied before they were deleted, and what replaced them afterwards."""
    if one.log is None or one.log.broken_segment is None:
        return one
    bases = {segment.base_offset for segment in segments}
    replaced = replaced_segments(segments)
    if not replaced:
        return one
    left = again(one.broker_id, one.files, bases - replaced)
    if max(bases) not in replaced or left.log is None:
        return left
    end, known_end = left.log.log_end_offset, max(_known_end(other) for other in loaded if _is_same_topic(one, other))
    if end <= known_end:
        return left
    why = (
        f"segment {max(bases - replaced)} of the copy of broker {one.broker_id} ends at offset {end}, behind the start of newer ones, and "
        f"nothing else that was copied reaches beyond offset {known_end}: the broker runs, and its cleaner may have replaced them between "
        "the copies of two files; copy it again, or run collect there: an overlap that remains is damage"
    )
    return replace(one, not_whole=Cause.DELETED_WHILE_COPIED, unreadable=why)


def _known_end(one: Loaded) -> int:
    """The highest offset that a replica is known to have reached, without its segments where those contradict each other."""
    end = one.log.log_end_offset if one.log is not None and one.log.broken_segment is None else 0
    return max(end, _reached(one.files))


def _without_deleted(loaded: Sequence[Loaded], changed: Callable[[Loaded], bool], again: Again) -> list[Loaded]:
    """Replicas of running brokers without the segments below a hole that only retention, or DeleteRecords, can have made under the copy."""
    made = []
    for one in loaded:
        log = one.log if changed(one) else None
        if log is not None and log.missing and (start := deleted_until(log, _known_front(one, loaded, changed))):
            above = {file.base_offset for file in one.files_in_log if file.base_offset >= start}
            one = replace(again(one.broker_id, one.files, above), deleted_until=start)
        made.append(one)
    return made


def _perhaps_deleted(one: Loaded, alive: IsAlive) -> Loaded:
    """Call a log with a hole between two segments not whole: its broker ran, or may have, so the hole may be the copy's or the broker's."""
    if one.log is None or not one.log.missing or one.unreadable:
        return one
    first, last = one.log.missing[-1]
    runs, again = ("runs, and may", _AGAIN) if alive(one.broker_id, one.files) else (f"{_PERHAPS}, and", _HIDDEN)
    why = (
        f"no segment of the copy of broker {one.broker_id} holds offsets {first}..{last}: the broker {runs} have deleted them "
        f"between the copies of two files; {again}: a hole that remains is the broker's"
    )
    return replace(one, not_whole=Cause.DELETED_WHILE_COPIED, unreadable=why)


def _is_same_topic(one: Loaded, other: Loaded) -> bool:
    return None in (one.files.topic_id, other.files.topic_id) or one.files.topic_id == other.files.topic_id


def _front(one: Loaded) -> int:
    files = one.files
    is_known = files.checkpoint_state in ("ok", "healed")
    return known_start(table(files.epochs) if is_known else EMPTY, files.log_start_offset, one.log)


def _reached(files: ReplicaFiles) -> int:
    """How far a log without a segment reached, by all that is written down of it; 0 if nothing is."""
    told = [files.high_watermark, files.recovery_point, files.log_start_offset, *(start for _epoch, start in files.epochs)]
    return max((offset for offset in (*told, *_offsets_of(files.producer_files)) if offset is not None), default=0)


def _offsets_of(names: Iterable[str]) -> list[int]:
    """The offsets that files of producers are named by."""
    return [int(name[:_SNAPSHOT_DIGITS]) for name in names if name[:_SNAPSHOT_DIGITS].isdecimal()]
