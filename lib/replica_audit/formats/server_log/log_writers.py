"""Who wrote the lines of a log, and in which order: what a first reading of it shows.

A file may hold the lines of one broker or of several, as `docker compose logs` prints them, the oldest line first or, as exports have it,
the newest. A line that names no broker is of the one that others with the same source name; else of the number in the source's name, where
nothing in the file contradicts that its numbers are brokers' ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from replica_audit.formats.server_log.line_source import number_of
from replica_audit.formats.server_log.log_layouts import time_in
from replica_audit.formats.server_log.log_lines import LogLine, telling_lines
from replica_audit.formats.server_log.log_owner import NAMED, Owner
from replica_audit.protocol.cluster.log_events import millis_of

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
