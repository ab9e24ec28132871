"""What brokers knew of producers, beside the log: producer snapshots and indexes of aborted transactions, against the log itself."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.errors import SegmentError
from replica_audit.files.locations import located
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.log_dir.names import SNAPSHOT, TRANSACTION_INDEX
from replica_audit.formats.log_dir.whole_file import LIST_LIMIT, whole_content
from replica_audit.formats.transactions.markers import batches_with_markers
from replica_audit.formats.transactions.producer_snapshot import entry_at, producer_states
from replica_audit.formats.transactions.transaction_index import aborted_transactions
from replica_audit.model import Problem, Producers
from replica_audit.partition.audit import PartitionAudit
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.transactions.index_check import index_contradictions
from replica_audit.protocol.transactions.segment_producers import producers_of_log
from replica_audit.protocol.transactions.snapshot_check import contradictions
from replica_audit.tables.runs import ReportedProblem

CONTRADICTS = "contradicts-log"
_SNAPSHOT_KIND, _INDEX_KIND = "producer-snapshot", "transaction-index"
_REMEDY = (
    "stop the broker and move this file away: it loads the snapshot before it and reads the log from there. Where there is none before it, "
    "move .kafka_cleanshutdown away, too, or the broker starts with an empty state"
)
_INDEX_REMEDY = (
    "stop the broker and move this file and the .index of the same segment away: a broker that starts without the .index recovers the "
    "segment, and writes both again"
)
_Segments = tuple[tuple[int, Producers | None], ...]  # by base offset, in order


def producer_file_problems(audit: PartitionAudit) -> Iterator[ReportedProblem]:
    """What is wrong with the files about producers of each replica; only of logs in which there are any, and that were never compacted."""
    if audit.context.compacted:
        return
    for loaded in audit.compared.values():
        if loaded.files.producer_files and loaded.producers is not None and loaded.producers.spans:
            for problem in _of_replica(loaded, _segments(audit, loaded)):
                yield ReportedProblem.of(loaded.broker_id, problem)


def _segments(audit: PartitionAudit, loaded: Loaded) -> _Segments:
    own = loaded.broker_id, loaded.files.log_dir, loaded.files.directory
    scans = [scan for broker, scan in audit.known.segments if (broker, scan.log_dir, scan.directory) == own and scan.file in loaded.scanned]
    return tuple(sorted(((scan.file.base_offset, scan.segment.producers) for scan in scans), key=lambda one: one[0]))


def _of_replica(loaded: Loaded, segments: _Segments) -> Iterator[Problem]:
    log = loaded.log
    if log is None or loaded.unreadable or log.recovery_cut is not None or log.missing:
        return
    ends = {*(base for base, _producers in segments), log.log_end_offset}
    names = [name for name in loaded.files.producer_files if name.endswith(SNAPSHOT)]
    # one inside a segment, or newer than the copy of the log, cannot be compared
    newest = max((name for name in names if log.log_start_offset <= int(name[:20]) and int(name[:20]) in ends), default=None)
    if newest is not None:
        below = producers_of_log(producers for base, producers in segments if base < int(newest[:20]))
        yield from _of_snapshot(loaded.files.inside(newest), below, max(log.log_start_offset, segments[0][0]))
    for name in loaded.files.producer_files:
        if name.endswith(TRANSACTION_INDEX):
            yield from _of_index(loaded, name, segments, log.log_start_offset)


def _of_snapshot(path: str, below: Producers | None, log_start_offset: int) -> Iterator[Problem]:
    try:
        states = producer_states(whole_content(located(path), LIST_LIMIT))
    except SegmentError as error:
        yield Problem(
            path=path,
            kind=_SNAPSHOT_KIND,
            code="malformed",
            detail=error.reason,
            remedy="none: a broker that loads it removes it, takes the snapshot before it, and reads the log from there",
            byte_offset=error.byte_offset,
        )
        return
    except OSError as error:
        yield cannot_read(located(path), _SNAPSHOT_KIND, error)
        return
    found = list(contradictions(states, below, log_start_offset)) if below is not None else []
    if found:
        more = f"; and {len(found) - 1} more of the {len(states)} producers in it" if len(found) > 1 else ""
        detail = f"it contradicts the log below its offset: {found[0].detail}{more}"
        at = entry_at(found[0].place)
        yield Problem(path=path, kind=_SNAPSHOT_KIND, code=CONTRADICTS, detail=detail, remedy=_REMEDY, byte_offset=at)


def _of_index(loaded: Loaded, name: str, segments: _Segments, log_start_offset: int) -> Iterator[Problem]:
    path, base_offset = loaded.files.inside(name), int(name[:20])
    segment = next((file for file in loaded.scanned if file.base_offset == base_offset and file.source == "raw"), None)
    try:
        entries, error = aborted_transactions(whole_content(located(path), LIST_LIMIT), base_offset)
        found: list[str] = []
        if segment is not None and entries and error is None:
            below = producers_of_log(producers for base, producers in segments if base < base_offset)
            if below is not None and not below.untold_batches:
                found = list(
                    index_contradictions(
                        entries,
                        batches_with_markers(located(segment.path)),
                        {span.producer_id: span.open_first_offset for span in below.spans if span.open_first_offset >= 0},
                        log_start_offset=max(log_start_offset, segments[0][0]),
                        is_sealed=base_offset < segments[-1][0],
                    )
                )
    except OSError as unread:
        yield cannot_read(located(path), _INDEX_KIND, unread)
        return
    if error is not None:
        at = error.byte_offset
        yield Problem(path=path, kind=_INDEX_KIND, code="malformed", detail=error.reason, remedy=_INDEX_REMEDY, byte_offset=at)
    if found:
        more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
        detail = f"it contradicts its segment: {found[0]}{more}"
        yield Problem(path=path, kind=_INDEX_KIND, code=CONTRADICTS, detail=detail, remedy=_INDEX_REMEDY)
