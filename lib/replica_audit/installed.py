"""The command `replica-audit` of an installed package: every command of `cli.COMMANDS`, with Spark in this process where one needs it."""

from __future__ import annotations

import difflib
import sys
from typing import NoReturn

from replica_audit import cli
from replica_audit.commands import shell_files
from replica_audit.commands.command import show, tell
from replica_audit.program import COMMAND, VERSION, shown_name

_USAGE = 2
_HELP = """\
usage: {program} COMMAND [options]
       {program} COMMAND --help      what a command does and its options

{commands}

  {program} --version
  {program} completion bash|zsh|fish      completion for a shell: eval "$({program} completion bash)"
  {program} man                           the manual page: {program} man | man -l -

`audit`, `salvage` without --local, and `maintain --spark` run on Spark: they need the extra [spark] and a Java 17+ runtime.
Without an input, audit and triage read the sample: start with  {program} triage
"""


def main() -> NoReturn:
    """Run what the command line asks for; the process ends with its exit code."""
    given = sys.argv[1:]
    if not given or given[0] in ("-h", "--help", "help"):
        show(_help())
        sys.exit(0)
    if given[0] == "--version":
        show(f"{COMMAND} {VERSION}\n")
        sys.exit(0)
    if given[0] in shell_files.WRITERS:
        sys.exit(_shell_file(given))
    name = given[0].replace("-", "_")
    command = next((command for command in cli.COMMANDS if command.name == name), None)
    if command is None:
        _no_such(given[0])
    if not command.may_need_spark(given[1:]):
        cli.run([name, *given[1:]])
    from replica_audit.commands import spark_here

    cli.run_on_spark([name, *given[1:]], spark_here.prepare)


def _help() -> str:
    width = max(len(command.name) for command in cli.COMMANDS) + 2
    lines = (f"  {shown_name(command.name):{width}}{command.summary}" for command in cli.COMMANDS)
    return _HELP.replace("{program}", COMMAND).replace("{commands}", "\n".join(lines))


def _shell_file(given: list[str]) -> int:
    write, choices = shell_files.WRITERS[given[0]]
    if given[1:] in ([choice] for choice in choices) or (not choices and len(given) == 1):
        show(write(cli.COMMANDS, *given[1:]))
        return 0
    tell(f"error: {COMMAND} {given[0]}: give {'one of ' + ', '.join(choices) if choices else 'no more'}")
    return _USAGE


def _no_such(name: str) -> NoReturn:
    known = [shown_name(command.name) for command in cli.COMMANDS]
    close = difflib.get_close_matches(name, known, n=1)
    what = f"unknown option {name}; a command's options come after its name" if name.startswith("-") else f"no command {name}"
    tell(f"error: {what}{f'; did you mean {close[0]}?' if close else ''}")
    tell(f"see {COMMAND} --help; the commands are {', '.join(known)}")
    sys.exit(_USAGE)
