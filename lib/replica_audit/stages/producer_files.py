"""What brokers knew of producers, beside the log: producer snapshots and indexes of aborted transactions, against the log itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from replica_audit.errors import DumpLogError, InputError, SegmentError
from replica_audit.files.locations import located
from replica_audit.files.opened import LinkOutsideError
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.indexes import REMEDY, TRANSACTION_INDEX_KIND, transaction_index_problem
from replica_audit.formats.log_dir.names import SNAPSHOT, TRANSACTION_INDEX
from replica_audit.formats.log_dir.small_files import LIST_LIMIT, whole_content
from replica_audit.formats.producer_files import (
    aborted_transactions,
    aborted_transactions_in_text,
    entry_at,
    producer_states,
    producer_states_in_text,
)
from replica_audit.formats.replicas.replica_reader import marked_batches
from replica_audit.model import MISLEADING_INDEX, AbortedTransaction, Problem, Producers, ProducerState, ProducerText, ScannedSegment
from replica_audit.partition.audit import PartitionAudit
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.transactions.producer_spans import contradictions, index_contradictions, producers_of_log
from replica_audit.rows.runs import ReportedProblem

CONTRADICTS = "contradicts-log"
_SNAPSHOT_KIND = "producer-snapshot"
_SNAPSHOT_REMEDY = (
    "stop the broker and move this file away: it then loads the previous snapshot and reads the log from there. If there is none, "
    "move .kafka_cleanshutdown away, too, or the broker starts with an empty state"
)
_TEXT_REMEDY = "dump that file again and keep its whole text, and nothing else"
_Segments = tuple[tuple[int, Producers | None], ...]  # by base offset, in order


def producer_file_problems(audit: PartitionAudit) -> Iterator[ReportedProblem]:
    """What is wrong with the files about producers of each replica; only of logs in which there are any, and that were never compacted."""
    if audit.context.compacted:
        return
    for loaded in audit.compared.values():
        own = loaded.broker_id, loaded.files.log_dir, loaded.files.directory
        scans = [scan for broker, scan in audit.known.segments if (broker, scan.log_dir, scan.directory) == own]
        for problem in problems_of_producers(loaded, scans):
            yield ReportedProblem.of(loaded.broker_id, problem)


def problems_of_producers(loaded: Loaded, scans: Sequence[ScannedSegment]) -> Iterator[Problem]:
    """Those of a replica, whose log, of these segments, was never compacted."""
    has_any = loaded.files.producer_files or loaded.files.producer_texts
    if has_any and loaded.producers is not None and loaded.producers.spans:
        segments = [(scan.file.base_offset, scan.segment.producers) for scan in scans if scan.file in loaded.scanned]
        yield from _of_replica(loaded, tuple(sorted(segments, key=lambda one: one[0])))


class _Given(NamedTuple):
    """A file about producers as the input has it, by its name: itself, or text of it."""

    name: str
    path: str
    text: ProducerText | None

    @property
    def offset(self) -> int:
        return int(self.name[:20])


def _given(loaded: Loaded) -> Iterator[list[_Given]]:
    """Those that are there as they are, and those that are text."""
    files = loaded.files
    yield [_Given(name, files.inside(name), None) for name in files.producer_files]
    yield [_Given(text.name, text.path, text) for text in files.producer_texts]


def _of_replica(loaded: Loaded, segments: _Segments) -> Iterator[Problem]:
    log = loaded.log
    if log is None or loaded.unreadable or log.recovery_cut is not None or log.missing:
        return
    ends = {*(base for base, _producers in segments), log.log_end_offset}
    for given in _given(loaded):
        # one inside a segment, or newer than the copy of the log, cannot be compared
        fitting = [one for one in given if one.name.endswith(SNAPSHOT) and log.log_start_offset <= one.offset and one.offset in ends]
        newest = max(fitting, key=lambda one: one.offset, default=None)
        if newest is not None:
            below = producers_of_log(producers for base, producers in segments if base < newest.offset)
            yield from _of_snapshot(newest, below, max(log.log_start_offset, segments[0][0]))
        for one in given:
            if one.name.endswith(TRANSACTION_INDEX):
                yield from _of_index(loaded, one, segments, log.log_start_offset)


def _states(given: _Given) -> tuple[tuple[ProducerState, ...], tuple[int, ...]]:
    """The producers of a snapshot, and of a text their lines."""
    if given.text is None:
        return producer_states(whole_content(located(given.path), LIST_LIMIT)), ()
    found = producer_states_in_text(given.text)
    return tuple(state for state, _line in found), tuple(line for _state, line in found)


def _of_snapshot(given: _Given, below: Producers | None, log_start_offset: int) -> Iterator[Problem]:
    try:
        states, lines = _states(given)
    except SegmentError as error:
        loads = "none: a broker that loads it removes it, takes the snapshot before it, and reads the log from there"
        yield _malformed(given, _SNAPSHOT_KIND, error, loads)
        return
    except DumpLogError as error:
        yield _malformed(given, _SNAPSHOT_KIND, error, _TEXT_REMEDY)
        return
    except LinkOutsideError:
        return  # told where its folder was listed
    except OSError as error:
        yield cannot_read(located(given.path), _SNAPSHOT_KIND, error)
        return
    found = list(contradictions(states, below, log_start_offset)) if below is not None else []
    if found:
        more = f"; and {len(found) - 1} more of the {len(states)} producers in it" if len(found) > 1 else ""
        place = found[0].place
        yield Problem(
            path=given.path,
            kind=_SNAPSHOT_KIND,
            code=CONTRADICTS,
            detail=f"{_named(given)} contradicts the log below its offset: {found[0].detail}{more}",
            remedy=_SNAPSHOT_REMEDY,
            line=lines[place] if lines else None,
            byte_offset=None if lines else entry_at(place),
        )


def _named(given: _Given) -> str:
    return "it" if given.text is None else given.name


def _malformed(given: _Given, kind: str, error: InputError, remedy: str) -> Problem:
    return Problem(
        path=given.path,
        kind=kind,
        code="malformed",
        detail=error.reason if given.text is None else f"{given.name}: {error.reason}",
        remedy=remedy,
        line=error.line,
        byte_offset=error.byte_offset,
    )


def _entries(given: _Given) -> tuple[tuple[AbortedTransaction, ...], InputError | None]:
    if given.text is None:
        return aborted_transactions(whole_content(located(given.path), LIST_LIMIT), given.offset)
    try:
        return aborted_transactions_in_text(given.text), None
    except DumpLogError as error:
        return (), error


def _of_index(loaded: Loaded, given: _Given, segments: _Segments, log_start_offset: int) -> Iterator[Problem]:
    segment = next((file for file in loaded.scanned if file.base_offset == given.offset), None)
    try:
        entries, error = _entries(given)
        found: list[str] = []
        if segment is not None and entries and error is None:
            below = producers_of_log(producers for base, producers in segments if base < given.offset)
            batches = marked_batches(segment) if below is not None and not below.untold_batches else None
            if below is not None and batches is not None:
                found = list(
                    index_contradictions(
                        entries,
                        batches,
                        {span.producer_id: span.open_first_offset for span in below.spans if span.open_first_offset >= 0},
                        log_start_offset=max(log_start_offset, segments[0][0]),
                        is_sealed=given.offset < segments[-1][0],
                    )
                )
    except (DumpLogError, LinkOutsideError):
        return  # told when the segment's text was scanned, or where the folder was listed
    except OSError as unread:
        yield cannot_read(located(given.path), TRANSACTION_INDEX_KIND, unread)
        return
    if error is not None:
        yield _malformed(given, TRANSACTION_INDEX_KIND, error, REMEDY if given.text is None else _TEXT_REMEDY)
    is_told = any((one.path, one.code) == (given.path, MISLEADING_INDEX) for one in loaded.problems)  # by its segment alone
    problem = None if is_told else transaction_index_problem(given.path, _named(given), found)
    if problem is not None:
        yield problem
