"""The lines of a broker's log that may tell something of a replica, found without looking at the others one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple

from replica_audit.formats.server_log.json_records import HEADING, JsonRecord, is_json, is_place, prefix_of, records

_LONGEST_JSON = 1 << 16
_DEEPEST = 8
_DATED = re.compile(rb"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?")
_IN_BRACKETS = re.compile(rb"\[(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?")
_CLOCK = re.compile(rb"(?<![\d:.-])\d\d:\d\d:\d\d(?![\d:])")  # a time without a date
_OF_SYSLOG = re.compile(rb"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) ([ \d]\d) (\d\d:\d\d:\d\d)")
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_JSON = re.compile(rb'\{\s?"')
_MILLIS = ("timeMillis", "@timestamp", "timestamp", "time", "ts")
_FIRST_IN_MILLIS = 1e11  # smaller numbers are seconds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OF_A_BROKER = re.compile(
    # a logger's whole name
    rb"kafka\.(?:server|log|cluster|network|controller|coordinator|zk|utils)\.|state\.change\.logger"
    rb"|org\.apache\.kafka\.(?:server|storage|image|raft|metadata|controller|coordinator)\."
    # the name that a broker's part gives itself
    rb"|\[(?:ReplicaFetcher replicaId|(?:Broker|KafkaServer|BrokerServer|BrokerLifecycleManager|KafkaRaftServer) (?:node)?[iI]d)="
    rb"|\[(?:(?:Unified|Local)?Log|LogLoader|ProducerStateManager) partition="
    rb"|\[ReplicaManager broker=|\[ReplicaFetcherManager on broker |\[Partition [A-Za-z0-9._-]{1,256} broker="
    # a logger's short name with the line of its code
    rb"|\b(?:ReplicaFetcherThread|ReplicaFetcherManager|UnifiedLog|LocalLog|LogLoader|LogManager|LogSegment|LogCleaner|KafkaServer"
    rb"|BrokerServer|KafkaRaftServer|ReplicaManager|BrokerLifecycleManager|BrokerMetadataPublisher|DynamicBrokerConfig):\d{1,5} - "
)


class Unwrapped(NamedTuple):
    """The text of a line, and the time of a JSON line that is a number there; both empty where the line is not JSON.

    `source`: the names in it that tell where the line came from.
    """

    text: bytes
    time: str
    source: bytes = b""


def looks_like_server_log(head: bytes) -> bool:
    """Whether a file with these first bytes (some 64 KiB, uncompressed) is a broker's log: a line has a time and is of a broker's code."""
    if b"\0" in head:
        return False
    if any(_OF_A_BROKER.search(line) and _has_time(line) for line in head.splitlines() if not line[:1].isspace()):
        return True
    return is_json(head) and any(_OF_A_BROKER.search(one.messages) and _is_timed(one) for one in records(BytesIO(head)))


def quotes_a_server_log(head: bytes) -> bool:
    """Whether a JSON document with these first bytes has lines of a broker's log in it, in whatever shape."""
    return head.lstrip().startswith((b"{", b"[")) and any(_OF_A_BROKER.search(line) and _has_time(line) for line in head.splitlines())


def _is_timed(one: JsonRecord) -> bool:
    return bool(one.instant or _DATED.search(one.texts) or _CLOCK.search(one.texts))


def _has_time(line: bytes) -> bool:
    return bool(_DATED.search(line) or _CLOCK.search(line) or unwrapped(line, len(line)).time)


def time_in(before: bytes, around: bytes) -> str:
    """The time of a line, `YYYY-MM-DD HH:MM:SS,mmm`: the last before its message, first of all one in brackets; empty without a date."""
    for found in (list(_IN_BRACKETS.finditer(before)), list(_DATED.finditer(before)), list(_DATED.finditer(around))[:1]):
        if found:
            day, clock, fraction = found[-1].groups()
            return f"{day.decode()} {clock.decode()},{(fraction or b'')[:3].decode():0<3}"
    return ""


def order_in(line: bytes) -> str:
    """What orders a line among others of one log: its time; without a date the day of a year that is not told, or the clock alone."""
    if time := time_in(line, line):
        return time
    if match := _OF_SYSLOG.search(line):
        return f"{_MONTHS.index(match[1]) + 1:02d}-{int(match[2]):02d} {match[3].decode()}"
    clock = _CLOCK.search(line)
    return clock[0].decode() if clock else ""


def utc_of(milliseconds: int) -> str:
    """The time of an event by milliseconds since 1970; empty for 0, and for what is none."""
    return _utc(milliseconds)


def unwrapped(content: bytes, at: int) -> Unwrapped:
    """The texts in a line that is a JSON object, in order and with their escapes resolved; empty for other lines.

    Args:
        content: the line; what a container's log puts in front of the object does not matter.
        at: where in the line something is that lies in the object.
    """
    begin = _JSON.search(content, 0, at)
    if begin is None or len(content) > _LONGEST_JSON:
        return Unwrapped(b"", "")
    try:
        found = json.loads(content[begin.start() :])
    except (ValueError, RecursionError):
        return Unwrapped(b"", "")
    if not isinstance(found, dict):
        return Unwrapped(b"", "")
    text, source = ("\t".join(_texts(found, _DEEPEST)), " ".join(_places(found, "", _DEEPEST)))
    return Unwrapped(text.encode("utf-8", "replace"), _time_in_numbers(found), source.encode("utf-8", "replace"))


def _places(found: dict[str, Any], owner: str, depth: int) -> Iterator[str]:
    for key, value in found.items():
        if isinstance(value, str) and is_place(key, owner):
            yield value
        elif isinstance(value, dict) and depth:
            yield from _places(value, key, depth - 1)


def _texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth:
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner, depth - 1)


def _time_in_numbers(found: dict[str, Any]) -> str:
    """The time that a JSON line has as milliseconds, or seconds, since 1970; UTC."""
    instant = found.get("instant")
    if isinstance(instant, dict):
        return _utc(_number(instant.get("epochSecond")) * 1000 + _number(instant.get("nanoOfSecond")) // 1_000_000)
    number = next((value for value in map(_number, map(found.get, _MILLIS)) if value), 0)
    return _utc(number if number >= _FIRST_IN_MILLIS else number * 1000)


def _number(value: object) -> float:
    """A number that can be a time; 0 for anything else."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15 else 0


def _utc(milliseconds: float) -> str:
    """As the time of an event; empty for 0 and beyond the year 9999."""
    try:
        moment = _EPOCH + timedelta(milliseconds=int(milliseconds))
    except OverflowError:
        return ""
    return f"{moment:%Y-%m-%d %H:%M:%S},{int(milliseconds) % 1000:03d}" if milliseconds >= 1 else ""


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
