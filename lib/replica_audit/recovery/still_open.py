"""What earlier runs found or read and a run could not: it stays open until a run looks at the same again."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingPart:
    """What of a cluster an earlier run had and this one lacks: these brokers; None: the whole cluster, read last by `last_seen_run_id`."""

    cluster_id: str
    broker_ids: tuple[int, ...] | None
    last_seen_run_id: str | None = None
