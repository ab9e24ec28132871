"""Predicted = performed: what the audit says of diverged replicas, held against what the brokers then do.

What they did is taken from their logs and from the bytes afterwards; the bytes by a reader of the laboratory's own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replica_audit.formats.server_log.events import events
from replica_audit.protocol.comparison.observed import EventKind, LogEvent
from tests.kafka_lab.files import FileBatch, batches, checkpointed_epochs, clipped, epoch_runs, log_start_offset, replica_directories
from tests.kafka_lab.transactions import STATE_TOPIC

Row = dict[str, Any]
Key = tuple[str, int, int]
_FETCHERS = {EventKind.FETCHER_TRUNCATION, EventKind.HIGH_WATERMARK_TRUNCATION}


@dataclass(slots=True)
class Performed:
    """What one follower logged: its cuts in order as (offset, complete, answered epoch, answered end offset).

    `fallback` is the high watermark that it cut its log to, `restart` the offset at which it began anew. Orders that cut nothing are left
    out.
    """

    cuts: list[tuple[int, bool | None, int | None, int | None]] = field(default_factory=list)
    fallback: int | None = None
    restart: int | None = None
    failed: bool = False


def performed(lines: Iterable[LogEvent]) -> dict[Key, Performed]:
    """Fold what brokers logged since the copies were taken; an order counts where the log says that it was cut."""
    found: dict[Key, Performed] = defaultdict(Performed)
    ordered: dict[Key, LogEvent] = {}
    for event in lines:
        assert event.broker_id is not None or event.kind is not EventKind.FETCHER_TRUNCATION
        key = (event.topic, event.partition, event.broker_id or -1)
        if event.kind in _FETCHERS:
            ordered[key] = event
        elif event.kind is EventKind.LOG_TRUNCATION:
            _cut(found[key], ordered.pop(key, None), event)
        elif event.kind is EventKind.FULL_TRUNCATION:
            found[key].restart = event.offset
        elif event.kind is EventKind.FETCHER_FAILED:
            found[key].failed = True
    return found


def _cut(what: Performed, order: LogEvent | None, event: LogEvent) -> None:
    if order and order.kind is EventKind.HIGH_WATERMARK_TRUNCATION:
        what.fallback = event.offset
    else:
        answer = (order.complete, order.answered_epoch, order.answered_end_offset) if order else (None, None, None)
        what.cuts.append((event.offset or 0, *answer))


def lines_of(log: Path, broker: int, begin: int) -> Iterator[LogEvent]:
    """A broker's events from a byte of its log on. The log's own lines do not name the broker."""
    with log.open("rb") as stream:
        stream.seek(begin)
        for event in events(stream):
            yield event._replace(broker_id=broker)


@dataclass(slots=True)
class Comparison:
    """What was compared and what differs; `cuts` counts the followers by how many rounds cut them."""

    partitions: set[tuple[str, int]] = field(default_factory=set)
    followers: int = 0
    cuts: Counter[int] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    transactions: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)


def compare(
    before: dict[str, list[Row]], did: dict[Key, Performed], roots: tuple[Path, Path], leader: int, compacted: Container[str] = ()
) -> Comparison:
    """Hold every follower against the prediction.

    Args:
        before: the audit's tables of the diverged state.
        did: what followers logged.
        roots: copies before and after.
        leader: the broker that leads everything, before and after.
        compacted: topics that are cleaned all the time, so that of their files only those before can be told.
    """
    result = Comparison()
    was, became = replica_directories(roots[0]), replica_directories(roots[1])
    points = {(row["topic"], row["partition"], row["follower_id"]): row for row in before["truncation_points"] if row["applies"]}
    verdicts = {(row["topic"], row["partition"], row["follower_id"]): row for row in before["replica_verdicts"]}
    for key in sorted(key for key in was if _is_compared(key, leader, points)):
        result.followers += 1
        result.partitions.add(key[:2])
        if key not in points:
            result.differences.append(f"{_name(key)}: the audit has no row for it")
            continue
        point, verdict = points[key], verdicts[key]
        result.cuts[sum(step["truncate_to"] is not None for step in point["rounds"])] += 1
        result.verdicts[verdict["verdict"]] += 1
        leads = (*key[:2], leader)
        found = [*by_the_log(point, did.get(key, Performed()))]
        if key[0] in compacted:
            found += by_the_count(verdict, was[key], point, is_compacted=True)
        else:
            found += by_the_files(point, verdict, (was[key], became[key], became[leads]), leader)
        result.differences += [f"{_name(key)}: {text}" for text in found]
    return result


def _is_compared(key: Key, leader: int, points: Mapping[Key, Row]) -> bool:
    """Followers of the leader; of the internal topics, which may be led by another broker, only the state of transactions."""
    if key[0].startswith("__") and (key[0] != STATE_TOPIC or key not in points or points[key]["leader_id"] != leader):
        return False
    return key[2] != leader


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]} on broker {key[2]}"


def by_the_log(point: Row, did: Performed) -> Iterator[str]:
    """Where a row of `truncation_points` and what a follower logged differ."""
    rounds = [
        (step["truncate_to"], step["complete"], step["answered_epoch"], step["answered_end_offset"])
        for step in point["rounds"]
        if step["truncate_to"] is not None
    ]
    if rounds != did.cuts:
        yield f"rounds {rounds} were predicted, {did.cuts} performed"
    cut = did.cuts[-1][0] if did.cuts else did.fallback
    if point["truncation_offset"] != cut:
        yield f"a cut to {point['truncation_offset']} was predicted, {cut} performed"
    if point["restart_offset"] != did.restart:
        yield f"a restart at {point['restart_offset']} was predicted, {did.restart} performed"
    if point["fetcher_fails"] != did.failed:
        yield f"fetcher_fails {point['fetcher_fails']} was predicted, {did.failed} performed"


def by_the_files(point: Row, verdict: Row, directories: tuple[Path, Path, Path], leader: int) -> Iterator[str]:
    """Where the rows of a follower, and its batches and checkpoint differ.

    Args:
        point: its row of `truncation_points`.
        verdict: its row of `replica_verdicts`.
        directories: its own before and after, and its leader's after.
        leader: the leader's id.
    """
    was, became, leads = (batches(directory) for directory in directories)
    restart, cut = point["restart_offset"], point["truncation_offset"]
    kept = [] if restart is not None else [batch for batch in was if cut is None or batch.last < cut]
    yield from by_the_count(verdict, directories[0], point)
    begin = restart if restart is not None else cut if cut is not None else (was[-1].last + 1 if was else 0)
    rest = [batch for batch in leads if batch.last >= begin]
    if point["fetcher_fails"]:
        rest = []
    elif rest and rest[0].base < begin:
        # only a log that is empty can begin below its own start (Partition.appendRecordsToFollower)
        kept = []
    if became != kept + rest:
        yield f"it has {_shown(became)}; predicted were {_shown(kept)} of its own, then {_shown(rest)} of broker {leader}"
    # DeleteRecords moves the table's start at once, the checkpointed log start later: after a kill -9 the log begins below its table
    covered = min((start for _epoch, start in checkpointed_epochs(directories[0])), default=begin)
    start, end = max(log_start_offset(directories[1]), min(covered, begin)), became[-1].last + 1 if became else 0
    table, by_batches = (clipped(entries, start, end) for entries in (checkpointed_epochs(directories[1]), epoch_runs(became)))
    if table != by_batches:
        yield f"its checkpoint has {table}, its batches {by_batches}"


def by_the_count(verdict: Row, directory: Path, point: Row, *, is_compacted: bool = False) -> Iterator[str]:
    """Where the offsets, records and bytes that are removed by a row of a follower differ from those in its directory, before that.

    Of a compacted topic the cleaner may have taken whole batches above the cut: the offsets that go are counted from the cut all the same.
    """
    if point["restart_offset"] is not None:
        return
    # what lies below the log start was deleted before
    start, cut = log_start_offset(directory), point["truncation_offset"]
    gone = [batch for batch in batches(directory) if cut is not None and batch.last >= max(cut, start)]
    first = min([batch.base for batch in gone[:1]] + ([cut] if is_compacted and cut is not None else []), default=0)
    counted = {
        "removed_offsets": gone[-1].last + 1 - first if gone else 0,
        "removed_records": sum(batch.records for batch in gone),
        "removed_bytes": sum(len(batch.content) for batch in gone),
    }
    for name, number in counted.items():
        if verdict[name] != number:
            yield f"{name} is {verdict[name]}, by the files {number}"


def _shown(found: list[FileBatch]) -> str:
    return ", ".join(f"{batch.base}..{batch.last}e{batch.epoch}" for batch in found) or "nothing"
