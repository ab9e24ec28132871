"""A command as the launcher and the installed program start it, up to where it would start a JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from replica_audit import cli
from replica_audit.commands.command import Command
from replica_audit.errors import AuditError

STARTED = 99


class _Started(AuditError):
    exit_code = STARTED


def _jvm(_command: Command) -> NoReturn:
    raise _Started("a JVM would be started")


def before_spark(arguments: Sequence[str]) -> int:
    """The exit code of a command that is refused; STARTED of one that is not."""
    return cli.main(arguments, _jvm)
