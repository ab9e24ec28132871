"""What a command is made of: its options, its help, and the function that runs it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from replica_audit.errors import visible
from replica_audit.program import command_line, program


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a command. `setting` names the key of the configuration that it overrides, if any."""

    flag: str
    help: str
    setting: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command: its options and what runs it. `run` returns the exit code; `interrupted` is told when a signal ends it.

    `summary` is one sentence. In `epilog`, {command} is what a user types to start this command, {program} what comes before any command's
    name. `check`, of one that runs on Spark, refuses in well below a second what could only fail: it raises an `AuditError`.
    """

    name: str
    summary: str
    description: str
    epilog: str
    options: tuple[Option, ...]
    run: Callable[[argparse.Namespace], int]
    interrupted: str | Callable[[argparse.Namespace], str] = "interrupted"
    check: Callable[[argparse.Namespace], None] | None = None

    @property
    def closing(self) -> str:
        """The end of its help: exit codes and examples, as they are typed where this process was started."""
        return self.epilog.replace("{command}", command_line(self.name)).replace("{program}", program())

    def needs_spark(self, given: argparse.Namespace) -> bool:
        """Whether so many options make it run on Spark; spark-submit.sh knows the same of jobs."""
        if self.check is None or getattr(given, "cost", False) or getattr(given, "local", False):
            return False
        return bool(getattr(given, "spark", True))

    def may_need_spark(self, words: Sequence[str]) -> bool:
        """Whether options that are not parsed yet may make it run on Spark."""
        if self.check is None or "--cost" in words or "--local" in words:
            return False
        return "--spark" in words or all(option.flag != "--spark" for option in self.options)


def show(text: str) -> None:
    """Print a command's output; a reader that has seen enough, such as head, is not an error."""
    try:
        print(text, end="", flush=True)  # noqa: T201
    except BrokenPipeError:
        # else the interpreter flushes once more when it ends, and complains
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_named: list[str] = []  # the run whose lines are told, if any


def name_run(run_id: str | None) -> None:
    """Begin each line of `tell` with the id of a run, unless a person sees them come; None: no longer.

    Where lines are kept, those of several runs may be in one file.
    """
    _named[:] = [] if run_id is None or sys.stderr.isatty() else [f"[{run_id}] "]


def tell(*lines: str) -> None:
    """Print lines of progress, or what went wrong. A newline in one is part of a name, and escaped: it would make a line of its own."""
    with suppress(OSError):  # nobody reads it: a pipe or a terminal that was closed
        print("\n".join("".join((*_named, visible(line))) for line in lines), file=sys.stderr, flush=True)  # noqa: T201
