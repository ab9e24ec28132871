"""The command that people paste above the output of kafka-dump-log, and whether it says that the output is only a part.

What is piped through `head`, `grep` and the like may lack lines at its end, which nothing else shows: the log then looks shorter than it
is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from replica_audit.formats.dump.pasted_text import OUTPUT, PROMPT, TOOLS

_GOES_ON = re.compile(r"(\\|\^|`|\|)\s*$")  # in a shell, in cmd, in PowerShell, and behind a pipe
_TRACED = re.compile(r"\++ \S")  # of `set -x`, which shows each command of a pipe on a line of its own
_PIPELINES = re.compile(r"\|\||&&|;|\bdo\b")
_SUBSTITUTED = re.compile(r"\$\([^()]*\)|`[^`]*`")
_MAX_BYTES = re.compile(r"--max-bytes[ =]+['\"]?(\d+)")
_NO_LIMIT = (1 << 31) - 1  # bytes: what kafka-dump-log takes where --max-bytes is not given
_FILES = re.compile(r"--files[ =]+['\"]?([^\s'\"$`*?{}|;&]+)(?=[\s'\"|;&]|$)")
_SEGMENT = re.compile(r"\d{20}\.log")
_REPLACES_ONLY = re.compile(
    r"sed(\s+-[Eru]+)*(\s+-e)?\s+(?P<quote>['\"]?)s(?P<mark>\W).*(?P=mark).*(?P=mark)[gI\d]*(?P=quote)(\s+\S+)?\s*$"
)
_AMOUNT = re.compile(r"(?:-n|--lines|-first|-last|-head|-tail|-totalcount)[ =]*(\+?\d+)(?![\w-])|\s([-+]\d+)(?!\w)", re.IGNORECASE)
_OTHER_AMOUNT = re.compile(r"\s(-c|--bytes|-skip)|(-n|--lines)[ =]*-\d", re.IGNORECASE)
_DEFAULT_LINES = 10  # of head and tail
_BEFORE_A_COMMAND = re.compile(r"^(sudo|time|nice|exec|then|\(|\{|!|[A-Z_]+=\S*)\s+")
_SHOWN = 60
# fmt: off
_PASSES = {  # what is piped through them comes out whole
    "tee", "cat", "gzip", "pigz", "bzip2", "xz", "zstd", "lz4", "pbcopy", "xclip", "xsel", "wl-copy", "clip", "clip.exe", "dos2unix",
    "unix2dos", "iconv", "pv", "nc", "curl", "aws", "gsutil", "mc", "ssh", "tr", "col", "ansi2txt", "expand", "out-file", "tee-object",
    "set-content", "out-string", "sponge", "buffer", "mbuffer",
}
_SHOWS_A_PART = {  # of a file
    "head", "tail", "grep", "egrep", "fgrep", "zgrep", "rg", "ag", "sed", "awk", "gawk", "mawk", "less", "more", "most", "zless",
    "findstr", "get-content", "gc", "select-string", "cut", "dd",
}
# fmt: on
_HEAD_OR_TAIL = ("head", "tail")
_COUNTING = (*_HEAD_OR_TAIL, "select-object", "select", "get-content", "gc")


class Command(NamedTuple):
    """A command above the output that it made, with the line that it begins on, counted from 1."""

    text: str
    line: int


def command_above(before: bytes, number: int) -> Command | None:
    """The command in the lines above the line `number`, in which output begins; None if there is none.

    `before` ends where that line begins, and may begin anywhere. Of several commands it is the last one that names the tool, and what
    follows; if none does, the last one.
    """
    lines = before.splitlines()
    own = next((place for place in range(len(lines), 0, -1) if lines[place - 1].startswith(OUTPUT)), 0)
    found = []
    for place, text in _joined(lines[own:]):
        is_of_tool, is_traced = any(tool.decode() in text for tool in TOOLS), _TRACED.match(text) is not None
        prompt = PROMPT.match(text.encode())
        if is_of_tool or is_traced or prompt:
            typed = text.encode()[prompt.end() :].decode() if prompt else text
            found.append((is_of_tool, is_traced, typed.lstrip("+ ").strip(), number - len(lines) + own + place))
    begin = next((place for place in range(len(found) - 1, -1, -1) if found[place][0]), len(found) - 1)
    while begin > 0 and found[begin][1] and found[begin - 1][1]:  # a trace may show the last command of a pipe first
        begin -= 1
    said = found[max(begin, 0) :]
    separator = " | " if all(is_traced for _tool, is_traced, _text, _line in said) else " ; "
    return Command(separator.join(text for _tool, _traced, text, _line in said), said[0][3]) if said else None


def _joined(lines: Sequence[bytes]) -> Iterator[tuple[int, str]]:
    """Each line with those on which it goes on, and the place of the first of them."""
    held, place = "", 0
    for at, line in enumerate(lines):
        text = line.decode("utf-8", "replace")
        held, place = (f"{held} {text.strip().removeprefix('> ')}", place) if held else (text, at)
        if _GOES_ON.search(text):
            held = re.sub(r"[\\^`]\s*$", "", held)
            continue
        yield place, held
        held = ""
    if held:
        yield place, held


def is_limited(command: str) -> bool:
    """Whether kafka-dump-log was told to stop after some bytes: what it then calls invalid at the end, it has not read."""
    return _limit(command) is not None


def _limit(command: str) -> str | None:
    limit = _MAX_BYTES.search(command)
    return f"--max-bytes {limit[1]}" if limit is not None and int(limit[1]) < _NO_LIMIT else None


def why_a_part(command: str, lines: int, files: Sequence[str]) -> str | None:
    """Which words of a command say that its output is only a part; None if none do.

    Args:
        command: as of `command_above`.
        lines: how many lines of output there are, or more: what keeps so many lines has kept all if there are fewer.
        files: the names of the files that the output tells.
    """
    without = _SUBSTITUTED.sub(lambda found: found[0] if any(word in found[0] for word in _HEAD_OR_TAIL) else " ", command)
    pipelines = [[stage.strip().lstrip("&").strip() for stage in one.split("|")] for one in _PIPELINES.split(without)]
    tool_at = next((place for place, stages in enumerate(pipelines) if _tool_in(stages) is not None), 0)
    for stages in pipelines[tool_at:]:
        tool = _tool_in(stages)
        for place, stage in enumerate(stages):
            if place == tool:
                why = _limit(stage)
            elif tool is not None and place < tool:  # it chooses the files
                why = stage[:_SHOWN] if _program(stage) in _HEAD_OR_TAIL else None
            else:
                why = _left_out_by(stage, lines, reads_a_file=tool is None and place == 0)
            if why is not None:
                return why
    named = _FILES.search(without)
    given = [path.replace("\\", "/").rpartition("/")[2] for path in named[1].split(",")] if named else []
    missing = next((name for name in given if _SEGMENT.fullmatch(name) and name not in files), None)
    return f"--files names {missing}, which the text does not show" if missing else None


def _tool_in(stages: Sequence[str]) -> int | None:
    return next((place for place, stage in enumerate(stages) if any(tool.decode() in stage for tool in TOOLS)), None)


def _left_out_by(stage: str, lines: int, *, reads_a_file: bool) -> str | None:
    """A program that output goes through, or that shows a file of it, where that may leave lines out."""
    program = _program(stage)
    if not program or (program not in _SHOWS_A_PART if reads_a_file else program in _PASSES):
        return None
    if program == "sed" and _REPLACES_ONLY.match(stage):
        return None
    if program in _COUNTING and _holds_all(program, stage, lines):
        return None
    shown = stage[:_SHOWN]
    return shown if all(shown.count(quote) % 2 == 0 for quote in "'\"") else shown.rstrip("'\" ")


def _program(stage: str) -> str:
    """The name of the program that a stage of a pipe runs, in lower case; empty if there is none."""
    while (shorter := _BEFORE_A_COMMAND.sub("", stage)) != stage:
        stage = shorter
    return stage.partition(" ")[0].strip("'\"()").rpartition("/")[2].lower()


def _holds_all(program: str, stage: str, lines: int) -> bool:
    """Whether a program that keeps so many lines has kept all of them."""
    if _OTHER_AMOUNT.search(stage):
        return False
    found = _AMOUNT.search(stage)
    if found is None:
        return lines < _DEFAULT_LINES if program in _HEAD_OR_TAIL else program in ("get-content", "gc")
    amount = found[1] or found[2]
    if program == "tail" and amount.startswith("+"):
        return int(amount) <= 2  # all but the `Dumping` line
    return lines < int(amount.lstrip("+-"))
