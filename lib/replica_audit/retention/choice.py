"""Which runs go, by age and by number, and why each of the others stays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum


class RunState(StrEnum):
    """What a run is, as its rows of `audit_runs` show."""

    COMPLETE = "complete"  # it counts: reports and later audits read it
    EMPTY = "empty"  # complete, but it found nothing to read (exit code 2), so no reader takes it for the latest
    RUNNING = "running"  # a process that lives makes it, or removes it
    ENDED = "ended"  # the process that made it has ended before its end: nothing of it counts
    REMOVING = "removing"  # its removal was begun, by a process that has ended


class Reason(StrEnum):
    """Why a run stays or goes."""

    RUNNING = "running"
    NEWEST = "newest"
    AMONG_NEWEST = "among-newest"
    YOUNG = "young"
    OLD = "old"
    REMOVAL_BEGUN = "removal-begun"


_GOING = frozenset({Reason.OLD, Reason.REMOVAL_BEGUN})


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRun:
    """A run of a warehouse.

    Args:
        run_id: its id.
        cluster_ids: the clusters that it is about.
        run_date: the date that it is for; its age counts from there.
        started_at: when it began, UTC; of two runs of a cluster the one that began later is the newer.
        state: what it is.
    """

    run_id: str
    cluster_ids: tuple[str, ...]
    run_date: date
    started_at: datetime
    state: RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChoice:
    """What becomes of a run. `cluster_ids` are the clusters for whose sake it stays, where the reason is about clusters."""

    run: KnownRun
    reason: Reason
    cluster_ids: tuple[str, ...] = ()

    @property
    def goes(self) -> bool:
        """Whether the run is to be removed."""
        return self.reason in _GOING


def choose(runs: Iterable[KnownRun], now: datetime, keep_days: int, keep_runs: int) -> tuple[RunChoice, ...]:
    """Decide of each run whether it goes. A run goes or stays as a whole, however many clusters it is about.

    Args:
        runs: all runs of a warehouse, in any order.
        now: the time, UTC.
        keep_days: a run whose date is more than so many days before today, UTC, is old; one of exactly so many days is not.
        keep_runs: so many newest complete runs of each cluster stay, however old. The newest one stays even if this is 0.

    Returns:
        A choice for each run, in the order in which they began.
    """
    ordered = sorted(runs, key=lambda run: (run.started_at, run.run_id))
    rank = _ranks(ordered)
    return tuple(_choice(run, rank, (now.date() - run.run_date).days > keep_days, keep_runs) for run in ordered)


def _ranks(ordered: Sequence[KnownRun]) -> dict[tuple[str, str], int]:
    """Of each cluster the place of each complete run, from the newest, which has 0; by run and cluster."""
    of_cluster: dict[str, int] = defaultdict(int)
    found = {}
    for run in reversed(ordered):
        if run.state is RunState.COMPLETE:
            for cluster_id in set(run.cluster_ids):
                found[run.run_id, cluster_id] = of_cluster[cluster_id]
                of_cluster[cluster_id] += 1
    return found


def _choice(run: KnownRun, ranks: dict[tuple[str, str], int], is_old: bool, keep_runs: int) -> RunChoice:
    if run.state is RunState.RUNNING:
        return RunChoice(run=run, reason=Reason.RUNNING)
    if run.state is RunState.REMOVING:  # a part of its rows may be gone
        return RunChoice(run=run, reason=Reason.REMOVAL_BEGUN)
    places = {cluster_id: ranks[run.run_id, cluster_id] for cluster_id in run.cluster_ids if (run.run_id, cluster_id) in ranks}
    for reason, most in ((Reason.NEWEST, 1), (Reason.AMONG_NEWEST, keep_runs)):
        if of := tuple(sorted(cluster_id for cluster_id, place in places.items() if place < most)):
            return RunChoice(run=run, reason=reason, cluster_ids=of)
    return RunChoice(run=run, reason=Reason.OLD if is_old else Reason.YOUNG)
