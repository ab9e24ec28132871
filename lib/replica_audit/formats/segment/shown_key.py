"""A record's key as text for people and tables, whatever bytes it is of."""

from __future__ import annotations

MOST_CHARACTERS = 200  # of a text that are shown
_MOST_BYTES = 100  # of other bytes
_HEXADECIMAL = "0x"


def shown_key(key: bytes) -> str:
    """A key as text: UTF-8 as it is, with backslashes and whatever is not printable escaped; other bytes as hexadecimal digits after 0x.

    A text that itself begins with 0x begins with an escape, so no two keys that are shown whole look alike. Long ones are cut, and their
    size in bytes follows.
    """
    try:
        text = key.decode("utf-8")
    except UnicodeDecodeError:
        return _HEXADECIMAL + key[:_MOST_BYTES].hex() + ("" if len(key) <= _MOST_BYTES else _cut(key))
    shown = "".join(map(_escaped, text[:MOST_CHARACTERS]))
    if shown.startswith(_HEXADECIMAL):
        shown = "\\x30" + shown[1:]
    return shown if len(text) <= MOST_CHARACTERS else shown + _cut(key)


def _escaped(character: str) -> str:
    if character != "\\" and character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def _cut(key: bytes) -> str:
    return f"... ({len(key)} bytes)"
