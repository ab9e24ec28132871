"""The lines of a broker's log that may tell something of a replica, found without looking at the others one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import BinaryIO, NamedTuple

from replica_audit.formats.server_log.json_records import JsonRecord, is_json, records
from replica_audit.formats.server_log.line_source import HEADING, prefix_of
from replica_audit.formats.server_log.log_layouts import order_in, unwrapped, utc_of

_BLOCK = 1 << 18
_SAMPLED = 600  # bytes of a line
_LONGEST_LINE = 1 << 20  # what is kept of a line, in bytes: those that list partitions have some 100 for each


class LogLine(NamedTuple):
    """A line that may tell something, counted from 1.

    `content` is its text, of a JSON line the texts in it; `at` is where in it the first telling words are. `shown` is the line as it is in
    the file, `time` that of a JSON line that has it as a number. `source` is what stands before the line, or in a JSON object beside it,
    and tells where it came from.
    """

    number: int
    byte_offset: int
    content: bytes
    at: int
    shown: bytes
    time: str = ""
    source: bytes = b""


Sample = Callable[[str, bytes], object]  # is given the time of a line, or what comes nearest to one, and its source
Cut = Callable[[int], object]  # is given the number of a line of which only the beginning is read
_SAMPLES = 32  # of a block


def telling_lines(stream: BinaryIO, words: Sequence[bytes], sample: Sample | None = None, cut: Cut | None = None) -> Iterator[LogLine]:
    """The lines that have one of these words in them, in order. Of a line of megabytes the beginning counts.

    Args:
        stream: the uncompressed text, at its beginning; read once and in bounded memory.
        words: of which a line has one.
        sample: is told of lines here and there in their order, whatever is in them.
        cut: is told of lines that are too long, and of the last one of a JSON document that ends early.
    """
    head = stream.read(_BLOCK)
    read = _records if is_json(head) else _lines
    yield from read(_Again(head, stream), words, sample, cut)


class _Again(BytesIO):
    """A stream of which the first bytes were read already."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        super().__init__()
        self._head, self._rest = head, rest

    def read(self, size: int | None = -1, /) -> bytes:
        head, self._head = self._head, b""
        return head or self._rest.read(-1 if size is None else size)


def _records(stream: BinaryIO, words: Sequence[bytes], sample: Sample | None, cut: Cut | None) -> Iterator[LogLine]:
    for record in records(stream, () if sample else tuple(words), cut):
        line = _of_record(record)
        if sample:
            sample(order_in(record.texts[:_SAMPLED]) or line.time, line.source)
        if record.is_cut and cut:
            cut(line.number)
        places = [at for at in map(record.texts.find, words) if at >= 0]
        if places:
            yield line._replace(at=min(places))


def _of_record(record: JsonRecord) -> LogLine:
    return LogLine(
        number=record.line,
        byte_offset=record.byte_offset,
        content=record.texts,
        at=0,
        shown=record.shown,
        time=utc_of(record.instant),
        source=record.source,
    )


def _lines(stream: BinaryIO, words: Sequence[bytes], sample: Sample | None, cut: Cut | None) -> Iterator[LogLine]:
    number, byte_offset, block, is_inside_a_line = 1, 0, b"", False
    files = _Headings(sample)
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
        if sample:
            _tell_times(whole, sample)
        yield from _telling(whole, words, number, byte_offset, files)
        if is_inside_a_line and cut and b'{"' in whole:  # else it lists more partitions than are kept of it
            cut(number)
        number, byte_offset, block = number + whole.count(b"\n"), byte_offset + len(whole), block[len(whole) :]
    if sample and block:
        _tell_times(block, sample)
    yield from _telling(block, words, number, byte_offset, files)


class _Headings:
    """The files that `tail` and `head` name between the lines of several: `==> broker-3/server.log <==`."""

    def __init__(self, sample: Sample | None) -> None:
        """Tell the names to `sample`."""
        self._sample = sample
        self._last = b""
        self._found: list[tuple[int, bytes]] = []

    def read(self, block: bytes) -> None:
        """Find those of the next block."""
        self._last = self._found[-1][1] if self._found else self._last
        self._found = []
        if b"==> " in block:
            self._found = [(match.start(), match[1]) for match in HEADING.finditer(block)]
        for _, name in self._found:
            if self._sample:
                self._sample("", name)

    def before(self, at: int) -> bytes:
        """The last one before a place in the block; empty where there is none."""
        return next((name for begin, name in reversed(self._found) if begin < at), self._last)


def _tell_times(block: bytes, sample: Sample) -> None:
    lines = block.count(b"\n") + 1
    step, at = max(1, len(block) // _SAMPLES), 0
    for begin in range(0, len(block), step) if lines > _SAMPLES else (0,):
        at = max(at, block.rfind(b"\n", 0, begin) + 1)
        for _ in range(1 if lines > _SAMPLES else lines):
            end = block.find(b"\n", at)
            line = block[at : end if 0 <= end < at + _SAMPLED else at + _SAMPLED]
            sample(order_in(line), prefix_of(line))
            if end < 0:
                return
            at = end + 1


def _telling(block: bytes, words: Sequence[bytes], number: int, byte_offset: int, files: _Headings) -> Iterator[LogLine]:
    files.read(block)
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
        source = prefix_of(content) or files.before(begin)
        yield _line(LogLine(number, byte_offset + begin, content, first[begin] - begin, content, source=source), words)


def _line(line: LogLine, words: Sequence[bytes]) -> LogLine:
    """The line, or the texts in it where it is JSON."""
    inner = unwrapped(line.content, line.at)
    places = [at for at in map(inner.text.find, words) if at >= 0]
    if not places:
        return line
    return line._replace(content=inner.text, at=min(places), time=inner.time, source=b" ".join((line.source, inner.source)).strip())
