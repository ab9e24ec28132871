"""The commands: one table of them, and how the jobs start one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from replica_audit.commands import audit, collect, describe_cluster, explain, maintain, plan, report, salvage, triage
from replica_audit.commands.command import Command
from replica_audit.commands.running import DEFECT, INTERRUPTED, ended, leave, parser, run_command, without_pandas
from replica_audit.errors import AuditError

__all__ = ["COMMANDS", "DEFECT", "INTERRUPTED", "check", "main", "parser", "run"]

COMMANDS: tuple[Command, ...] = (
    *(audit.COMMAND, collect.COMMAND, describe_cluster.COMMAND, explain.COMMAND),
    *(maintain.COMMAND, plan.COMMAND, report.COMMAND, salvage.COMMAND, triage.COMMAND),
)


def main(arguments: Sequence[str], prepare: Callable[[Command], None] | None = None) -> int:
    """Run `arguments[0]` with the rest; returns the exit code. `prepare` as of `run_command`."""
    command = next((command for command in COMMANDS if command.name == arguments[0]), None)
    if command is None:
        raise AssertionError(f"no command {arguments[0]}")
    _take_own_stderr()
    return run_command(command, arguments[1:], prepare)


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
    except (AuditError, KeyboardInterrupt) as error:
        return ended(command, given, error)
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


def run(arguments: Sequence[str]) -> NoReturn:
    """`main`, and the end of a process that is no Spark driver."""
    without_pandas()
    leave(main(arguments))


def run_on_spark(arguments: Sequence[str]) -> NoReturn:
    """`main`, and the end of a Spark driver. Threads that read a store abort an interpreter that is taken down; its exit code is lost."""
    code = main(arguments)
    if any("://" in argument for argument in arguments):
        leave(code)
    sys.exit(code)
