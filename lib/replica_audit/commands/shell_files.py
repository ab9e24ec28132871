"""What a shell and `man` know of the commands: files that are made of the table of commands, so that they cannot be wrong."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence

from replica_audit.commands.command import Command, Option
from replica_audit.program import COMMAND, VERSION, shown_name

Commands = Sequence[Command]
_OWN = ("--help", "--version", "completion", "man")
# of files and folders the shell knows the names
_PLACES = {"FILE": "file", "DIR": "directory"}
_BASH = """\
# completion of {program} for bash: eval "$({program} completion bash)"
_replica_audit() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD - 1]}"
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
        return
    fi
    case "${COMP_WORDS[1]} $before" in
{values}
    esac
    case "${COMP_WORDS[1]}" in
{options}
    esac
}
complete -F _replica_audit {program}
"""
_ZSH = """\
# completion of {program} for zsh: eval "$({program} completion zsh)"
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
"""


def completion(commands: Commands, shell: str) -> str:
    """A script that a shell evaluates: of `bash`, `zsh` or `fish`."""
    if shell == "fish":
        return "".join(_fish(commands))
    return ("" if shell == "bash" else _ZSH) + _bash(commands)


def manual(commands: Commands) -> str:
    """The manual page, section 1."""
    lines = [f'.TH {COMMAND.upper()} 1 "" "{COMMAND} {VERSION}"', ".SH NAME", f"{COMMAND} \\- offline auditor of Kafka replica logs"]
    lines += [".SH SYNOPSIS", f"\\fB{COMMAND}\\fR \\fICOMMAND\\fR [\\fIoptions\\fR]", ".SH COMMANDS"]
    for command in commands:
        lines += [".TP", f"\\fB{_roff(shown_name(command.name))}\\fR", _roff(command.summary)]
    for command in commands:
        lines += [f".SH {shown_name(command.name).upper()}", ".nf", *map(_roff, command.description.strip().splitlines()), ".fi"]
        for option in command.options:
            value = _value(option)
            shown = f"\\fB{_roff(option.flag)}\\fR" + (f" \\fI{_roff(value)}\\fR" if value else "")
            lines += [".TP", shown, _roff(option.help % {"default": ""} if "%(" in option.help else option.help.replace("%%", "%"))]
        lines += [".PP", ".nf", *map(_roff, command.closing.strip().splitlines()), ".fi"]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def _value(option: Option) -> str:
    """What stands for an option's value: FILE, DIR, a list of choices; empty if it takes none."""
    if option.arguments.get("action") in ("store_true", argparse.BooleanOptionalAction):
        return ""
    choices = option.arguments.get("choices")
    return "|".join(choices) if choices else str(option.arguments.get("metavar", "VALUE"))


def _flags(command: Command) -> list[str]:
    found = []
    for option in command.options:
        found.append(option.flag)
        if option.arguments.get("action") is argparse.BooleanOptionalAction:
            found.append(option.flag.replace("--", "--no-", 1))
    return [*found, "--help"]


def _bash(commands: Commands) -> str:
    values, options = [], []
    for command in commands:
        name = shown_name(command.name)
        for option in command.options:
            value = _value(option)
            if not value:
                continue
            kind = _PLACES.get(value)
            words = f"-A {kind}" if kind else f'-W "{" ".join(option.arguments.get("choices", ()))}"'
            more = "compopt -o filenames; " if kind else ""
            values.append(f'        "{name} {option.flag}") {more}COMPREPLY=($(compgen {words} -- "$word")); return ;;')
        options.append(f'        {name}) COMPREPLY=($(compgen -W "{" ".join(_flags(command))}" -- "$word")) ;;')
    names = " ".join([*(shown_name(command.name) for command in commands), *_OWN])
    made = _BASH.replace("{commands}", names).replace("{values}", "\n".join(values)).replace("{options}", "\n".join(options))
    return made.replace("{program}", COMMAND)


def _fish(commands: Commands) -> list[str]:
    begin = f"complete -c {COMMAND} -n __fish_use_subcommand -f -a "
    lines = [f"# completion of {COMMAND} for fish: {COMMAND} completion fish | source\n"]
    lines += [f"{begin}{shown_name(command.name)} -d {_quoted(command.summary)}\n" for command in commands]
    lines += [f"{begin}{_quoted('completion man')}\n"]
    for command in commands:
        of = f"complete -c {COMMAND} -n '__fish_seen_subcommand_from {shown_name(command.name)}'"
        for option in command.options:
            value, choices = _value(option), option.arguments.get("choices", ())
            takes = f" -r -f -a {_quoted(' '.join(choices))}" if choices else {"": " -f", "FILE": " -r", "DIR": " -r"}.get(value, " -r -f")
            lines.append(f"{of} -l {option.flag[2:]}{takes} -d {_quoted(re.split(r'[;(]', option.help)[0].strip())}\n")
    return lines


def _quoted(text: str) -> str:
    """A text as fish takes it, in single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


WRITERS: dict[str, tuple[Callable[..., str], tuple[str, ...]]] = {
    "completion": (completion, ("bash", "zsh", "fish")),
    "man": (manual, ()),
}
