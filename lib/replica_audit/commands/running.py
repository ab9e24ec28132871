"""How a command is run: its parser, and the one place that turns errors into messages and exit codes."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from typing import NamedTuple, NoReturn

from replica_audit.commands.command import Command, name_run, tell
from replica_audit.commands.termination_message import begin, write_ending
from replica_audit.errors import AuditError
from replica_audit.extras import missing
from replica_audit.program import command_line, shown_name

INTERRUPTED, DEFECT = 130, 70  # 70: EX_SOFTWARE; 1 would say that there are findings


class Ending(NamedTuple):
    """How a command ends that does not come to its end: its exit code, and why, in a sentence."""

    exit_code: int
    words: str


def ending_of(command: str, error: BaseException) -> Ending:
    """What an exception makes of a command."""
    if isinstance(error, AuditError):
        return Ending(error.exit_code, str(error))
    if isinstance(error, KeyboardInterrupt):
        return Ending(INTERRUPTED, "interrupted")
    absent = missing(shown_name(command), error.name) if isinstance(error, ModuleNotFoundError) else None
    if absent is not None:
        return Ending(absent.exit_code, str(absent))
    return Ending(DEFECT, "this is a bug in the program, not in the input")


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

    `prepare` makes Spark ready for a command that runs on it; None where the launcher has done that.
    """
    given = parser(command).parse_args(list(arguments))
    try:
        _end_like_interrupted()
        begin(given)
        if prepare and command.check and command.needs_spark(given):
            command.check(given)
            prepare(command)
        return command.run(given)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, the exit code must not say that there are findings
        return ended(command, given, error)
    finally:
        name_run(None)


def _end_like_interrupted() -> None:
    """Let SIGTERM, of a service manager or a scheduler, end a command as Ctrl-C does: cleaned up, told and written down."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def ended(command: Command, given: argparse.Namespace, error: BaseException) -> int:
    """Print why a command does not come to its end, and write it where it is to be; returns the exit code."""
    code, words = ending_of(command.name, error)
    if code == INTERRUPTED:
        words = command.interrupted
        tell(words)
    elif code == DEFECT:
        tell(f"{traceback.format_exc().rstrip()}\nerror: {words}; please report it with the lines above")
        words = f"{words}: {type(error).__name__}: {error}"
    else:
        tell(f"error: {words}")
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
    """End a process that is no Spark driver.

    Threads of Arrow's readers may still be at work then, and abort a process whose interpreter is being taken down. To take it down is also
    a seventh of all that `collect` of three GiB takes.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
