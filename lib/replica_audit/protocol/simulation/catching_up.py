"""One follower that fetches from its leader until it has caught up: what it truncates, what it then holds.

The exchange is that of `exchange.truncation`, what is refused for good that of `exchange.catch_up`, what a cut takes that of
`comparison.candidates`: nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from replica_audit.model import BatchRun
from replica_audit.protocol.comparison.already_cut import as_truncated
from replica_audit.protocol.comparison.candidates import never_begins, taken
from replica_audit.protocol.comparison.commitment import Evidence
from replica_audit.protocol.comparison.context import Context
from replica_audit.protocol.comparison.pair import Comparison, Effect, catches_up
from replica_audit.protocol.epochs.epoch_table import EMPTY, Building
from replica_audit.protocol.epochs.lineage import Span, history_of_runs
from replica_audit.protocol.epochs.replica_log import LoadedLog
from replica_audit.protocol.exchange.replay import Protocol, Truncation
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.exchange.truncation import RULES


class CommittedSpans(NamedTuple):
    """Offsets that a cut takes and that the leader does not hold, proven to have been committed."""

    evidence: Evidence
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp:
    """A follower after its exchange and its fetches. `caught_up` is False where the leader refuses it for good or its fetcher fails.

    `truncation_offset` and `restart_offset` are None where it does neither. `taken`: what of its records the leader does not hold.
    `diverged`: whether it then conflicts with the leader and does not notice.
    """

    replica: Replica
    truncation_offset: int | None
    restart_offset: int | None
    caught_up: bool
    diverged: bool
    taken: tuple[Span, ...]
    committed: tuple[CommittedSpans, ...]


Measure = Callable[[Replica, Replica, Truncation], Effect]


def by_offsets(_leader: Replica, _follower: Replica, truncation: Truncation) -> Effect:
    """A truncation where the batches are not at hand: the cut is taken to lie between two of them."""
    return Effect(truncation=truncation, physical_offset=truncation.truncation_offset, fetcher_fails=False)


def caught_up(
    leader: Replica, follower: Replica, witnesses: list[Replica], context: Context, protocol: Protocol, measure: Measure = by_offsets
) -> CaughtUp:
    """Run a follower until it holds all that its leader holds, or is refused for good.

    Args:
        leader: its table has the epoch in which it leads.
        follower: as its broker has loaded it.
        witnesses: other replicas, whose high watermarks may prove that what is cut was committed.
        context: of the partition.
        protocol: that the cluster runs.
        measure: what the batches say of a truncation.
    """
    effect = measure(leader, follower, RULES[protocol](leader.as_leader(), follower.as_follower()))
    comparison = Comparison(leader=leader, follower=follower, context=context, effect=effect, witnesses=witnesses)
    is_caught_up = not never_begins(effect) and catches_up(leader, effect)
    kept = _kept(follower, effect)
    return CaughtUp(
        replica=fetched(leader, kept) if is_caught_up else kept,
        truncation_offset=effect.truncation.truncation_offset,
        restart_offset=effect.truncation.restart_offset,
        caught_up=is_caught_up,
        diverged=comparison.still_diverged and not never_begins(effect),
        taken=tuple(above(taken(comparison), follower.log.log_start_offset)),
        committed=tuple(CommittedSpans(one.bound.evidence, one.spans) for one in comparison.committed),
    )


def above(spans: Iterable[Span], log_start_offset: int) -> Iterator[Span]:
    """What of spans lies at or above a log start: a segment may begin below it, with records that nobody reads any more."""
    for span in spans:
        if span.end_offset > log_start_offset:
            yield span._replace(first_offset=max(span.first_offset, log_start_offset))


def _kept(follower: Replica, effect: Effect) -> Replica:
    """What the follower holds once it was cut, before it fetches; its table as the exchange left it."""
    after, cut = effect.truncation.follower_after, effect.truncation.truncation_offset
    if effect.truncation.restart_offset is not None:
        kept = as_truncated(follower, after.log_start_offset, 0)
    elif cut is not None:
        kept = as_truncated(follower, cut, cut if effect.physical_offset is None else effect.physical_offset)
    else:
        kept = follower
    log = replace(
        kept.log,
        log_start_offset=after.log_start_offset,
        log_end_offset=after.log_end_offset,
        first_segment_base=after.first_segment_base,
        epochs=after.epochs,
        epochs_on_disk=EMPTY,
    )
    return replace(kept, log=log)


def fetched(leader: Replica, follower: Replica) -> Replica:
    """The follower once it has appended all that its leader holds from its log end on; it then runs and is caught up."""
    end = follower.log.log_end_offset
    appended = list(_from(leader.log, end))
    building = Building(follower.log.epochs)
    for run in appended:
        building.append(run.leader_epoch, run.first_offset, run.magic)
    runs = (*follower.log.runs, *appended)
    log = replace(follower.log, log_end_offset=max(end, leader.log.log_end_offset), epochs=building.table(), runs=runs)
    return replace(follower, log=log, history=tuple(history_of_runs(runs)), high_watermark=log.log_end_offset, alive=True)


def _from(log: LoadedLog, offset: int) -> Iterator[BatchRun]:
    for run in log.runs:
        if run.last_offset >= offset:
            yield run._replace(first_offset=max(run.first_offset, offset))
