"""Where the replicas of some partitions are now, with the segments that make up their logs: a listing of the inputs, in this process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from replica_audit.files.locations import located
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.formats.replicas.replica_reader import files_in_log
from replica_audit.model import CANNOT_READ, Problem, ReplicaFiles, ScannedSegment, SegmentFile
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.stages.items import CollectedReading, Item
from replica_audit.stages.segments import scan

Source = tuple[str, int | None, str, str]
Replica = tuple[str, int, int]  # topic, partition, broker


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPlace:
    """One current replica directory. `segments` make up its log, ascending by base offset."""

    log_dir: str
    directory: str
    segments: tuple[SegmentFile, ...]

    @property
    def has_swap(self) -> bool:
        """Whether a finished replacement of segments was not renamed yet."""
        return any(file.swap for file in self.segments)


def places_of(
    sources: Iterable[Source], partitions: Collection[tuple[str, int]]
) -> tuple[dict[Replica, list[ReplicaPlace]], list[Problem]]:
    """The current replica directories of partitions, and what could not be read of the brokers' folders.

    Args:
        sources: as of `Root.sources`.
        partitions: as (topic, partition).
    """
    places: defaultdict[Replica, list[ReplicaPlace]] = defaultdict(list)
    problems: list[Problem] = []
    for _cluster, broker, path, kind in sources:
        if kind != "broker" or broker is None:
            continue
        for found in replicas_of(located(path)):
            if isinstance(found, Problem):
                problems.append(found)
            elif isinstance(found, ReplicaFiles) and found.state == "current" and (found.topic, found.partition) in partitions:
                try:
                    place = _place(found)
                except OSError as error:
                    detail = error.strerror or str(error)
                    remedy = "make the file readable, and start the salvage again"
                    problems.append(Problem(path=found.path, kind="directory", code=CANNOT_READ, detail=detail, remedy=remedy))
                    continue
                places[found.topic, found.partition, broker].append(place)
    return dict(places), problems


def _place(replica: ReplicaFiles) -> ReplicaPlace:
    segments = _collected(replica.scans, replica.directory) if replica.scans else replica.segments
    return ReplicaPlace(log_dir=replica.log_dir, directory=replica.directory, segments=tuple(files_in_log(segments)))


def _collected(scans: str, directory: str) -> tuple[SegmentFile, ...]:
    """The segments of a replica that was collected; a copy is one, with the records, only where all of a segment was copied."""
    reading = CollectedReading(scans=scans, log_dir="", directories=(directory,))
    files = (
        found.value.file
        for found in scan(Item("", None, None, None, reading), CompareMode.CONTENT)
        if isinstance(found.value, ScannedSegment)
    )
    return tuple(replace(file, source="raw", path=file.copy) if file.copy else file for file in files)
