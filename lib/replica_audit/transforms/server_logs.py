"""Brokers' own logs: the lines that tell of replicas as rows, and what they say a follower did."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from replica_audit.formats.log_owner import owner
from replica_audit.formats.logged_versions import LoggedVersions, logged_versions
from replica_audit.formats.packed_text import open_text, why_cut
from replica_audit.formats.server_log import events
from replica_audit.formats.tree_walk import cannot_read
from replica_audit.model import Problem
from replica_audit.protocol.comparison import Comparison
from replica_audit.protocol.log_events import EventKind, LogEvent
from replica_audit.protocol.observed import Contradiction, ObservedTruncation, agrees, observe
from replica_audit.transforms.rows import Row

_KIND = "server.log"
_MAX_PROBLEMS = 20  # of one file; one more says how many there are beyond
_EPOCHS = range(-1, 1 << 31)


def read_events(path: Path, broker_id: int) -> Iterator[LogEvent | Problem]:
    """The events of one log, and what of it cannot be used.

    Lines that another broker wrote end the reading: the log is not this broker's. A line with an epoch that none can be is left out.
    """
    impossible = 0
    try:
        with open_text(path) as stream:
            wrote = owner(stream)
            if wrote is not None and wrote.broker_id != broker_id:
                yield _of_another(path, broker_id, *wrote)
                return
            stream.seek(0)
            for event in events(stream, str(path)):
                if not _is_possible(event):
                    impossible += 1
                    if impossible <= _MAX_PROBLEMS:
                        yield _impossible(path, event)
                    continue
                if event.broker_id not in (None, broker_id):
                    yield _of_another(path, broker_id, event.broker_id, event.line)
                    return
                yield event
            if impossible > _MAX_PROBLEMS:
                yield _left_out(path, f"{impossible - _MAX_PROBLEMS} more lines have impossible epochs", None, None)
            if reason := why_cut(stream):
                yield cannot_read(path, _KIND, OSError(0, reason))
    except (OSError, EOFError, zlib.error) as error:
        yield cannot_read(path, _KIND, error if isinstance(error, OSError) else OSError(0, f"cannot be unpacked: {error}"))


def _of_another(path: Path, broker_id: int, wrote: int, line: int) -> Problem:
    return Problem(
        path=str(path),
        kind=_KIND,
        code="server-log-of-another-broker",
        detail=f"it lies in the folder of broker {broker_id}, and this line was written by broker {wrote}",
        remedy="put it into the folder of the broker that wrote it; split a file with the lines of several brokers",
        line=line,
    )


def _is_possible(event: LogEvent) -> bool:
    return all(epoch is None or epoch in _EPOCHS for epoch in (event.leader_epoch, event.answered_epoch))


def _impossible(path: Path, event: LogEvent) -> Problem:
    epochs = [epoch for epoch in (event.leader_epoch, event.answered_epoch) if epoch is not None and epoch not in _EPOCHS]
    return _left_out(path, f"leader epoch {epochs[0]} is not one: the line is left out", event.line, event.byte_offset)


def _left_out(path: Path, detail: str, line: int | None, byte_offset: int | None) -> Problem:
    remedy = "look at the line: the file was changed after the broker wrote it, or is not its log"
    return Problem(path=str(path), kind=_KIND, code="impossible-epoch", detail=detail, remedy=remedy, line=line, byte_offset=byte_offset)


def read_versions(path: Path) -> LoggedVersions:
    """The versions that one log tells; none where it cannot be read, which `read_events` tells."""
    try:
        with open_text(path) as stream:
            return logged_versions(stream)
    except OSError:
        return LoggedVersions()


def event_row(event: LogEvent) -> Row:
    """An event as a row of the shape LOG_EVENT."""
    row = event._asdict()
    return {name: str(row[name]) if name == "kind" else row[name] for name in row if name not in ("topic", "partition", "broker_id")}


def observed(rows: Iterable[Row], broker_id: int, topic: str, partition: int) -> ObservedTruncation:
    """What one broker did with its replica of a partition, by rows of the shape LOG_EVENT in any order."""
    return observe(log_events(({"broker_id": broker_id, "event": row} for row in rows), topic, partition))


def log_events(entries: Iterable[Row], topic: str, partition: int) -> list[LogEvent]:
    """The events of a partition by log, each in the order of its lines.

    Args:
        entries: broker_id and event (the shape LOG_EVENT) of each line, any order.
        topic: of the partition.
        partition: its number.
    """
    found = [
        LogEvent(
            broker_id=entry["broker_id"], topic=topic, partition=partition, **{**entry["event"], "kind": EventKind(entry["event"]["kind"])}
        )
        for entry in entries
    ]
    began: dict[str, str] = {}
    for event in sorted(found, key=lambda event: event.line):
        began.setdefault(event.path, event.time)
    # a log is rolled: files in the order of their first lines
    return sorted(found, key=lambda event: (began[event.path], event.path, event.line))


def did_otherwise(seen: ObservedTruncation, comparison: Comparison, *, leader_epoch: int, after_copy: bool) -> Contradiction | None:
    """What the broker did that the rule does not say, with file and line; None if nothing contradicts the rule."""
    return agrees(
        seen,
        comparison.effect.truncation,
        comparison.follower.log.log_end_offset,
        leader_id=comparison.leader.broker_id,
        leader_epoch=leader_epoch if leader_epoch >= 0 else None,
        after_copy=after_copy,
    )
