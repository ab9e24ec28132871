"""Brokers' own logs: the lines about replicas as events, the versions in them, and what of them cannot be used."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from replica_audit.files.text_files import open_text, why_cut
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.log_dir.names import SERVER_LOG
from replica_audit.formats.server_log.events import events, logged_versions
from replica_audit.formats.server_log.log_writers import LogSurvey, Writers, survey
from replica_audit.model import LoggedVersions, Problem
from replica_audit.protocol.comparison.observed import EventKind, LogEvent
from replica_audit.words import count

_MAX_PROBLEMS = 20  # of one file; one more says how many there are beyond
_PACKED = (b"\xfd7zXZ\0", b"BZh", b"\x28\xb5\x2f\xfd", b"PK\3\4", b"7z\xbc\xaf", b"\x04\x22\x4d\x18")  # xz, bzip2, zstd, zip, 7z, lz4
_LONGEST_MARK = 8
_EPOCHS = range(-1, 1 << 31)


def read_log(path: Path, broker_id: int, *, is_told: bool = True) -> Iterator[LogEvent | LoggedVersions | Problem]:
    """What one log tells, each event with its broker, and what of it cannot be used.

    A log whose lines all name one other broker is not this broker's, and not read. A line that names no broker is left out where several
    wrote the log and nothing else tells which; so is one with an epoch that none can be.

    Args:
        path: of the log.
        broker_id: the broker in whose folder it lies, or that it is named for; else the one that a line names first.
        is_told: whether its folder or its name tells the broker.
    """
    try:
        with open_text(path) as stream:
            if stream.read(_LONGEST_MARK).startswith(_PACKED):
                yield _packed(path)
                return
            stream.seek(0)
            found = survey(stream)
            stream.seek(0)
            if found.first is not None and len(found.brokers) == 1 and broker_id not in found.brokers:
                yield _of_another(path, broker_id, *found.first)
            else:
                yield from _events(path, stream, found, Writers(found, broker_id, is_told=is_told))
                yield from _cut_lines(path, found)
                if reason := why_cut(stream):
                    yield cannot_read(path, SERVER_LOG, OSError(0, reason))
                stream.seek(0)
            versions = logged_versions(stream, newest_first=found.newest_first)
            if any(versions):
                yield versions
    except (OSError, EOFError, zlib.error) as error:
        yield cannot_read(path, SERVER_LOG, error if isinstance(error, OSError) else OSError(0, f"cannot be unpacked: {error}"))


def _events(path: Path, stream: BinaryIO, found: LogSurvey, writers: Writers) -> Iterator[LogEvent | Problem]:
    impossible, unknown, first = 0, 0, 0
    for event in events(stream, str(path), writer_of=writers.of, newest_first=found.newest_first, zone_minutes=found.zone_minutes):
        if not _is_possible(event):
            impossible += 1
            if impossible <= _MAX_PROBLEMS:
                yield _impossible(path, event)
        elif event.broker_id is None and event.kind is not EventKind.UNCLEAN_ELECTION:  # which names the leader, whoever tells it
            unknown, first = unknown + 1, first or event.line
        else:
            yield event
    if impossible > _MAX_PROBLEMS:
        yield _left_out(path, f"{impossible - _MAX_PROBLEMS} more lines have impossible epochs", None, None)
    if unknown:
        yield _of_nobody(path, unknown, first)


def _of_nobody(path: Path, lines: int, first: int) -> Problem:
    return Problem(
        path=str(path),
        kind=SERVER_LOG,
        code="unknown-broker",
        detail=f"nothing tells which broker wrote {count(lines, 'line', 'lines')} about replicas, of which this is the first: left out",
        remedy="split the log by broker, and put each part into its broker's folder, or call it broker-ID.server.log",
        line=first,
    )


def _cut_lines(path: Path, found: LogSurvey) -> Iterator[Problem]:
    if found.cut_lines:
        yield Problem(
            path=str(path),
            kind=SERVER_LOG,
            code="line-cut",
            detail=f"{count(len(found.cut_lines), 'line is', 'lines are')} read in part, of which this is the first: longer than 1 MiB, or "
            "the file ends inside it",
            remedy="export the log again, as text with one line for each message",
            line=found.cut_lines[0],
        )


def _packed(path: Path) -> Problem:
    return Problem(
        path=str(path),
        kind=SERVER_LOG,
        code="unusable-log",
        detail="packed in a way that is not read: nothing of it was",
        remedy="unpack it, or pack it with gzip",
    )


def _of_another(path: Path, broker_id: int, wrote: int, line: int) -> Problem:
    return Problem(
        path=str(path),
        kind=SERVER_LOG,
        code="server-log-of-another-broker",
        detail=f"it lies in the folder of broker {broker_id}, and this line was written by broker {wrote}",
        remedy="put it into the folder of the broker that wrote it; split a file with the lines of several brokers",
        line=line,
    )


def _is_possible(event: LogEvent) -> bool:
    return all(epoch is None or epoch in _EPOCHS for epoch in (event.leader_epoch, event.answered_epoch))


def _impossible(path: Path, event: LogEvent) -> Problem:
    epochs = [epoch for epoch in (event.leader_epoch, event.answered_epoch) if epoch is not None and epoch not in _EPOCHS]
    return _left_out(path, f"leader epoch {epochs[0]} is not valid: the line is left out", event.line, event.byte_offset)


def _left_out(path: Path, detail: str, line: int | None, byte_offset: int | None) -> Problem:
    remedy = "look at the line: somebody changed the file after the broker wrote it, or it is not its log"
    return Problem(
        path=str(path), kind=SERVER_LOG, code="impossible-epoch", detail=detail, remedy=remedy, line=line, byte_offset=byte_offset
    )
