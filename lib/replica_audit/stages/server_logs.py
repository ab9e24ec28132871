"""Brokers' own logs: the lines about replicas as events, the versions in them, and what of them cannot be used."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from replica_audit.files.packed_text import open_text, why_cut
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.server_log.events import events
from replica_audit.formats.server_log.log_owner import owner
from replica_audit.formats.server_log.logged_versions import logged_versions
from replica_audit.model import LoggedVersions, Problem
from replica_audit.protocol.cluster.log_events import LogEvent

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
    return _left_out(path, f"leader epoch {epochs[0]} is not valid: the line is left out", event.line, event.byte_offset)


def _left_out(path: Path, detail: str, line: int | None, byte_offset: int | None) -> Problem:
    remedy = "look at the line: somebody changed the file after the broker wrote it, or it is not its log"
    return Problem(path=str(path), kind=_KIND, code="impossible-epoch", detail=detail, remedy=remedy, line=line, byte_offset=byte_offset)


def read_versions(path: Path) -> LoggedVersions:
    """The versions that one log tells; none where it cannot be read, which `read_events` tells."""
    try:
        with open_text(path) as stream:
            return logged_versions(stream)
    except OSError:
        return LoggedVersions()
