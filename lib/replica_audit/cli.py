"""The commands: one table of them, their parsers, and the one place that turns errors into messages."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from typing import NoReturn

from replica_audit.commands import audit, collect, describe_cluster, explain, plan, report, salvage, triage
from replica_audit.commands.command import Command, tell
from replica_audit.errors import AuditError

INTERRUPTED, DEFECT = 130, 70  # 70: EX_SOFTWARE; 1 would say that there are findings
COMMANDS: tuple[Command, ...] = (
    *(audit.COMMAND, collect.COMMAND, describe_cluster.COMMAND, explain.COMMAND),
    *(plan.COMMAND, report.COMMAND, salvage.COMMAND, triage.COMMAND),
)


def parser(command: Command) -> argparse.ArgumentParser:
    """The command's parser. Options that override a setting appear in the result only when given."""
    made = argparse.ArgumentParser(
        prog=f"spark-submit.sh {command.name}",
        description=command.description,
        epilog=command.epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for option in command.options:
        arguments = dict(option.arguments)
        if option.setting:
            arguments |= {"dest": option.setting, "default": argparse.SUPPRESS}
        made.add_argument(option.flag, help=option.help, **arguments)
    return made


def main(arguments: Sequence[str]) -> int:
    """Run `arguments[0]` with the rest; returns the exit code. Nothing that a user can cause ends in a traceback."""
    command = next((command for command in COMMANDS if command.name == arguments[0]), None)
    if command is None:
        raise AssertionError(f"no command {arguments[0]}")
    _take_own_stderr()
    given = parser(command).parse_args(list(arguments[1:]))
    try:
        return command.run(given)
    except AuditError as error:
        tell(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        tell(command.interrupted)
        return INTERRUPTED
    except Exception:  # noqa: BLE001 - whatever it is, the exit code must not say that there are findings
        tell(traceback.format_exc().rstrip())
        tell("error: this is a defect of the program, not of the input; please report it with the lines above")
        return DEFECT


def check(arguments: Sequence[str]) -> int:
    """What the launcher asks before it starts a JVM: 2, and why, if the command line or its inputs are of no use; else 0.

    Whatever else goes wrong here is left to the command itself.
    """
    command = next((command for command in COMMANDS if command.name == arguments[0]), None)
    if command is None or command.check is None:
        return 0
    given = parser(command).parse_args(list(arguments[1:]))
    try:
        command.check(given)
    except AuditError as error:
        tell(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        tell(command.interrupted)
        return INTERRUPTED
    except Exception:  # noqa: BLE001 - the command will meet it, too, and tell it
        return 0
    return 0


def _take_own_stderr() -> None:
    """A driver in Python gets both streams as one from Spark; the launcher tells where its own second one is."""
    place = os.environ.get("REPLICA_AUDIT_STDERR")
    if place:
        with suppress(OSError):
            fd = os.open(place, os.O_WRONLY | os.O_APPEND)
            os.dup2(fd, sys.stderr.fileno())
            os.close(fd)


class _NoPandas(MetaPathFinder):
    """pyarrow imports pandas before its first array, to ask it what a list is. That takes a fifth of a second, and no command needs it."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("not for a command", name=fullname)


def run(arguments: Sequence[str]) -> NoReturn:
    """`main`, and the end of a process that is no Spark driver.

    Threads of Arrow's readers may still be at work then, and abort a process whose interpreter is being taken down. To take it down is also
    a seventh of all that `collect` of three GiB takes.
    """
    sys.meta_path.insert(0, _NoPandas())
    code = main(arguments)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
