"""The commands: one table of them, and how the jobs start one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from replica_audit.commands import audit, collect, describe_cluster, explain, maintain, plan, report, salvage, spark_process, triage
from replica_audit.commands.command import Command
from replica_audit.commands.running import DEFECT, INTERRUPTED, leave, parser, run_command, without_pandas

__all__ = ["COMMANDS", "DEFECT", "INTERRUPTED", "main", "parser", "run"]

COMMANDS: tuple[Command, ...] = (
    *(audit.COMMAND, collect.COMMAND, describe_cluster.COMMAND, explain.COMMAND),
    *(maintain.COMMAND, plan.COMMAND, report.COMMAND, salvage.COMMAND, triage.COMMAND),
)


def main(arguments: Sequence[str], prepare: Callable[[Command], None] | None = None) -> int:
    """Run `arguments[0]` with the rest; returns the exit code. `prepare` as of `run_command`."""
    command = next((command for command in COMMANDS if command.name == arguments[0]), None)
    if command is None:
        raise AssertionError(f"no command {arguments[0]}")
    return run_command(command, arguments[1:], prepare)


def run(arguments: Sequence[str]) -> NoReturn:
    """`main`, and the end of a process that is no Spark driver."""
    without_pandas()
    leave(main(arguments))


def run_on_spark(arguments: Sequence[str], prepare: Callable[[Command], None] | None = None) -> NoReturn:
    """`main`, and the end of a process that may run Spark; `prepare` makes its JVM, else spark-submit.sh has told how to start it."""
    if not any(command.name == arguments[0] and command.may_need_spark(arguments[1:]) for command in COMMANDS):
        run(arguments)
    code = main(arguments, prepare or (lambda _command: spark_process.start()))
    spark_process.end()
    leave(code)
