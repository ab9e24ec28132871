"""Log lines in JSON: exports of CloudWatch, Elasticsearch, Loki, Datadog or Google, of journald, and JSON lines of any length.

A document is read token by token, in bounded memory, however it is laid out. A record is what a document has at its root or as an element
of an array: it becomes one line of the texts in it. journald writes a message that is not plain text as an array of bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

_HEAD = 400  # bytes of a line in which its prefix is
_COLOURS = re.compile(rb"\x1b\[[\d;]*m")
_LEVEL = rb"(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\b"
_TIMED = rb"\d{4}-\d\d-\d\d[ T][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?"
_LINE_BEGINS = rb"(?=\[?(?:\d{4}-\d\d-\d\d[ T]|\d\d:\d\d:\d\d)|\{)"  # the line itself
_TRACE = rb"(?=\s*(?:at |Caused by: |(?:[a-z]+\.){2,}[A-Z]))"  # a line of a stack trace
_NAME = rb"[A-Za-z0-9_.-]{1,253}"
_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        rb"([A-Za-z0-9_.@-]{1,253}) *\|",
        rb"(?:\[?" + _TIMED + rb"\]? +)?\[(pod/" + _NAME + rb"(?:/" + _NAME + rb")?)\]",
        rb"(?:\[?" + _TIMED + rb"\]? +)?\[([A-Za-z0-9_.-]{0,200}?(?:kafka|broker)s?[-_ ]?\d{1,9}(?:[ /]" + _NAME + rb")?)\]",
        rb"(" + _NAME + rb"/" + _NAME + rb"\[" + _NAME + rb"\]): ",
        rb"(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d [\d:.]{8,15}|\d{4}-\d\d-\d\dT[\d:.,+Z-]{8,24}) (?!" + _LEVEL + rb")"
        rb"(" + _NAME + rb" " + _NAME + rb")(?:\[\d{1,9}\])?: ",
        rb"(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d [\d:.]{8,15} )?(" + _NAME + rb"(?:[ /]" + _NAME + rb")?)\[\d{1,9}\]: ",
        rb"<\d{1,3}>1 \d{4}-\d\d-\d\dT[\d:.,+Z-]{8,24} (" + _NAME + rb" " + _NAME + rb") ",
        rb"(?!" + _LEVEL + rb")(?=[^:\[{]*\d)((?:" + _NAME + rb" (?:\xe2\x80\xba )?){2,3}(?<!INFO )(?<!WARN )(?<!ERROR )(?<!DEBUG ))"
        rb"(?=\[?\d{4}-\d\d-\d\d[ T]|\{)",
        rb"(?=[^:]*\d)([A-Za-z0-9_./@-]{1,300}?):(?:\d{1,9}[:-])? ?(?:" + _LINE_BEGINS + rb"|" + _TRACE + rb")",
    )
)
HEADING = re.compile(rb"^==> (.{1,300}) <==\r?$", re.MULTILINE)  # what `tail` and `head` put before the lines of each file
_NUMBERED = re.compile(rb"(?:kafka|broker)s?[-_. /=]?(\d{1,9})(?![A-Za-z\d])", re.IGNORECASE)  # not of a hash
_PLACES = frozenset(
    {
        *("pod", "pod_name", "podname", "kubernetes_pod_name", "container_name", "containername", "logstreamname", "logstream"),
        *("log_stream", "host", "hostname", "_hostname", "host_name", "instance", "nodename", "node_name", "container", "filename"),
    }
)
_OWNERS = frozenset({"pod", "host", "container", "node"})


def prefix_of(line: bytes) -> bytes:
    """The source that a line has before it; empty where it has none."""
    head = line[:_HEAD]
    if head.startswith(b"\x1b") or b"\x1b" in head:
        head = _COLOURS.sub(b"", head)
    if head[:1] == b"[" and head[1:5].isdigit() and b"] [" not in head[:48]:
        return b""  # the plain layout of a server.log
    for pattern in _PREFIXES:
        if match := pattern.match(head):
            return match[1].strip()
    return b""


def is_place(key: str, owner: str) -> bool:
    """Whether a field of a JSON object names a source.

    Args:
        key: of the field.
        owner: the key of the object that it is in.
    """
    *before, key = key.lower().split(".")  # `kubernetes.pod_name`, `k8s.pod.name`
    return key in _PLACES or (key == "name" and (before[-1] if before else owner.lower()) in _OWNERS)


def number_of(source: bytes) -> int | None:
    """The number behind `kafka` or `broker` in a source's name; None if there is none, or several."""
    found = {int(number) for number in _NUMBERED.findall(source)}
    return found.pop() if len(found) == 1 else None


_BLOCK = 1 << 18
LONGEST_TEXT = 1 << 20  # what is kept of a text, and of all texts of a record, in bytes
_DEEPEST = 64
_SHOWN = 400
_TOKEN = re.compile(rb'[\s,:]*(?:"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?|([{}\[\]])|([-+.\w]+))', re.DOTALL)
_JUNK = re.compile(rb'[\s,:]*(?:(")|[^\s,:])', re.DOTALL)
_CLOSED = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NUMBER = re.compile(rb"\d{1,20}(?:\.\d{1,20})?")
_NEAR_THE_END = 64  # where a colon may follow, or the rest of a number
_BEGINS = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\[\s*)*\{\s*"[^"\\]{1,100}"\s*:')
_BYTES = re.compile(rb'"MESSAGE"\s*:\s*\[')
_TIMES = (
    "timemillis",
    "@timestamp",
    "timestamp",
    "time",
    "ts",
    "epochsecond",
    "__realtime_timestamp",
    "timeunixnano",
    "observedtimeunixnano",
)
_MESSAGES = frozenset(
    {
        *("message", "log", "msg", "textpayload", "_raw", "line", "body", "content", "event", "text", "original", "full_message"),
        *("value", "values", "rows", "logmessage", "stringvalue"),
    }
)


class JsonRecord(NamedTuple):
    """One record.

    `texts` in order, with their escapes resolved, a tab between two; `messages`: those of them that are a message by their key. `instant`:
    its time in milliseconds since 1970 where it has it as a number, of seconds or a part of them; 0 if it has none. `source`: the names of
    where it came from. `is_cut`: a text was too long and is there in part.
    """

    line: int
    byte_offset: int
    texts: bytes
    messages: bytes
    source: bytes
    instant: int
    shown: bytes
    is_cut: bool


@dataclass(slots=True)
class _Record:
    """A record while it is read."""

    line: int
    byte_offset: int
    shown: bytes
    texts: list[bytes] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    places: list[bytes] = field(default_factory=list)
    size: int = 0
    instant: int = 0
    is_cut: bool = False


@dataclass(slots=True)
class _Level:
    """An object or an array that is open; `owner`: the key that it is under."""

    is_object: bool
    owner: str
    record: _Record | None  # of its own
    key: str = ""
    numbers: list[int] | None = None


def is_json(head: bytes) -> bool:
    """Whether a text begins as JSON does: with an object, or an array of objects."""
    return _BEGINS.match(head) is not None


def records(stream: BinaryIO, words: tuple[bytes, ...] = (), ends_early: Callable[[int], object] | None = None) -> Iterator[JsonRecord]:
    """The records of a document, or of several one after the other, in order.

    Nothing is raised where it is no JSON, or ends early: what can be read is.

    Args:
        stream: at its beginning; read once and in bounded memory.
        words: of objects that are one line each, those with none of these are passed over; none: all are read.
        ends_early: is called with the line of the last record if the document ends inside one.
    """
    reader = _Reader(stream, words)
    yield from reader.read()
    if ends_early and reader.is_open:
        ends_early(reader.line)


class _Reader:
    def __init__(self, stream: BinaryIO, words: tuple[bytes, ...]) -> None:
        self._stream, self._words = stream, words
        self._text, self._at, self._begin = b"", 0, 0
        self._line, self._counted = 1, 0  # of the byte `_counted` of the text
        self._levels: list[_Level] = []
        self._open: list[_Record] = []
        self._too_deep = 0
        self.is_open, self.line = False, 1  # known once all is read

    def read(self) -> Iterator[JsonRecord]:
        while self._at < len(self._text) or self._fill():
            if not self._levels and self._words and self._passes_lines():
                continue
            match = _TOKEN.match(self._text, self._at)
            if (match is None or len(self._text) - match.end() < _NEAR_THE_END) and self._may_go_on():
                continue
            if match is None:
                self._pass_junk()
                continue
            self._at = match.end()
            if match[3] is None:
                self._value(match)
            elif match[3] in b"{[":
                self._opened(is_object=match[3] == b"{")
            elif self._too_deep:
                self._too_deep -= 1
            elif self._levels:
                yield from self._closes(self._levels.pop())
        self.is_open, self.line = bool(self._levels), self._line
        while self._open:
            yield from self._closed(self._open.pop())

    def _value(self, match: re.Match[bytes]) -> None:
        text, colon, _, number = match.groups()
        if text is not None:
            self._string(text, is_key=colon is not None)
        else:
            self._number(number)

    def _pass_junk(self) -> None:
        """Pass a character that begins nothing, or what there is of a text that does not end in what is kept."""
        begin = _JUNK.match(self._text, self._at)
        self._at = begin.end() if begin else len(self._text)
        if begin and begin[1]:
            self._take_cut_text()

    def _fill(self) -> bool:
        chunk = self._stream.read(_BLOCK)
        if chunk:
            self._count()
            self._begin += self._at
            self._text, self._at, self._counted = self._text[self._at :] + chunk, 0, 0
        return bool(chunk)

    def _may_go_on(self) -> bool:
        """Have more where a token may end in what comes; False at the end of the stream, or if it is too long."""
        return len(self._text) - self._at <= LONGEST_TEXT and self._fill()

    def _count(self) -> None:
        self._line += self._text.count(b"\n", self._counted, self._at)
        self._counted = self._at

    def _passes_lines(self) -> bool:
        """Pass a line that is one object and has none of the words."""
        while (end := self._text.find(b"\n", self._at)) < 0 and len(self._text) - self._at <= _BLOCK and self._fill():
            pass
        line = self._text[self._at : end if end >= 0 else None]
        is_whole = line.startswith(b"{") and line.rstrip().endswith(b"}") and line.count(b"{") == line.count(b"}")
        if not is_whole or _BYTES.search(line) or any(word in line for word in self._words):
            return False
        self._at = end + 1 if end >= 0 else len(self._text)
        return True

    def _take_cut_text(self) -> None:
        """Take the beginning of a text that is too long, or that the stream ends in, and pass the rest of it."""
        self._string(self._text[self._at : self._at + LONGEST_TEXT].rstrip(b"\\"), is_cut=True)
        while (match := _CLOSED.match(self._text, self._at)) is None:
            escapes = len(self._text) - len(self._text.rstrip(b"\\"))
            self._at = max(self._at, len(self._text) - escapes % 2)
            if not self._fill():
                self._at = len(self._text)
                return
        self._at = match.end()

    def _opened(self, *, is_object: bool) -> None:
        if len(self._levels) >= _DEEPEST:
            self._too_deep += 1
            return
        above = self._levels[-1] if self._levels else None
        owner = "" if above is None else above.key if above.is_object else above.owner
        record = None
        if above is None or not above.is_object:
            byte_offset = self._begin + self._at - 1
            while len(self._text) - self._at < _SHOWN and self._fill():
                pass
            self._count()
            shown = (b"{" if is_object else b"[") + self._text[self._at : self._at + _SHOWN - 1].split(b"\n", 1)[0]
            record = _Record(self._line, byte_offset, shown)
            self._open.append(record)
        self._levels.append(_Level(is_object, owner, record))

    def _closes(self, level: _Level) -> Iterator[JsonRecord]:
        if not level.is_object and level.numbers and level.owner.upper() == "MESSAGE" and self._open:
            self._text_of(self._open[-1], "message", bytes(level.numbers), is_cut=False)
        if level.record is not None and self._open and self._open[-1] is level.record:
            yield from self._closed(self._open.pop())

    def _closed(self, record: _Record) -> Iterator[JsonRecord]:
        if record.texts:
            places = [place for one in (*self._open, record) for place in one.places]
            instant = record.instant or next((one.instant for one in reversed(self._open) if one.instant), 0)
            texts, messages = b"\t".join(record.texts), b"\t".join(record.messages)
            source = b" ".join(dict.fromkeys(places))
            yield JsonRecord(record.line, record.byte_offset, texts, messages, source, instant, record.shown, record.is_cut)

    def _string(self, raw: bytes, *, is_key: bool = False, is_cut: bool = False) -> None:
        level = self._levels[-1] if self._levels else None
        if level is None or not self._open:
            return
        if is_key and level.is_object:
            level.key = _text(raw[:100]).decode("utf-8", "replace")
            return
        key = level.key if level.is_object else level.owner
        record, text = self._open[-1], _text(raw)
        if is_place(key, level.owner) and len(text) < 300:
            record.places.append(text)
        if text.isdigit() and 10 <= len(text) < 20:
            self._instant(record, key, text, in_pair=not level.is_object and level.record is not None)
        self._text_of(record, key, text, is_cut=is_cut)

    def _text_of(self, record: _Record, key: str, text: bytes, *, is_cut: bool) -> None:
        record.is_cut |= is_cut or record.size + len(text) > LONGEST_TEXT
        text = text[: max(0, LONGEST_TEXT - record.size)]
        record.size += len(text)
        record.texts.append(text)
        if key.lower() in _MESSAGES:
            record.messages.append(text)

    def _number(self, raw: bytes) -> None:
        level = self._levels[-1] if self._levels else None
        if level is None or not self._open:
            return
        if level.is_object:
            self._instant(self._open[-1], level.key, raw, in_pair=False)
        elif level.owner.upper() == "MESSAGE" and len(raw) <= 3 and raw.isdigit() and int(raw) < 256:
            level.numbers = level.numbers or []
            if len(level.numbers) < LONGEST_TEXT:
                level.numbers.append(int(raw))

    def _instant(self, record: _Record, key: str, raw: bytes, *, in_pair: bool) -> None:
        if key == "nanoOfSecond" and raw.isdigit() and len(raw) < 10:
            record.instant += int(raw) // 1_000_000
        elif not record.instant and (in_pair or key.lower() in _TIMES) and _NUMBER.fullmatch(raw):
            record.instant = _milliseconds(float(raw))


def _milliseconds(number: float) -> int:
    """Of seconds, milliseconds, microseconds or nanoseconds since 1970: which they are shows the size."""
    return int(number * 1000 if number < 1e11 else number if number < 1e15 else number / 1e3 if number < 1e18 else number / 1e6)


def _text(raw: bytes) -> bytes:
    """A text with its escapes resolved, as UTF-8."""
    if b"\\" not in raw:
        return raw
    with suppress(ValueError):
        return str(json.loads(b'"' + raw + b'"', strict=False)).encode("utf-8", "replace")
    return raw
