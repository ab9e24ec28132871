"""How the lines of a broker's log are laid out: times, JSON around a message, and how a log of any name is known for a broker's.

Layouts: Kafka's `log4j.properties` and `log4j2.yaml` ([time] LEVEL message (logger)), Strimzi's (time LEVEL message (logger) [thread], and
time LEVEL [thread] Logger:line - message), a logger in front of the message, a time without a date; before any of these what Docker,
Kubernetes, journald or syslog put in front; and JSON lines of any field names (log4j2 JsonTemplateLayout, ECS, logstash, Docker's).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any, NamedTuple

from replica_audit.formats.server_log.json_records import JsonRecord, is_json, records
from replica_audit.formats.server_log.line_source import is_place

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
