"""Each leader epoch of a partition by the metadata log: who led, from when to when, with which ISR, and what the leader knew of it.

Sources: Partition.makeLeader and maybeIncrementLeaderHW (core), PartitionChangeBuilder, ReplicationControlManager.handleBrokerFenced and
alterPartition (metadata); KIP-966.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replica_audit.model import Election, IsrChange, PartitionMetadata
from replica_audit.protocol.cluster.cluster_history import ClusterHistory, Moment
from replica_audit.protocol.cluster.metadata_image import BrokerState, ElectionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrState:
    """An ISR and the record that made it so."""

    isr: frozenset[int]
    since: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One leader epoch. `states` is its ISR over time; `end` the record that ended it, else the end of the log.

    `is_over`: such a record is known. `begins`: the record that elected the leader is known, not only a snapshot of later.
    """

    leader_epoch: int
    leader_id: int
    states: tuple[IsrState, ...]
    end: Moment
    is_over: bool
    begins: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalIsr:
    """Every replica that the leader may have waited for when its term ended, back to an ISR that it had learned of.

    `is_likely`: that it knew rests on more than the metadata log proves.
    """

    members: frozenset[int]
    since: Moment
    is_likely: bool


def terms(metadata: PartitionMetadata, cluster: ClusterHistory) -> list[Term]:
    """The terms of a partition, those without a leader left out; ascending."""
    found = []
    changes: dict[int, list[Election | IsrChange]] = {}
    for change in metadata.isr_changes:
        changes.setdefault(change.leader_epoch, []).append(change)
    for place, election in enumerate(metadata.elections):
        following = metadata.elections[place + 1 : place + 2]
        if election.leader_id < 0:
            continue
        states = [election, *changes.get(election.leader_epoch, ())]
        found.append(
            Term(
                leader_epoch=election.leader_epoch,
                leader_id=election.leader_id,
                states=tuple(IsrState(isr=frozenset(one.isr), since=_moment(one)) for one in states),
                end=_moment(following[0]) if following else cluster.end,
                is_over=bool(following),
                begins=election.kind != ElectionKind.SNAPSHOT,
            )
        )
    return found


def _moment(record: Election | IsrChange) -> Moment:
    return Moment(record.metadata_offset, record.metadata_epoch, record.timestamp_ms)


def final_isr(term: Term, cluster: ClusterHistory, written_ms: Sequence[tuple[int, int]]) -> FinalIsr | None:
    """The ISR with which a term ended, as far as its leader had learned of it.

    The metadata log alone does not tell that: of two brokers that die together the controller fences one before the other, and makes the
    second the only member of an ISR that it never saw. So the members of earlier ISRs count, back to one that the leader knew of.

    Args:
        term: of a leader.
        cluster: its brokers over time.
        written_ms: (smallest, largest) timestamps of records that the leader wrote in this term, by the clocks of producers.

    Returns:
        None where no ISR is known that the leader knew of.
    """
    members: frozenset[int] = frozenset()
    for place in reversed(range(len(term.states))):
        state = term.states[place]
        members |= state.isr
        is_likely = not _learned(term, place, cluster)
        if not is_likely or _probably_learned(term, place, cluster, written_ms):
            return FinalIsr(members=members, since=state.since, is_likely=is_likely)
    return None


def _learned(term: Term, place: int, cluster: ClusterHistory) -> bool:
    """Whether the metadata log proves that the leader knew of a state of its ISR."""
    if place == 0 and term.begins:
        return True  # it learned of its election and of this ISR from one record
    since = term.states[place].since
    # only the leader adds to its ISR (AlterPartition), and it does so from the state that it knows
    adds = any(after.isr - before.isr for before, after in _changes(term, place))
    stops = cluster.began_to_stop(term.leader_id, since, term.end)
    return adds or stops or cluster.was_heard_of(term.leader_id, since, term.end)


def _probably_learned(term: Term, place: int, cluster: ClusterHistory, written_ms: Sequence[tuple[int, int]]) -> bool:
    since = term.states[place].since
    if cluster.was_heard_of_by_default(term.leader_id, since, term.end) or _asked_for(term, place, cluster):
        return True
    if cluster.came_back_as_it_was(term.leader_id, since):
        return False  # it may have written late what it had been sent while it was frozen, or cut off
    return since.timestamp_ms >= 0 and any(since.timestamp_ms < at <= term.end.timestamp_ms for span in written_ms for at in span)


def _changes(term: Term, place: int) -> Iterator[tuple[IsrState, IsrState]]:
    yield from zip(term.states[place:], term.states[place + 1 :], strict=False)


def _asked_for(term: Term, place: int, cluster: ClusterHistory) -> bool:
    """Whether the leader asked for this change itself: it took out replicas whose brokers were up."""
    if place == 0:
        return False
    state = term.states[place]
    gone = term.states[place - 1].isr - state.isr
    return bool(gone) and all(cluster.states(broker, state.since, state.since) == {BrokerState.UP} for broker in gone)
