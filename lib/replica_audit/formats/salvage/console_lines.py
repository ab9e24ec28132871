"""Records as lines that kafka-console-producer.sh reads back as the same records.

Source: LineMessageReader (tools, 4.0; ConsoleProducer of 3.9 has the same rules). It decodes lines as UTF-8, ends one at every CR and LF,
splits at the first separator that it meets, and knows no escape: what it would read back as something else is not a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

HEADERS_DELIMITER, HEADERS_SEPARATOR, HEADER_KEY_SEPARATOR, KEY_SEPARATOR = "~~H~~", "~~,~~", "~~=~~", "~~K~~"
NULL_MARKER = "~~null~~"
# of the file for --reader-config; headers.separator is a regular expression, so none of them has a character that means something in one
READER_CONFIG = {
    "parse.key": "true",
    "parse.headers": "true",
    "headers.delimiter": HEADERS_DELIMITER,
    "headers.separator": HEADERS_SEPARATOR,
    "headers.key.separator": HEADER_KEY_SEPARATOR,
    "key.separator": KEY_SEPARATOR,
    "null.marker": NULL_MARKER,
}
_LINE_ENDS = ("\n", "\r")


class ConsoleRecord(NamedTuple):
    """A record as the console producer sends it: without offset, partition and timestamp."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def line_of(record: ConsoleRecord) -> str | None:
    """The line, without its end, that is read back as this record; None if there is none."""
    try:
        headers = HEADERS_SEPARATOR.join(f"{name.decode()}{HEADER_KEY_SEPARATOR}{_text(value)}" for name, value in record.headers)
        key, value = _text(record.key), _text(record.value)
    except UnicodeDecodeError:
        return None
    line = f"{headers if record.headers else NULL_MARKER}{HEADERS_DELIMITER}{key}{KEY_SEPARATOR}{value}"
    if any(end in line for end in _LINE_ENDS):
        return None
    return line if parsed(line) == record else None


def _text(value: bytes | None) -> str:
    return NULL_MARKER if value is None else value.decode()


def parsed(line: str) -> ConsoleRecord | None:
    """What the console producer makes of a line; None where it stops with an error."""
    headers, found, rest = line.partition(HEADERS_DELIMITER)
    key, found_too, value = rest.partition(KEY_SEPARATOR)
    if not found or not found_too:
        return None
    pairs = [] if headers == NULL_MARKER else _split(headers)
    named = [pair.partition(HEADER_KEY_SEPARATOR) for pair in pairs]
    if any(not separator or name == NULL_MARKER for name, separator, _ in named):
        return None
    return ConsoleRecord(_bytes(key), _bytes(value), tuple((name.encode(), _bytes(told)) for name, _, told in named))


def _split(headers: str) -> Sequence[str]:
    """As Pattern.split: empty parts at the end are dropped, and of nothing there is one, which is empty."""
    parts = headers.split(HEADERS_SEPARATOR)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def _bytes(text: str) -> bytes | None:
    return None if text == NULL_MARKER else text.encode()
