"""The collector of one file, for brokers: `collect` alone (tools/collector.py builds it)."""

from __future__ import annotations

import sys

from replica_audit.commands import collect
from replica_audit.commands.command import show
from replica_audit.commands.running import run_command
from replica_audit.program import COLLECTOR, VERSION


def main() -> int:
    """Run `collect` with the options of the command line; returns the exit code."""
    given = sys.argv[1:]
    if given == ["--version"]:
        show(f"{COLLECTOR} {VERSION}\n")
        return 0
    return run_command(collect.COMMAND, given[1:] if given[:1] == ["collect"] else given)
