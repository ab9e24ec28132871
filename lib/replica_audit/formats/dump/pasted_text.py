"""What stands around the output of kafka-dump-log where people pasted it: prompts, fences, warnings, marks of what they left out."""

from __future__ import annotations

import re
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
