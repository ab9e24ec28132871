"""What a command of the laboratory says."""

from __future__ import annotations


def say(text: str) -> None:
    """A line, at once: runs take minutes."""
    print(text, flush=True)  # noqa: T201
