"""Digests of values, by which two runs tell whether something is what it was."""

from __future__ import annotations

from hashlib import blake2b


def digest(values: object) -> str:
    """A digest of plain values: numbers, texts, bytes, tuples and lists of them, named tuples, frozen classes of them."""
    return blake2b(repr(values).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
