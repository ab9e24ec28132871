"""Records as lines of JSON with their bytes in base64: for those that are no lines of a console producer."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import NamedTuple

from replica_audit.formats.salvage.console_lines import ConsoleRecord


class PlacedRecord(NamedTuple):
    """A record, and where and when it was. A timestamp of -1: it had none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    record: ConsoleRecord


def encoded_line(placed: PlacedRecord) -> str:
    """The line, without its end."""
    record = placed.record
    headers = [[name.decode(), _encoded(value)] for name, value in record.headers]
    return json.dumps(
        {
            "topic": placed.topic,
            "partition": placed.partition,
            "offset": placed.offset,
            "timestamp_ms": placed.timestamp_ms,
            "key": _encoded(record.key),
            "value": _encoded(record.value),
            "headers": headers,
        }
    )


def decoded_line(line: str) -> PlacedRecord:
    """What such a line holds."""
    found = json.loads(line)
    headers = tuple((name.encode(), _decoded(value)) for name, value in found["headers"])
    record = ConsoleRecord(_decoded(found["key"]), _decoded(found["value"]), headers)
    return PlacedRecord(found["topic"], found["partition"], found["offset"], found["timestamp_ms"], record)


def _encoded(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
