"""How a command is run: its parser, and the one place that turns errors into messages and exit codes."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from typing import NamedTuple, NoReturn

from replica_audit.commands import spark_process
from replica_audit.commands.command import Command, name_run, tell
from replica_audit.commands.termination_message import begin, write_ending
from replica_audit.errors import AuditError
from replica_audit.extras import missing
from replica_audit.interruption import SIGNALS, Interruption, exit_code_of, ignore, listen, received
from replica_audit.program import command_line, shown_name

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
