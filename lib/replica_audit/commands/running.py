"""How a command is run: its parser, and the one place that turns errors into messages and exit codes."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from replica_audit.commands import spark_process
from replica_audit.commands.command import Command, Option, name_run, tell
from replica_audit.errors import AuditError, UsageError
from replica_audit.extras import missing
from replica_audit.interruption import SIGNALS, Interruption, exit_code_of, ignore, listen, received
from replica_audit.own_folder import open_to_write
from replica_audit.program import command_line, shown_name

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


INTERRUPTED = tuple(map(exit_code_of, SIGNALS))
DEFECT = 70  # EX_SOFTWARE; 1 would say that there are findings


class Ending(NamedTuple):
    """How a command ends that does not come to its end: its exit code, and why, in a sentence."""

    exit_code: int
    words: str


def ending_of(command: str, error: BaseException) -> Ending:
    """What an exception makes of a command."""
    interruption = error if isinstance(error, KeyboardInterrupt) else received()
    if interruption is not None:  # whatever failed after a signal failed because of it
        return Ending(_code_of(interruption), "interrupted")
    if isinstance(error, AuditError):
        return Ending(error.exit_code, str(error))
    fate = spark_process.fate(error)
    if isinstance(fate, Interruption):
        return Ending(fate.exit_code, "interrupted")
    if fate is not None:
        return Ending(fate.exit_code, str(fate))
    absent = missing(shown_name(command), error.name) if isinstance(error, ModuleNotFoundError) else None
    if absent is not None:
        return Ending(absent.exit_code, str(absent))
    return Ending(DEFECT, "this is a bug in the program, not in the input")


def _code_of(interruption: KeyboardInterrupt) -> int:
    return interruption.exit_code if isinstance(interruption, Interruption) else exit_code_of(signal.SIGINT)


def parser(command: Command) -> argparse.ArgumentParser:
    """The command's parser. Options that override a setting appear in the result only when given."""
    made = argparse.ArgumentParser(
        prog=command_line(command.name).removeprefix("./"),
        description=command.description,
        epilog=command.closing,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for option in command.options:
        arguments = dict(option.arguments)
        if option.setting:
            arguments |= {"dest": option.setting, "default": argparse.SUPPRESS}
        made.add_argument(option.flag, help=option.help, **arguments)
    return made


def run_command(command: Command, arguments: Sequence[str], prepare: Callable[[Command], None] | None = None) -> int:
    """Run a command with its options; returns the exit code. Nothing that a user can cause ends in a traceback.

    `prepare` makes Spark ready for a command that runs on it; None where the caller has done that.
    """
    given = parser(command).parse_args(list(arguments))
    try:
        listen()
        begin(given)
        if prepare and command.check and command.needs_spark(given):
            command.check(given)
            prepare(command)
        return command.run(given)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, the exit code must not say that there are findings
        return ended(command, given, error)
    finally:
        name_run(None)


def ended(command: Command, given: argparse.Namespace, error: BaseException) -> int:
    """Print why a command does not come to its end, and write it where it is to be; returns the exit code."""
    code, words = ending_of(command.name, error)
    ignore()
    if code in INTERRUPTED:
        spark_process.end(silently=True)  # what it has written by then counts, or does not
        words = command.interrupted if isinstance(command.interrupted, str) else command.interrupted(given)
        tell(words)
    elif code == DEFECT:
        tell(*traceback.format_exc().rstrip().split("\n"), f"error: {words}; please report it with the lines above")
        words = f"{words}: {type(error).__name__}: {error}"
    else:
        first, *more = error.args if isinstance(error, AuditError) else (words,)
        tell(f"error: {first}", *more)
    write_ending(given, command.name, code, words)
    return code


class _NoPandas(MetaPathFinder):
    """pyarrow imports pandas before its first array, to ask it what a list is. That takes a fifth of a second, and no command needs it."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("not for a command", name=fullname)


def without_pandas() -> None:
    """Keep pandas from being imported in this process."""
    sys.meta_path.insert(0, _NoPandas())


def leave(code: int) -> NoReturn:
    """End this process.

    Threads of Arrow's readers may still be at work then, and abort a process whose interpreter is being taken down. To take it down is also
    a seventh of all that `collect` of three GiB takes.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # a terminal that was closed
            stream.flush()
    os._exit(code)
