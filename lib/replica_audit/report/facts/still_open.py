"""What earlier runs found and a run could not confirm, counted: it stays open until a run looks at the same again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StillOpen:
    """Errors of earlier runs: how many, of `count` partitions, of these the first by name, and the worst of all.

    `seen_by`: the run that saw the worst last; None if it is no longer kept.
    """

    rows: int = 0
    count: int = 0
    first: tuple[tuple[str, int], ...] = ()
    worst: tuple[str, int] | None = None
    seen_by: str | None = None


NOTHING_OPEN = StillOpen()
