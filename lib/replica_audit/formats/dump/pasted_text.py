"""What stands around the output of kafka-dump-log where people pasted it: prompts, fences, warnings, marks of what they left out."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOOLS = (b"kafka-dump-log", b"DumpLogSegments")
_PRINTED_BEFORE = re.compile(
    rb"\s*$|OpenJDK |Java HotSpot|Picked up |NOTE: |SLF4J|log4j|DEPRECATED: |(main )?(WARN|WARNING|ERROR|INFO)\b|\[|Defaulted container "
    rb"|Unable to use a TTY|```|~~~|\s*--?[a-z]"  # the last: a command that goes on
)
_PROMPT = re.compile(rb"(\S{1,100} ){0,2}\S{0,100}[$#%>](\s|$)")
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


def may_precede(line: bytes) -> bool:
    """Whether a line is none of kafka-dump-log's, and may stand before them: blank, a prompt, its command, a fence or a warning."""
    return any(tool in line for tool in _TOOLS) or _PRINTED_BEFORE.match(line) is not None or _PROMPT.match(line) is not None


def leaves_out(line: bytes) -> bool:
    """Whether a line marks that something was left out: `......`, `(snip)`, `[120 lines omitted]` and the like."""
    return len(line) <= _LONGEST and _LEFT_OUT.match(line) is not None and _STACK_TRACE.match(line) is None


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
