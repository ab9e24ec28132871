"""delete.retention.ms of a topic: how long its cleaners keep a tombstone or a marker after they first saw it (TopicConfig, LogConfig)."""

from __future__ import annotations

DEFAULT_DELETE_RETENTION_MS = 24 * 60 * 60 * 1000
_LONGEST = len(str(2**63 - 1))


def retention_in(value: object, default: int | None = None) -> int | None:
    """The milliseconds that a setting gives; the default where there is none, None where it is not a number that Kafka would take."""
    if value is None:
        return default
    text = str(value).strip()
    is_number = text.isascii() and text.isdecimal() and len(text) <= _LONGEST
    return int(text) if is_number and int(text) < 1 << 63 else None
