"""The past of a cluster by its metadata log: states of brokers, terms of leaders, membership in the ISR, elections.

Sources: BrokerHeartbeatManager, ClusterControlManager, QuorumController.maybeFenceStaleBroker (metadata, 4.2.0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from replica_audit.model import BrokerEvent, Election, IsrChange, MinIsrSetting, PartitionMetadata
from replica_audit.protocol.cluster.metadata_image import GIVES_NOTHING_UP, BrokerState, ElectionKind
from replica_audit.protocol.epochs.lineage import Span, lacking, until
from replica_audit.protocol.exchange import alternatives
from replica_audit.protocol.exchange.replica import Replica

DEFAULT_SESSION_MS = 9000  # broker.session.timeout.ms
# Stale brokers are looked for four times in a session's time (QuorumController, since 4.0): a fence may come that much late.
_LATE_FENCE = 1.25


class Moment(NamedTuple):
    """A record of the metadata log: its offset, the epoch of the controller that wrote it, and when; -1 for a time that is not known."""

    metadata_offset: int
    metadata_epoch: int
    timestamp_ms: int


UNKNOWN = Moment(-1, -1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHistory:
    """The brokers of a cluster, by the copy of its metadata log that reaches farthest.

    `broker_events` and `min_isr` (of brokers, and the cluster's default) in order. `end`: the last batch of that copy. `release` is that
    of the brokers, or a lower bound of it where `release_is_exact` is False; (0, 0): unknown. `session_ms`: an upper bound of
    broker.session.timeout.ms, for so soon a broker was fenced after it had been heard of; None: none was.
    """

    broker_events: Sequence[BrokerEvent] = ()
    min_isr: Sequence[MinIsrSetting] = ()
    end: Moment = UNKNOWN
    release: tuple[int, int] = (0, 0)
    release_is_exact: bool = False
    session_ms: int | None = field(init=False)

    def __post_init__(self) -> None:
        """Look for the shortest time, once for all partitions."""
        object.__setattr__(self, "session_ms", _shortest_silence(self.broker_events))

    def events_of(self, broker: int) -> Iterator[BrokerEvent]:
        """A broker's events, in order."""
        return (event for event in self.broker_events if event.broker_id == broker)

    def states(self, broker: int, first: Moment, end: Moment) -> set[str]:
        """What a broker's registration was after a record, and until another; the records of one batch have one time."""
        found: list[str] = []
        for event in self.events_of(broker):
            if event.metadata_offset <= first.metadata_offset or event.timestamp_ms == first.timestamp_ms >= 0:
                found = [event.state]
            elif event.metadata_offset < end.metadata_offset and event.timestamp_ms != end.timestamp_ms:
                found.append(event.state)
        return set(found)

    def silence(self, broker: int, after: Moment, until: Moment) -> int | None:
        """How long a broker went on to be taken for alive after a record, in milliseconds; None: unknown.

        That is until it was fenced, or `until`. A new controller waits for every broker again, so all must be written by one.
        """
        ends = [
            event
            for event in self.events_of(broker)
            if event.metadata_offset > after.metadata_offset
            and event.timestamp_ms >= after.timestamp_ms
            and event.state not in (BrokerState.UP, BrokerState.STOPPING)
        ]
        ended = min([until, *(Moment(*event[2:]) for event in ends[:1])])
        if after.timestamp_ms < 0 or ended.timestamp_ms < 0 or ended.metadata_epoch != after.metadata_epoch:
            return None
        return ended.timestamp_ms - after.timestamp_ms

    def was_heard_of(self, broker: int, after: Moment, until: Moment) -> bool:
        """Whether a broker was certainly alive after a record: one that had died before would have been fenced sooner than it was."""
        silence = self.silence(broker, after, until)
        return silence is not None and self.session_ms is not None and silence > _LATE_FENCE * self.session_ms

    def was_heard_of_by_default(self, broker: int, after: Moment, until: Moment) -> bool:
        """The same, if broker.session.timeout.ms is not longer than its default."""
        silence = self.silence(broker, after, until)
        return silence is not None and silence > _LATE_FENCE * DEFAULT_SESSION_MS

    def began_to_stop(self, broker: int, after: Moment, until: Moment) -> bool:
        """Whether a broker asked for a controlled shutdown after a record, and not after `until`."""
        return any(
            event.state == BrokerState.STOPPING
            and after.metadata_offset < event.metadata_offset
            and event.timestamp_ms != after.timestamp_ms
            and (event.metadata_offset < until.metadata_offset or event.timestamp_ms == until.timestamp_ms)
            for event in self.events_of(broker)
        )

    def came_back_as_it_was(self, broker: int, after: Moment) -> bool:
        """Whether a broker was fenced after a record and let in again without a start between: it was frozen, or cut off."""
        states = [event.state for event in self.events_of(broker) if event.metadata_offset > after.metadata_offset]
        return any(before == BrokerState.FENCED and then == BrokerState.UP for before, then in pairwise(states))

    def started_again(self, broker: int, after: Moment) -> bool:
        """Whether a broker's process registered after a record."""
        later = (event for event in self.events_of(broker) if event.metadata_offset > after.metadata_offset)
        return any(event.state == BrokerState.STARTING for event in later)


def _shortest_silence(events: Sequence[BrokerEvent]) -> int | None:
    """The fence of a broker that stops in order does not count: it does not wait for the session to end."""
    heard: dict[int, BrokerEvent] = {}
    found = []
    for event in events:
        before = heard.pop(event.broker_id, None)
        if event.state == BrokerState.UP:
            heard[event.broker_id] = event
        elif event.state == BrokerState.FENCED and before is not None and 0 <= before.timestamp_ms <= event.timestamp_ms:
            found.append(event.timestamp_ms - before.timestamp_ms)
    return min(found, default=None)


def release_of(version: tuple[int, int] | None, metadata_version: int | None) -> tuple[tuple[int, int], bool]:
    """The brokers' release and whether it is exact: what is known of it, else the lowest that knows the level of `metadata.version`."""
    if version is not None:
        return version, True
    bound = next((release for level, release in _RELEASES if metadata_version is not None and metadata_version >= level), (0, 0))
    return bound, False


# the first level of metadata.version of a release (MetadataVersion), the newest first; those that matter here
_RELEASES = ((15, (3, 7)), (12, (3, 6)), (1, (3, 0)))


# Each leader epoch of a partition by the metadata log: who led, from when to when, with which ISR, and what the leader knew of it.
# Sources: Partition.makeLeader and maybeIncrementLeaderHW (core), PartitionChangeBuilder, ReplicationControlManager.handleBrokerFenced and
# alterPartition (metadata); KIP-966.


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
    adds = any(after.isr - before.isr for before, after in pairwise(term.states[place:]))
    stops = cluster.began_to_stop(term.leader_id, since, term.end)
    return adds or stops or cluster.was_heard_of(term.leader_id, since, term.end)


def _probably_learned(term: Term, place: int, cluster: ClusterHistory, written_ms: Sequence[tuple[int, int]]) -> bool:
    since = term.states[place].since
    if cluster.was_heard_of_by_default(term.leader_id, since, term.end) or _asked_for(term, place, cluster):
        return True
    if cluster.came_back_as_it_was(term.leader_id, since):
        return False  # it may have written late what it had been sent while it was frozen, or cut off
    return since.timestamp_ms >= 0 and any(since.timestamp_ms < at <= term.end.timestamp_ms for span in written_ms for at in span)


def _asked_for(term: Term, place: int, cluster: ClusterHistory) -> bool:
    """Whether the leader asked for this change itself: it took out replicas whose brokers were up."""
    if place == 0:
        return False
    state = term.states[place]
    gone = term.states[place - 1].isr - state.isr
    return bool(gone) and all(cluster.states(broker, state.since, state.since) == {BrokerState.UP} for broker in gone)


# Since when a replica has been in the ISR without a break, by the metadata log.
# A record counts as committed only once every member of the ISR holds it, and nothing else is cleaned (LogCleanerManager.cleanableOffsets
# stops at the last stable offset). So a replica that never left the ISR has been sent every tombstone that another one cleaned.


def in_sync_since(metadata: PartitionMetadata, cluster: ClusterHistory, broker_id: int) -> Election | None:
    """The first election after which a replica never left the ISR, and gave up nothing, until the metadata log ends; None if none is known.

    Args:
        metadata: of the partition, by the metadata log.
        cluster: the brokers over time. A broker that started again may have lost what it held, though it was in the ISR.
        broker_id: of the replica.
    """
    found = None
    records: list[Election | IsrChange] = [*metadata.elections, *metadata.isr_changes]
    records.sort(key=lambda one: one.metadata_offset, reverse=True)
    for record in records:
        if broker_id not in record.isr:
            break
        if isinstance(record, Election):
            if record.kind not in GIVES_NOTHING_UP:
                break
            found = record
    if found is None or cluster.started_again(broker_id, _moment(found)):
        return None
    return found


# The elections that the metadata log lists: where each epoch began, what an unclean one gave up, which were preferred ones.
# Sources: KIP-101 (an epoch begins at the log end of the replica that is elected), UnifiedLog.maybeIncrementLogStartOffset (the log start
# moves the first entry of a table).


class Beginning(NamedTuple):
    """The offset at which an epoch began; only an upper bound where `is_exact` is False: a log start may have moved the entry."""

    start_offset: int
    is_exact: bool


def beginnings(replicas: Sequence[Replica]) -> dict[int, Beginning]:
    """Where each epoch began, by the first table that has it, or by batches that lie before that.

    Args:
        replicas: of one topic, those whose tables count first in front.
    """
    found: dict[int, Beginning] = {}
    for replica in replicas:
        log_start = replica.log.log_start_offset
        for epoch, start in replica.log.epochs:
            found.setdefault(epoch, Beginning(start, start > log_start or log_start == 0))
    for replica in replicas:
        for span in replica.history:
            told = found.get(span.leader_epoch)
            if told is not None and span.first_offset < told.start_offset:
                is_first = span.first_offset == replica.history[0].first_offset > 0
                found[span.leader_epoch] = Beginning(span.first_offset, not is_first)
    return found


def given_up(election: Election, start: int, replicas: Sequence[Replica], *, compacted: bool = False) -> dict[int, list[Span]]:
    """What the elected leader did not have, and which replicas still hold it.

    The log with which a replica was elected is what it holds below the epoch's start, as long as its table still begins the epoch there:
    any later cut would have taken the entry. Without that log, or where it cannot be read to its end, only what others hold from the start
    on is known to have been given up.

    Args:
        election: that gave something up.
        start: where its epoch began, inclusive.
        replicas: of one topic.
        compacted: whether batches may be missing anywhere.

    Returns:
        For each broker that holds any, spans of its log, of earlier epochs.
    """
    elected = next((one for one in replicas if one.broker_id == election.leader_id), None)
    if elected is not None and (elected.unreadable or (election.leader_epoch, start) not in elected.log.epochs):
        elected = None
    found = {}
    for replica in replicas:
        spans = [span for span in _lacked(elected, replica, start, compacted=compacted) if 0 <= span.leader_epoch < election.leader_epoch]
        if spans:
            found[replica.broker_id] = spans
    return found


def _lacked(elected: Replica | None, replica: Replica, start: int, *, compacted: bool) -> list[Span]:
    end = replica.log.log_end_offset
    if elected is None:
        return list(lacking(replica.history, (), max(start, replica.log.log_start_offset), end))
    first = max(elected.log.log_start_offset, replica.log.log_start_offset)
    missing_from = start if compacted and elected.cleaner_offset is None else min(elected.cleaner_offset or 0, start)
    return list(lacking(replica.history, until(elected.history, start), first, end, missing_from=missing_from))


def with_preference(metadata: PartitionMetadata) -> list[alternatives.PreferredElection]:
    """The metadata log's elections, ascending, each with whether it was a preferred one.

    It is if it is clean and makes the first replica the leader, its predecessor being in the ISR.
    """
    found = []
    before = -1
    for election in metadata.elections:
        preferred = election.kind == ElectionKind.CLEAN and before in election.electable and (election.leader_id,) == metadata.replicas[:1]
        found.append(
            alternatives.PreferredElection(
                leader_epoch=election.leader_epoch, leader_id=election.leader_id, preferred=preferred, isr=election.electable
            )
        )
        before = election.leader_id
    return found
