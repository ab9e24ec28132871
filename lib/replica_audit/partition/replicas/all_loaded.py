"""Every replica of a partition, loaded; of a running broker without what was deleted from its log while its files were copied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from replica_audit.model import ReplicaFiles, ScannedSegment
from replica_audit.partition.known.known_partition import KnownPartition, ReadAgain, ReadSnapshot, ReadStored
from replica_audit.partition.replicas.corrected_checkpoints import with_corrections
from replica_audit.partition.replicas.loading import Loaded, load, refuse_twins
from replica_audit.protocol.epochs.epoch_table import EMPTY, table
from replica_audit.protocol.epochs.log_front import deleted_until, known_start
from replica_audit.protocol.verdict.verdict import Cause

Readers = tuple[ReadAgain, ReadStored, ReadSnapshot]
_SNAPSHOT_DIGITS = 20


def load_all(
    known: KnownPartition,
    readers: Readers,
    *,
    alive: Callable[[int, ReplicaFiles], bool | None],
    changes: Callable[[int, ReplicaFiles], bool],
    compacted: bool,
) -> list[Loaded]:
    """Load every replica directory of a partition, by broker, log directory and name.

    Args:
        known: what was read of it.
        readers: read batches, their bytes, and producer snapshots again.
        alive: whether the broker of a replica ran when its files were copied; None if unknown.
        changes: whether its files may have changed while they were copied one after the other.
        compacted: whether metadata says that the topic is compacted.
    """
    scans: dict[tuple[int, str, str], list[ScannedSegment]] = defaultdict(list)
    for broker, scan in known.segments:
        scans[broker, scan.log_dir, scan.directory].append(scan)

    def loaded(broker: int, files: ReplicaFiles, start: int = 0) -> Loaded:
        found = [scan for scan in scans[broker, files.log_dir, files.directory] if scan.segment.base_offset >= start]
        return load(broker, files, found, *readers, alive=alive(broker, files), compacted=compacted)

    def changed(one: Loaded) -> bool:
        return one.is_compared and changes(one.broker_id, one.files)

    found = [loaded(broker, files) for broker, files in known.replicas]
    found.sort(key=lambda one: (one.broker_id, one.files.log_dir, one.files.directory))
    found = [_never_copied(one, found, changed, alive) for one in found]
    found = _without_deleted(found, changed, loaded)
    return with_corrections(refuse_twins(found), alive=lambda one: alive(one.broker_id, one.files))


def _never_copied(
    one: Loaded, loaded: Sequence[Loaded], changed: Callable[[Loaded], bool], alive: Callable[[int, ReplicaFiles], bool | None]
) -> Loaded:
    """Of a directory without a segment, whether it is the copy that lacks them: a log that a broker has open is never without one.

    Sources: LogSegments and UnifiedLog.deleteSegments, 3.9 to 4.3: a new segment is made before the last one is deleted.
    """
    if one.log is not None or one.files.segments or one.files.offline_reason or not changed(one):
        return one
    front = _known_front(one, loaded, changed)
    if 0 < _reached(one.files) <= front:
        why = f"all that was listed to be copied lies below offset {front}, where the log of a running replica starts"
    elif alive(one.broker_id, one.files):
        why = "the copy has no segment, but a running broker always has one: it was made, or deleted, while the others were copied"
    else:
        return one
    return replace(one, not_whole=Cause.DELETED_WHILE_COPIED, unreadable=why)


def _known_front(one: Loaded, loaded: Sequence[Loaded], changed: Callable[[Loaded], bool]) -> int:
    """The largest log start that running replicas of the same topic wrote down."""
    return max((_front(other) for other in loaded if changed(other) and _is_same_topic(one, other)), default=0)


def _without_deleted(
    loaded: Sequence[Loaded], changed: Callable[[Loaded], bool], again: Callable[[int, ReplicaFiles, int], Loaded]
) -> list[Loaded]:
    """Replicas of running brokers without the segments below a hole that only retention, or DeleteRecords, can have made under the copy."""
    made = []
    for one in loaded:
        missing = one.log.missing if one.log is not None and changed(one) else ()
        if missing and (start := deleted_until(missing, _known_front(one, loaded, changed))):
            one = replace(again(one.broker_id, one.files, start), deleted_until=start)
        made.append(one)
    return made


def _is_same_topic(one: Loaded, other: Loaded) -> bool:
    return None in (one.files.topic_id, other.files.topic_id) or one.files.topic_id == other.files.topic_id


def _front(one: Loaded) -> int:
    files = one.files
    is_known = files.checkpoint_state in ("ok", "healed")
    return known_start(table(files.epochs) if is_known else EMPTY, files.log_start_offset, one.log)


def _reached(files: ReplicaFiles) -> int:
    """How far a log without a segment reached, by all that is written down of it; 0 if nothing is."""
    told = [files.high_watermark, files.recovery_point, files.log_start_offset, *(start for _epoch, start in files.epochs)]
    snapshots = [int(name[:_SNAPSHOT_DIGITS]) for name in files.producer_files if name[:_SNAPSHOT_DIGITS].isdecimal()]
    return max((offset for offset in (*told, *snapshots) if offset is not None), default=0)
