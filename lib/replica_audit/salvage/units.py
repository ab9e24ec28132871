"""Cuts and places → the work of tasks: for each segment of a cut where its records are, and what of the leader they are compared with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from replica_audit.engine.replica_places import ReplicaPlace
from replica_audit.formats.salvage.log_records import bytes_at
from replica_audit.model import SegmentFile
from replica_audit.model.salvage import AuditedLog, AuditedSegment, LeaderLog, LogCut, SalvageUnit, UnitOutcome, UnsavedRange
from replica_audit.past.cuts import Replica, RunCuts
from replica_audit.salvage.output import file_name

NOT_THERE = "not-in-the-inputs"
_PRECEDING = 16  # segments in which the beginning of a transaction is looked for
_SAME_INPUTS = "give the inputs of the audit, each with --input; put back what was moved or removed since then"
Places = Mapping[Replica, Sequence[ReplicaPlace]]


def units_of(found: RunCuts, places: Places, records: Path) -> Iterator[SalvageUnit | UnitOutcome]:
    """The units of all cuts; of one whose replica is not in the inputs what came of it: nothing.

    Args:
        found: its cuts.
        places: where the replicas are now.
        records: the folder of the files of saved records.
    """
    for cut in found.cuts:
        replica = (cut.topic, cut.partition, cut.broker_id)
        place = chosen(places.get(replica, ()), found.logs[replica])
        missing = _missing(replica, place, cut.first_offset, found) or _missing_of_leader(cut, found, places)
        if place is None or missing is not None:
            yield _not_there(cut, missing or "")
            continue
        leader = leader_log(cut, found, places)
        for number, file in enumerate(place.segments):
            if _overlaps(place.segments, number, cut.first_offset, cut.end_offset):
                before = place.segments[max(0, number - _PRECEDING) : number]
                yield SalvageUnit(
                    cut=cut,
                    output=str(records / f"{file_name(cut.topic, cut.partition)}.broker-{cut.broker_id}.{file.base_offset:020d}.parquet"),
                    segment=audited(file, replica, found, place),
                    following=_paths(one for one in place.segments[number + 1 :] if one.base_offset < cut.end_offset),
                    preceding=_paths(reversed(before)),
                    has_all_preceding=number <= _PRECEDING,
                    leader=leader,
                )


def chosen(places: Sequence[ReplicaPlace], log: AuditedLog) -> ReplicaPlace | None:
    """The directory that was audited: at the same place, or the only one, in a copy that was moved."""
    same = [place for place in places if (place.log_dir, place.directory) == (log.log_dir, log.directory)]
    if same:
        return same[0]
    return places[0] if len(places) == 1 else None


def leader_log(cut: LogCut, found: RunCuts, places: Places) -> LeaderLog:
    """The leader's log from the cut, or the first difference, on."""
    replica = (cut.topic, cut.partition, cut.leader_id)
    log = found.logs.get(replica)
    place = None if log is None else chosen(places.get(replica, ()), log)
    if log is None or place is None:
        unread = "there is no leader" if cut.leader_id < 0 else f"the inputs hold no log of the leader, broker {cut.leader_id}"
        return LeaderLog(log_start_offset=0, log_end_offset=0, from_offset=0, segments=(), unread=unread)
    differs = cut.first_offset if cut.differs_from is None else min(cut.differs_from, cut.first_offset)
    from_offset = max(differs, log.log_start_offset)
    files = [file for n, file in enumerate(place.segments) if _overlaps(place.segments, n, from_offset, log.log_end_offset)]
    without = next((file for file in files if bytes_at(file) is None), None)
    return LeaderLog(
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        from_offset=from_offset,
        segments=() if without else tuple(audited(file, replica, found, place) for file in files),
        unread=f"of the leader, broker {cut.leader_id}, the inputs hold no records ({without.path})" if without else None,
    )


def _missing_of_leader(cut: LogCut, found: RunCuts, places: Places) -> str | None:
    """The same of the leader, of a log that was audited."""
    replica = (cut.topic, cut.partition, cut.leader_id)
    if replica not in found.logs:
        return None
    place = chosen(places.get(replica, ()), found.logs[replica])
    return _missing(replica, place, cut.first_offset if cut.differs_from is None else min(cut.first_offset, cut.differs_from), found)


def _missing(replica: Replica, place: ReplicaPlace | None, first: int, found: RunCuts) -> str | None:
    """What was audited of a log from an offset on, and is not there; None if all is."""
    log = found.logs[replica]
    if place is None:
        return f"{log.log_dir}/{log.directory}"
    there = {file.base_offset for file in place.segments}
    held = {} if place.has_swap else found.runs.get((replica, log.log_dir), {})
    gone = sorted(base for base, runs in held.items() if base not in there and runs[-1].last_offset >= first)
    return f"{log.log_dir}/{log.directory}/{gone[0]:020d}.log" if gone else None


def audited(file: SegmentFile, replica: Replica, found: RunCuts, place: ReplicaPlace) -> AuditedSegment:
    """A segment with what the audit read of it."""
    log_dir = found.logs[replica].log_dir
    if place.has_swap or (replica, log_dir) in found.ambiguous:
        return AuditedSegment(file=file, runs=None)
    return AuditedSegment(file=file, runs=found.runs.get((replica, log_dir), {}).get(file.base_offset, ()))


def _overlaps(files: Sequence[SegmentFile], number: int, first: int, end: int) -> bool:
    following = files[number + 1].base_offset if number + 1 < len(files) else end
    return files[number].base_offset < end and following > first


def _paths(files: Iterator[SegmentFile] | Sequence[SegmentFile]) -> tuple[str, ...]:
    return tuple(path for file in files if (path := bytes_at(file)) is not None)


def _not_there(cut: LogCut, path: str) -> UnitOutcome:
    unsaved = UnsavedRange(
        first_offset=cut.first_offset,
        last_offset=cut.end_offset - 1,
        record_count=cut.record_count,
        code=NOT_THERE,
        detail="the inputs do not hold what was audited, or hold it twice",
        remedy=_SAME_INPUTS,
        path=path,
    )
    return UnitOutcome(broker_id=cut.broker_id, topic=cut.topic, partition=cut.partition, output=None, unsaved=(unsaved,))
