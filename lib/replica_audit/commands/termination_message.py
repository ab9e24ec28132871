"""`--termination-message`: how a command ended, as one line in a file, for a cluster manager that loses its exit code or its output."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replica_audit.commands.command import Option, tell
from replica_audit.errors import UsageError
from replica_audit.own_folder import open_to_write

if TYPE_CHECKING:
    from replica_audit.report.facts.run_report import Report

MOST_BYTES = 4096  # what Kubernetes keeps of a container's message
_FLAG = "--termination-message"
_CUT = " ..."

TERMINATION_MESSAGE = Option(
    flag=_FLAG,
    help="write how the command ended to this file, as one line of JSON of at most 4096 bytes, on errors, too; the file is written in "
    "place, such as a container's /dev/termination-log",
    arguments={"type": Path, "metavar": "FILE"},
)


def begin(given: argparse.Namespace) -> None:
    """Empty the file, so that the message of an earlier run does not pass for this one's.

    Raises:
        UsageError: it cannot be written.
    """
    path = _path(given)
    if path is None:
        return
    try:
        if path.is_fifo():
            raise UsageError(f"{_FLAG} {path}: a pipe, and no file; give a file that can be written")
        os.close(open_to_write(_FLAG, path, os.O_TRUNC))
    except OSError as error:
        raise UsageError(f"{_FLAG} {path}: {error.strerror}; give a file that can be written") from None


def write_ending(given: argparse.Namespace, command: str, exit_code: int, message: str, **facts: Any) -> None:
    """Write the line, if the options ask for it. What keeps it from being written is printed, and does not change the exit code."""
    path = _path(given)
    if path is None or path.is_fifo():  # which `begin` has refused
        return
    try:
        # not by a rename: a container's file is a mount of its own, in a directory that is often read-only
        with os.fdopen(open_to_write(_FLAG, path, os.O_TRUNC), "wb") as stream:
            stream.write(_line({"command": command, "exit_code": exit_code, "message": message, **facts}))
    except (OSError, UsageError) as error:
        tell(f"{_FLAG} {path}: {getattr(error, 'strerror', error)}; the exit code is {exit_code}")


def write_run(given: argparse.Namespace, command: str, exit_code: int, report: Report) -> None:
    """Write how a run ended, with its counts. The exit code is the run's, or else that of saving its records."""
    if _path(given) is None:
        return
    from replica_audit.report.facts.run_report import counts_of
    from replica_audit.report.text.blocks import meaning

    message = meaning(report) if exit_code == report.exit_code else f"{meaning(report)}; --salvage could not save every record"
    write_ending(given, command, exit_code, message, **counts_of(report))


def _path(given: argparse.Namespace) -> Path | None:
    return getattr(given, "termination_message", None)


def _line(document: dict[str, Any]) -> bytes:
    """One line, whose message is shortened where the whole would be too long."""
    line = _encoded(document)
    message = document["message"]
    while len(line) > MOST_BYTES and message:
        message = message[: -(len(line) - MOST_BYTES) // 12 - 1]  # a character is at most twelve bytes, as two escapes
        line = _encoded(document | {"message": message + _CUT})
    return line


def _encoded(document: dict[str, Any]) -> bytes:
    return f"{json.dumps(document)}\n".encode()
