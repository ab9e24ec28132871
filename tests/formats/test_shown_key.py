"""Keys as text: whatever their bytes are, what is shown is short, printable, and of one key only."""

from __future__ import annotations

import random

import pytest

from replica_audit.formats.segment.records import MOST_CHARACTERS, shown_key


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"", ""),
        (b"order-17", "order-17"),
        ("Zürich 日本".encode(), "Zürich 日本"),
        (b"a\nb\x00\x1b[31m", "a\\nb\\x00\\x1b[31m"),
        (b"C:\\temp", "C:\\\\temp"),
        ("\u202eabc\u2028".encode(), "\\u202eabc\\u2028"),  # what turns the text around is an escape
        (b"\x00\x00\x00\x07\xff", "0x00000007ff"),
        (b"0x00000007ff", "\\x30x00000007ff"),
        (b"\xed\xa0\x80", "0xeda080"),  # half of a pair: no UTF-8
    ],
)
def test_a_key_is_shown_as_what_it_is(key: bytes, text: str) -> None:
    assert shown_key(key) == text


def test_a_long_key_is_cut_and_says_how_long_it_is() -> None:
    whole, longer = b"k" * MOST_CHARACTERS, b"k" * (MOST_CHARACTERS + 1)
    assert shown_key(whole) == whole.decode()
    assert shown_key(longer) == f"{whole.decode()}... ({MOST_CHARACTERS + 1} bytes)"
    assert shown_key(b"\xff" * 1_000_000) == "0x" + "ff" * 100 + "... (1000000 bytes)"
    assert len(shown_key("\U0010ffff".encode() * 10_000)) < 10 * MOST_CHARACTERS + 30


def test_two_keys_are_never_shown_alike() -> None:
    chance = random.Random(15)  # noqa: S311 - the same keys every time
    keys = {bytes(chance.choices(b'0x\\xnaf\n\x00\xff\xc3\xa9."', k=chance.randrange(9))) for _ in range(20_000)}
    assert len({shown_key(key) for key in keys}) == len(keys) > 10_000
    assert all(shown_key(key).isprintable() for key in keys)
