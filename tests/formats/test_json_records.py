"""Records of JSON documents, read token by token."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.formats.server_log.json_records import JsonRecord, is_json, records

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
KEYS = st.sampled_from(["message", "log", "a", "pod", "timestamp", "MESSAGE"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(TEXTS, st.integers(-5, 2**70), st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)


class _Slow(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(3)


def _texts(value: Any) -> list[str]:
    """All texts of a document, in order; not those of keys."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _texts(inner)]
    return [text for inner in value for text in _texts(inner)] if isinstance(value, list) else []


def _read(content: bytes) -> list[JsonRecord]:
    found = list(records(io.BytesIO(content)))
    slow = list(records(_Slow(content)))
    assert [one._replace(shown=b"") for one in slow] == [one._replace(shown=b"") for one in found]
    return found


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4), st.sampled_from([None, 1, "\t"]))
def test_every_text_of_a_document_is_in_a_record(document: dict[str, Any], indent: int | str | None) -> None:
    expected = sorted(_texts(document))
    for escapes in (True, False):
        content = json.dumps(document, indent=indent, ensure_ascii=escapes).encode()
        found = _read(content)
        if not any("\t" in text for text in expected) and b'"MESSAGE": [' not in content:
            assert sorted(text for one in found for text in one.texts.decode().split("\t")) == expected
        assert all(content.count(b"\n", 0, one.byte_offset) + 1 == one.line for one in found)
        assert all(content[one.byte_offset : one.byte_offset + 1] in (b"{", b"[") for one in found)


@given(
    st.lists(st.sampled_from([b"{", b"}", b"[", b"]", b'"', b"\\", b":", b",", b"a", b"1", b"\n", b"\xff", b'"message": "x"']), max_size=40)
)
def test_no_bytes_raise(pieces: list[bytes]) -> None:
    _read(b"".join(pieces))


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        *[("1800000000", 1_800_000_000_000), ("1800000000.5", 1_800_000_000_500), ("1800000000000", 1_800_000_000_000)],
        *[('"1800000000000000"', 1_800_000_000_000), ('"1800000000000000000"', 1_800_000_000_000), ("0", 0), ('"x"', 0)],
    ],
)
def test_times_that_are_numbers(number: str, expected: int) -> None:
    (found,) = _read(b'{"timestamp": ' + number.encode() + b', "message": "m"}')
    assert found.instant == expected


def test_lines_without_the_words_are_passed_over() -> None:
    lines = [json.dumps({"message": text, "MESSAGE": message}) for text, message in (("a", "b"), ("found", "b"), ("a", list(b"found")))]
    found = list(records(io.BytesIO("\n".join(lines).encode()), (b"found",)))
    assert [one.line for one in found] == [2, 3]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b'{"a": 1}', True),
        (b'\xef\xbb\xbf [ {"a":', True),
        (b"[2026-01-02 03:04:05,678] INFO {", False),
        (b"{x}", False),
        (b"[[1]]", False),
    ],
)
def test_what_begins_as_json(head: bytes, *, expected: bool) -> None:
    assert is_json(head) is expected
