"""What stands around the output of kafka-dump-log where people pasted it: prompts, fences, warnings, marks of what they left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

TOOLS = (b"kafka-dump-log", b"DumpLogSegments")
OUTPUT = (
    b"baseOffset: ",
    b"offset: ",
    b"Dumping ",
    b"Starting offset: ",
    b"Log starting offset: ",
    b"| ",
    b"Found ",
)  # how lines of theirs begin
_PRINTED_BEFORE = re.compile(
    rb"\s*$|OpenJDK |Java HotSpot|Picked up |NOTE: |SLF4J|log4j|DEPRECATED: |(main )?(WARN|WARNING|ERROR|INFO)\b|\[|Defaulted container "
    rb"|Unable to use a TTY|```|~~~|\s*--?[a-z]|\++ \S"  # the last two: a command that goes on, and one that `set -x` shows
)
# of shells: a path and a sign with a blank behind it; the arrows of zsh's themes; Windows' have no blank
PROMPT = re.compile(rb"(\S{1,100} ){0,4}?\S{0,100}[$#%>](\s+|$)|(\xe2\x9d\xaf|\xe2\x9e\x9c|\xce\xbb)\s+|(PS )?[A-Z]:\\[^>|]{0,200}>\s*")
_GOES_ON = (b"\\", b"^", b"`", b"|")
_DUMP_INSIDE = re.compile(
    rb"Dumping \S.*\.log\b|(Log s|\bS)tarting offset: \d|baseOffset: \d+ lastOffset: \d|offset: \d+ position: \d.*isvalid: "
)
_LEFT_OUT = re.compile(
    rb"\s*[\[(<{]?\s*(\.{2,}|(\. ){2,}|\xe2\x80\xa6|\xe2\x8b\xae).{0,200}$"  # dots, the character of three, and of three upright
    rb"|\s*[.:]\s*$|\W{0,20}\b(snip|snipped|omitted|truncated|skipped|elided)\b\W{0,20}$"
    rb"|\W{1,20}.{0,60}\b(snip|snipped|omitted|truncated|skipped|elided)\b.{0,20}$"
    rb"|.{0,60}(\xe7\x95\xa5|\xec\x83\x9d\xeb\x9e\xb5).{0,20}$",  # in Chinese and Japanese, in Korean
    re.DOTALL,
)
_NOT_ALL = re.compile(  # what a pager, a web page, or a terminal writes where it does not show, or did not get, all; and what people write
    rb"\W{0,5}--? ?more ?--?.{0,20}$|\W{0,3}lines? \d+-\d+(/\d+)?( \d+%)?\W{0,5}$"
    rb"|\W{0,5}\+? ?\d+ (more )?lines?( (not shown|hidden|more|below))?\W{0,5}$"
    rb"|\W{0,5}(show|view|load|see) (more|all|raw|the rest|entire message)\b.{0,40}$|\W{0,5}click to expand\b.{0,60}$"
    rb"|\W{0,5}(message|output|log|text|file|rest)\b.{0,30} (clipped|cropped|shortened|abridged|cut( off)?|exceeded|too \w+)\b.{0,40}$"
    rb"|\W{0,5}(clipped|cropped|shortened|abridged|redacted|cont'?d|continued|etc|and so on|to be continued)\W{0,10}$"
    rb"|\W{0,5}(only )?(the )?(first|last|top) \d+ (lines|batches|entries|records|rows)\b.{0,40}$"
    rb"|\^C.{0,40}$|(\S+: line \d+: +\d+ )?(Killed|Terminated)\b.{0,100}$|command terminated with exit code [1-9]\d*\s*$"
    rb"|.{0,100}(broken pipe|unexpected eof|closed by remote host|lost connection|connection reset)\b.{0,40}$",
    re.IGNORECASE | re.DOTALL,
)
_COLOURS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_STACK_TRACE = re.compile(rb"\s+\.\.\. \d+ (more|common frames omitted)\s*$")
_LONGEST = 400  # bytes of a line that are looked at
_OTHER_FILES = (  # of a line: the file that it is of
    (re.compile(rb"offset: \d+ position: \d+\s*$"), ".index"),
    (re.compile(rb"timestamp: -?\d+ offset: \d+\s*$"), ".timeindex"),
    (re.compile(rb"version: \d+ producerId: .*lastStableOffset: "), ".txnindex"),
    (re.compile(rb"producerId: \d+ producerEpoch: \d+ (coordinatorEpoch|lastSequence): "), ".snapshot"),
)


class Unfit(NamedTuple):
    """A line, counted from 1, that keeps a text from being read as the output of kafka-dump-log; `begins` is how it begins."""

    line: int
    begins: str


def may_precede(line: bytes, above: bytes = b"") -> bool:
    """Whether a line is none of kafka-dump-log's, and may stand before them: blank, a prompt, its command, a fence or a warning.

    `above` is the line before it: a command may go on.
    """
    is_command = any(tool in line for tool in TOOLS) or above.rstrip().endswith(_GOES_ON)
    return is_command or _PRINTED_BEFORE.match(line) is not None or PROMPT.match(line) is not None


def leaves_out(line: bytes) -> bool:
    """Whether a line marks that something was left out: `......`, `(snip)`, `[120 lines omitted]`, `--More--`, `^C` and the like."""
    if len(line) > _LONGEST or _STACK_TRACE.match(line):
        return False
    shown = _COLOURS.sub(b"", line)
    return _LEFT_OUT.match(shown) is not None or _NOT_ALL.match(shown) is not None


def holds_output(line: bytes) -> bool:
    """Whether output of kafka-dump-log stands somewhere in a line."""
    return _DUMP_INSIDE.search(line[:_LONGEST]) is not None


def other_file(line: bytes) -> str | None:
    """The kind of file that a line of kafka-dump-log is of, such as `.index`; None if it is none that it prints of such files."""
    return next((kind for pattern, kind in _OTHER_FILES if pattern.match(line)), None)


def unfit(head: bytes) -> Unfit | None:
    """The first line that output of kafka-dump-log stands in without beginning it; None if there is none."""
    for number, line in enumerate(head.splitlines(), 1):
        if holds_output(line):
            return Unfit(number, line[:40].decode("utf-8", "replace"))
    return None


# The command that people paste above the output of kafka-dump-log, and whether it says that the output is only a part.
# What is piped through `head`, `grep` and the like may lack lines at its end, which nothing else shows: the log then looks shorter than it
# is.

_CONTINUED = re.compile(r"(\\|\^|`|\|)\s*$")  # in a shell, in cmd, in PowerShell, and behind a pipe
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
        if _CONTINUED.search(text):
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
