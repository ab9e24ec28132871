"""Who wrote the lines of a log, and in which order: what a first reading of it shows.

A file may hold the lines of one broker or of several, as `docker compose logs` prints them, the oldest line first or, as exports have it,
the newest. A line that names no broker is of the one that others with the same source name; else of the number in the source's name, where
nothing in the file contradicts that its numbers are brokers' ids.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

from replica_audit.files.text_files import open_text
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.server_log.json_records import HEADING, is_json, number_of, prefix_of, records
from replica_audit.formats.server_log.log_lines import LogLine, looks_like_server_log, quotes_a_server_log, telling_lines, time_in
from replica_audit.protocol.comparison.observed import millis_of

_BLOCK = 1 << 18
_LONGEST = 300  # bytes of a match, and more
_SNIFFED = 1 << 16
_LOOKED_INTO = 1 << 23  # bytes of a log beside the brokers' folders; a broker names itself when it starts, and whenever it fetches
NAMED = re.compile(
    rb"\[(?:KafkaServer|BrokerServer|BrokerLifecycleManager|Broker) id=(\d{1,9})\]|\[ReplicaManager broker=(\d{1,9})\]"
    rb"|\[ReplicaFetcher replicaId=(\d{1,9}),|\[Partition [A-Za-z0-9._-]{1,256} broker=(\d{1,9})\]"
    rb"|\[ReplicaFetcherManager on broker (\d{1,9})\]"
)


class Owner(NamedTuple):
    """The broker that a log names first, and the line that does, counted from 1."""

    broker_id: int
    line: int


def owner(stream: BinaryIO, most_bytes: int | None = None) -> Owner | None:
    """The broker that wrote a log; None if no line names it.

    Args:
        stream: the uncompressed text, at its beginning; read to the first line that names a broker, in bounded memory.
        most_bytes: how much to read at most; None for all.

    Raises:
        OSError: the stream cannot be read. Nothing else is raised.
    """
    before, lines, read = b"", 1, 0
    while (most_bytes is None or read < most_bytes) and (chunk := stream.read(_BLOCK)):
        block = before + chunk
        if found := NAMED.search(block):
            return Owner(int(found[found.lastindex or 1]), lines + block.count(b"\n", 0, found.start()))
        before = block[-_LONGEST:]
        lines += block.count(b"\n") - before.count(b"\n")
        read += len(chunk)
    return None


def is_unusable(path: Path) -> bool:
    """Whether a file that is no broker's log has lines of one in it, in a shape that is not read.

    Raises:
        OSError: the file cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        return False
    with open_text(path) as stream:
        return quotes_a_server_log(stream.read(_SNIFFED))


def is_named_for_a_broker(path: Path) -> bool:
    """Whether the name of a log beside the brokers' folders, or of the folder that it lies in, names a broker."""
    folder = path.parent.name
    return any(one is not None for one in (log_dir.server_log_of(path.name), log_dir.is_broker_folder(folder), number_of(folder.encode())))


def written_by(path: Path) -> tuple[bool, int | None]:
    """Whether a file is a broker's log, and of which broker, as far as its beginning shows.

    Raises:
        OSError: the file cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        return False, None
    with open_text(path) as stream:
        head = stream.read(_SNIFFED)
        if not looks_like_server_log(head):
            return False, None
        stream.seek(0)
        found = owner(stream, _LOOKED_INTO)
    return True, found.broker_id if found else _numbered(head)


def _prefixes(head: bytes) -> Iterator[bytes]:
    yield from map(prefix_of, head.splitlines())
    yield from HEADING.findall(head)


def _numbered(head: bytes) -> int | None:
    """The number of the first source that has one, of lines or of records."""
    sources = (one.source for one in records(BytesIO(head))) if is_json(head) else _prefixes(head)
    return next((number for source in sources if (number := number_of(source)) is not None), None)


_MOST_SOURCES = 1000
_WORDS = (
    *(b"KafkaServer id=", b"BrokerServer id=", b"BrokerLifecycleManager id=", b"[Broker id=", b"[ReplicaFetcher replicaId=", b" broker="),
    *(b"FetcherManager on broker ", b"startTimeMs: "),
)
_STARTED = re.compile(rb"Kafka startTimeMs: (\d{13})(?!\d)")
_ZONE_STEP_MINUTES = 15
_ZONES = range(-12 * 60, 14 * 60 + 1, _ZONE_STEP_MINUTES)
_SLACK_MS = 20_000  # between the moment that a broker noted and the line about it


@dataclass(slots=True)
class LogSurvey:
    """What a first reading of a log shows.

    `named`: the brokers that lines with a source name. `sources`: those seen. `first`: the first line that names a broker.
    `zone_minutes`: how far the log's clock is ahead of UTC, None where the lines do not tell it, or not the same. `cut_lines`: of which
    only the beginning can be read.
    """

    named: dict[bytes, set[int]] = field(default_factory=dict)
    sources: set[bytes] = field(default_factory=set)
    first: Owner | None = None
    falls: int = 0
    rises: int = 0
    last_order: str = ""
    zones: set[int] = field(default_factory=set)
    cut_lines: list[int] = field(default_factory=list)

    @property
    def newest_first(self) -> bool:
        """Whether the file as a whole has its newest line first."""
        return self.falls > self.rises

    @property
    def zone_minutes(self) -> int | None:
        """How far the log's clock is ahead of UTC."""
        return next(iter(self.zones)) if len(self.zones) == 1 and self.zones <= set(_ZONES) else None

    @property
    def brokers(self) -> set[int]:
        """Every broker that a line names."""
        return set().union(*self.named.values())

    def sample(self, order: str, source: bytes) -> None:
        """Take the time and the source of a line."""
        if order and len(order) == len(self.last_order):
            self.falls += order < self.last_order
            self.rises += order > self.last_order
        self.last_order = order or self.last_order
        if source and len(self.sources) < _MOST_SOURCES:
            self.sources.add(source)

    def take(self, line: LogLine) -> None:
        """Take a line that may name a broker, or tell the log's zone."""
        if (match := NAMED.search(line.content)) and (line.source in self.named or len(self.named) < _MOST_SOURCES):
            broker = int(match[match.lastindex or 1])
            self.named.setdefault(line.source, set()).add(broker)
            self.first = self.first or Owner(broker, line.number)
        if match := _STARTED.search(line.content):
            told = millis_of(time_in(line.content[: match.start()], line.content))
            if told is not None:
                ahead = told - int(match[1])
                minutes = round(ahead / 60_000 / _ZONE_STEP_MINUTES) * _ZONE_STEP_MINUTES
                is_zone = minutes in _ZONES and abs(ahead - minutes * 60_000) < _SLACK_MS
                self.zones.add(minutes if is_zone else _ZONES.stop)


def survey(stream: BinaryIO) -> LogSurvey:
    """Read a log for who wrote it.

    Args:
        stream: the uncompressed text, at its beginning; read once and in bounded memory.

    Raises:
        OSError: the stream cannot be read. Nothing else is raised.
    """
    found = LogSurvey()
    for line in telling_lines(stream, _WORDS, found.sample, found.cut_lines.append):
        found.take(line)
    return found


class Writers:
    """The broker of each line of a log, by the line's source."""

    def __init__(self, found: LogSurvey, broker_id: int, *, is_told: bool = True) -> None:
        """Take what a log shows, and its broker; `is_told`: its folder or its name tells that, not one of its lines."""
        self._by_source: Mapping[bytes, int | None] = {
            source: next(iter(brokers)) if len(brokers) == 1 else None for source, brokers in found.named.items() if source
        }
        named = [(number_of(source), broker) for source, broker in self._by_source.items() if broker is not None]
        told = {number == broker for number, broker in named if number is not None}
        numbers = {number for source in found.sources if (number := number_of(source)) is not None}
        self._counts_numbers = told == {True} or (not told and broker_id in numbers)
        others = numbers if self._counts_numbers or not told else set()
        self._only = broker_id if (found.brokers | others) <= {broker_id} and (is_told or not self._by_source) else None

    def of(self, source: bytes) -> int | None:
        """The broker that wrote a line which names none itself; None if that is not known."""
        if source in self._by_source:
            return self._by_source[source]
        number = number_of(source) if source else None
        if number is None:
            return self._only
        return number if self._counts_numbers else self._only if self._only == number else None
