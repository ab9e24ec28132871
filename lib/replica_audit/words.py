"""Counts in words, the same wherever a person reads one."""

from __future__ import annotations


def count(number: int, noun: str, several: str | None = None) -> str:
    """A number and what it counts: `1 record`, `2 records`; `several` where the plural is not made with an s."""
    return f"{number} {noun if number == 1 else several or noun + 's'}"
