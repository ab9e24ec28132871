"""Records as lines of a console producer, and as lines of JSON: what is read back is the record, or there is no line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.formats.salvage.saved_file import (
    HEADER_KEY_SEPARATOR,
    HEADERS_DELIMITER,
    HEADERS_SEPARATOR,
    KEY_SEPARATOR,
    NULL_MARKER,
    READER_CONFIG,
    ConsoleRecord,
    encoded_line,
    line_of,
    parsed,
)
from tests.salvage.made import record_of_json

_MEANT = (
    KEY_SEPARATOR,
    HEADERS_DELIMITER,
    HEADERS_SEPARATOR,
    HEADER_KEY_SEPARATOR,
    NULL_MARKER,
    "~~",
    "~",
    "\n",
    "\r",
    "\u2028",
    "\x85",
    "K~~",
    "",
)
_TEXTS = st.lists(st.sampled_from(_MEANT) | st.text(max_size=3), max_size=4).map(lambda parts: "".join(parts).encode("utf-8", "ignore"))
_BYTES = _TEXTS | st.binary(max_size=6)
_RECORDS = st.builds(
    ConsoleRecord,
    key=st.none() | _BYTES,
    value=st.none() | _BYTES,
    headers=st.lists(st.tuples(_TEXTS, st.none() | _BYTES), max_size=3).map(tuple),
)


@given(_RECORDS)
def test_a_line_is_one_line_and_the_record(record: ConsoleRecord) -> None:
    line = line_of(record)
    if line is not None:
        assert "\n" not in line
        assert "\r" not in line
        assert parsed(line.encode().decode()) == record


@given(_RECORDS, st.integers(-1, 2**63 - 1))
def test_every_record_is_a_line_of_json(record: ConsoleRecord, timestamp: int) -> None:
    line = encoded_line("t", 3, 7, timestamp, record)
    assert "\n" not in line
    found = json.loads(line)
    assert [found[name] for name in ("topic", "partition", "offset", "timestamp_ms")] == ["t", 3, 7, timestamp]
    assert record_of_json(line) == record


@pytest.mark.parametrize(
    "record",
    [
        ConsoleRecord(b"k", b"v", ()),
        ConsoleRecord(None, b"", ()),
        ConsoleRecord(b"", None, ()),
        ConsoleRecord("Grüße".encode(), b'{"a": "b,c:d\t"}', ((b"h", b"1"), (b"h", None), (b"", b""))),
        ConsoleRecord(b"key", b"value with ~~K~~ in it", ()),  # only the first separator counts
        ConsoleRecord(b"k", "\u2028 \x85".encode(), ()),  # these end lines for Python, not for Java
    ],
)
def test_ordinary_records_are_lines(record: ConsoleRecord) -> None:
    assert line_of(record) is not None


@pytest.mark.parametrize(
    "record",
    [
        ConsoleRecord(b"k", b"two\nlines", ()),
        ConsoleRecord(b"k", b"ends with CR\r", ()),
        ConsoleRecord(b"k", b"\xff\xfe", ()),
        ConsoleRecord(b"\x80", b"v", ()),
        ConsoleRecord(b"with ~~K~~", b"v", ()),
        ConsoleRecord(b"k", NULL_MARKER.encode(), ()),
        ConsoleRecord(NULL_MARKER.encode(), b"v", ()),
        ConsoleRecord(b"k", b"v", ((NULL_MARKER.encode(), b"1"),)),
        ConsoleRecord(b"k", b"v", ((b"h", b"a~~,~~b"),)),
        ConsoleRecord(b"k", b"v", ((b"h~~=~~", b"a"),)),
        ConsoleRecord(b"k", b"v", ((b"h", b"~~H~~"),)),
        ConsoleRecord(b"k~~", b"v", ((b"h", b"~~H"),)),  # the end of one and the beginning of the next look like a separator
    ],
)
def test_what_would_be_read_as_something_else_is_no_line(record: ConsoleRecord) -> None:
    assert line_of(record) is None or parsed(line_of(record) or "") == record
    if record.headers != ((b"h", b"~~H"),):
        assert line_of(record) is None


def test_the_separators_can_stand_in_a_file_of_properties_and_mean_nothing_in_a_pattern() -> None:
    separators = (KEY_SEPARATOR, HEADERS_DELIMITER, HEADERS_SEPARATOR, HEADER_KEY_SEPARATOR, NULL_MARKER)
    assert len(set(separators)) == len(separators)
    assert all(one.isascii() and one.strip() == one and not set(one) & set("\\.[]{}()*+?^$|#!") for one in separators)
    assert json.dumps(READER_CONFIG)
