"""The lines of a broker's log that may tell something of a replica, found without looking at the others one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

from replica_audit.formats.server_log.log_layouts import unwrapped

_BLOCK = 1 << 18
_LONGEST_LINE = 1 << 20  # what is kept of a line, in bytes: those that list partitions have some 100 for each


class LogLine(NamedTuple):
    """A line that may tell something, counted from 1.

    `content` is its text, of a JSON line the texts in it; `at` is where in it the first telling words are. `shown` is the line as it is in
    the file, `time` that of a JSON line that has it as a number.
    """

    number: int
    byte_offset: int
    content: bytes
    at: int
    shown: bytes
    time: str = ""


def telling_lines(stream: BinaryIO, words: Sequence[bytes]) -> Iterator[LogLine]:
    """The lines that have one of these words in them, in order. Of a line of megabytes the beginning counts."""
    number, byte_offset, block, is_inside_a_line = 1, 0, b"", False
    while chunk := stream.read(_BLOCK):
        if is_inside_a_line:
            end = chunk.find(b"\n") + 1
            byte_offset += end or len(chunk)
            if not end:
                continue
            number, chunk, is_inside_a_line = number + 1, chunk[end:], False
        block += chunk
        end = block.rfind(b"\n") + 1
        if not end and len(block) < _LONGEST_LINE:
            continue
        is_inside_a_line = not end
        whole = block[: end or len(block)]
        yield from _telling(whole, words, number, byte_offset)
        number, byte_offset, block = number + whole.count(b"\n"), byte_offset + len(whole), block[len(whole) :]
    yield from _telling(block, words, number, byte_offset)


def _telling(block: bytes, words: Sequence[bytes], number: int, byte_offset: int) -> Iterator[LogLine]:
    first: dict[int, int] = {}
    for word in words:
        at = block.find(word)
        while at >= 0:
            begin = block.rfind(b"\n", 0, at) + 1
            first[begin] = min(first.get(begin, at), at)
            end = block.find(b"\n", at)
            at = block.find(word, end) if end >= 0 else -1
    counted = 0
    for begin in sorted(first):
        number, counted = number + block.count(b"\n", counted, begin), begin
        end = block.find(b"\n", begin)
        content = block[begin : end if end >= 0 else len(block)]
        yield _line(LogLine(number, byte_offset + begin, content, first[begin] - begin, content), words)


def _line(line: LogLine, words: Sequence[bytes]) -> LogLine:
    """The line, or the texts in it where it is JSON."""
    inner = unwrapped(line.content, line.at)
    places = [at for at in map(inner.text.find, words) if at >= 0]
    return line._replace(content=inner.text, at=min(places), time=inner.time) if places else line
