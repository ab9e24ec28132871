"""Which records are proven to have been committed: a leader's high watermark had passed them, or every in-sync replica held them.

Sources: Partition.maybeIncrementLeaderHW (core): a leader's high watermark is the smallest log end offset of itself, the other members of
the ISR, and replicas that are caught up and may join it. Of a leader that is alone in the ISR it is its own log end offset, on every append
and when it begins to lead, unless the ISR is smaller than min.insync.replicas (since 3.7) or such a replica is waited for; a fenced broker
is not, since 3.6. Partition.makeLeader forgets where the replicas were that are not in the ISR, so none is waited for at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from replica_audit.model import MinIsrSetting, PartitionMetadata
from replica_audit.protocol.cluster.cluster_history import ClusterHistory, FinalIsr, Moment, Term, final_isr, terms
from replica_audit.protocol.cluster.metadata_image import BrokerState, values_between
from replica_audit.protocol.comparison.compaction import TouchedBy
from replica_audit.protocol.epochs import lineage
from replica_audit.protocol.epochs.epoch_table import latest_epoch
from replica_audit.protocol.exchange.replica import Replica

_HELD_BACK_BELOW_MIN_ISR = (3, 7)
_FENCED_NOT_WAITED_FOR = (3, 6)


class Evidence(StrEnum):
    """How records are known to have been committed, the strongest first."""

    CHECKPOINT = "checkpointed-high-watermark"
    SOLE = "sole-in-sync-replica"
    ALL = "all-in-sync-replicas"


class Doubt(StrEnum):
    """What the files do not rule out: why evidence says "very likely"."""

    MIN_ISR = "min-insync-replicas"
    WAITED_FOR = "replica-about-to-join-isr"
    NOT_LEARNED = "leader-may-not-have-learned"
    METADATA_OLDER = "metadata-may-be-older"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitHistory:
    """What the metadata log tells of a partition's leaders and ISRs, and of its cluster.

    `may_be_older`: logs may have been copied after the metadata log. `is_outdated`: they were. `sole_member`: the ISR of a partition that
    nobody leads, of which there is no metadata log: it led last, and its high watermark was its log end offset.
    """

    terms: Sequence[Term] = ()
    cluster: ClusterHistory = field(default_factory=ClusterHistory)
    min_isr: Sequence[MinIsrSetting] = ()
    ever_replicas: Sequence[int] = ()
    topic_id: str | None = None
    may_be_older: bool = False
    is_outdated: bool = False
    sole_member: int | None = None

    @classmethod
    def of(cls, metadata: PartitionMetadata, cluster: ClusterHistory, *, simultaneous: bool, is_outdated: bool) -> CommitHistory:
        """The history of a partition; `simultaneous`: all copies, also that of the metadata log, were taken at one instant."""
        known = terms(metadata, cluster)
        is_sole = metadata.no_leader and not known and len(metadata.isr) == 1 and (metadata.min_insync_replicas or 1) == 1
        return cls(
            terms=known,
            cluster=cluster,
            min_isr=metadata.min_isr,
            ever_replicas=metadata.ever_replicas,
            topic_id=metadata.topic_id,
            may_be_older=not simultaneous,
            is_outdated=is_outdated,
            sole_member=metadata.isr[0] if is_sole else None,
        )

    def is_of(self, replica: Replica) -> bool:
        """Whether the history is that of a replica's topic."""
        return not replica.topic_id or not self.topic_id or replica.topic_id == self.topic_id

    def end_doubts(self, term: Term, final: FinalIsr) -> frozenset[Doubt]:
        """What is not ruled out of a term's final ISR."""
        found = set()
        if final.is_likely:
            found.add(Doubt.NOT_LEARNED)
        if not term.is_over and self.may_be_older:
            found.add(Doubt.METADATA_OLDER)
        return frozenset(found)

    def min_isr_doubts(self, broker: int, size: int, first: Moment, end: Moment | None) -> frozenset[Doubt] | None:
        """Whether an ISR of a size can have been too small: None if it was, else what is not ruled out; `end` None: at one moment."""
        if self.cluster.release_is_exact and self.cluster.release < _HELD_BACK_BELOW_MIN_ISR:
            return frozenset()
        until = first.metadata_offset + 1 if end is None else end.metadata_offset
        values = values_between(self.min_isr, self.cluster.min_isr, broker, first.metadata_offset, until)
        if any(value is not None and value > size for value in values):
            return None
        return frozenset({Doubt.MIN_ISR} if None in values and size < len(self.ever_replicas) else ())

    def waited_for(self, members: frozenset[int], first: Moment, end: Moment) -> frozenset[Doubt]:
        """Whether a replica outside the ISR may have been about to join it."""
        others = [broker for broker in self.ever_replicas if broker not in members]
        if not others:
            return frozenset()
        ruled_out = self.cluster.release >= _FENCED_NOT_WAITED_FOR and not any(
            BrokerState.UP in self.cluster.states(broker, first, end) for broker in others
        )
        return frozenset() if ruled_out else frozenset({Doubt.WAITED_FOR})


class Bound(NamedTuple):
    """All that a replica holds below `end_offset` was committed.

    `broker_id`: whose checkpoint, or who led alone; `metadata_offset`: of the record that made it so, None for a checkpoint.
    `members`: the replicas that must hold a record for it to count, where that is not the leader alone.
    """

    end_offset: int
    evidence: Evidence
    broker_id: int
    metadata_offset: int | None = None
    doubts: frozenset[Doubt] = frozenset()
    members: frozenset[int] = frozenset()

    @property
    def strength(self) -> tuple[int, int]:
        """Smaller is stronger."""
        return list(Evidence).index(self.evidence), len(self.doubts)


def bounds(replica: Replica, history: CommitHistory, replicas: Mapping[int, Replica]) -> list[Bound]:
    """What proves that records of a replica were committed, the strongest first.

    Args:
        replica: that holds the records.
        history: of its partition.
        replicas: the readable ones of its topic, by broker.
    """
    found = [Bound(replica.committed_until, Evidence.CHECKPOINT, replica.broker_id)]
    if replica.broker_id == history.sole_member and history.is_of(replica):
        doubts = frozenset({Doubt.METADATA_OLDER})
        found.append(Bound(replica.log.log_end_offset, Evidence.SOLE, replica.broker_id, doubts=doubts))
    if history.terms and history.is_of(replica):
        known = {span.leader_epoch for span in replica.history} | {entry.epoch for entry in replica.log.epochs}
        for term in (term for term in history.terms if term.leader_epoch in known):
            found += _when_it_began(replica, term, history)
            found += _when_it_ended(replica, term, history, replicas)
    return _needed(found)


def _needed(found: Iterable[Bound]) -> list[Bound]:
    """Those that prove more than a stronger one does; what counts with other members stays."""
    kept: list[Bound] = []
    for bound in sorted(found, key=lambda one: (one.strength, -one.end_offset)):
        if bound.end_offset > 0 and not any(one.end_offset >= bound.end_offset and not one.members for one in kept):
            kept.append(bound)
    return kept


def _when_it_began(replica: Replica, term: Term, history: CommitHistory) -> Iterator[Bound]:
    """All that a leader held when it began to lead as the only member of the ISR."""
    first = term.states[0]
    if not term.begins or first.isr != {term.leader_id}:
        return
    starts = [span.first_offset for span in replica.history if span.leader_epoch == term.leader_epoch]
    if replica.broker_id == term.leader_id:  # only a leader enters an epoch in which it has no record yet
        starts += [entry.start_offset for entry in replica.log.epochs if entry.epoch == term.leader_epoch]
    doubts = history.min_isr_doubts(term.leader_id, 1, first.since, None)
    if starts and doubts is not None:
        yield Bound(min(starts), Evidence.SOLE, term.leader_id, first.since.metadata_offset, doubts)


def _when_it_ended(replica: Replica, term: Term, history: CommitHistory, replicas: Mapping[int, Replica]) -> Iterator[Bound]:
    """All that a leader wrote until its term ended: what it was alone to hold, or what every other member of the ISR holds too."""
    spans = [span for span in replica.history if span.leader_epoch == term.leader_epoch]
    if not spans or (history.is_outdated and not term.is_over):
        return
    written = [(run.min_timestamp_ms, run.max_timestamp_ms) for run in replica.log.runs if run.leader_epoch == term.leader_epoch]
    final = final_isr(term, history.cluster, written)
    if final is None:
        return
    too_small = history.min_isr_doubts(term.leader_id, len(final.members), final.since, term.end)
    if too_small is None:
        return
    doubts, end = too_small | history.end_doubts(term, final), spans[-1].end_offset
    if final.members != {term.leader_id}:
        others = final.members - {term.leader_id}
        yield Bound(end, Evidence.ALL, term.leader_id, final.since.metadata_offset, doubts, others)
        return
    doubts |= history.waited_for(final.members, final.since, term.end)
    end = min(end, _stopped_at(replicas.get(term.leader_id), term, history, end))
    yield Bound(end, Evidence.SOLE, term.leader_id, final.since.metadata_offset, doubts)


def _stopped_at(leader: Replica | None, term: Term, history: CommitHistory, end: int) -> int:
    """Where the high watermark was of a leader that was stopped cleanly at the end of its term: it is then written down, and exact."""
    if leader is None or not leader.stopped_cleanly or leader.high_watermark is None:
        return end
    last = leader.history[-1].leader_epoch if leader.history else -1
    led_last = last == term.leader_epoch == latest_epoch(leader.log.epochs)
    return leader.high_watermark if led_last and not history.cluster.started_again(term.leader_id, term.states[0].since) else end


# What a cut takes that was committed and that the leader does not hold, each offset under its strongest evidence.


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Removed offsets that were committed and that the leader does not hold; `bound` is the evidence."""

    spans: tuple[lineage.Span, ...]
    bound: Bound

    @property
    def offsets(self) -> int:
        """How many."""
        return lineage.covered((span.first_offset, span.end_offset) for span in self.spans)


def by_evidence(found: Sequence[Committed]) -> dict[Evidence, int]:
    """How many offsets each evidence proves, the strongest first."""
    counts: dict[Evidence, int] = {}
    for one in found:
        counts[one.bound.evidence] = counts.get(one.bound.evidence, 0) + one.offsets
    return counts


def lost_commits(leader: Replica, follower: Replica, witnesses: Sequence[Replica], history: CommitHistory, first: int) -> list[Committed]:
    """What was committed of the offsets that a follower's files lose, the strongest evidence first, no offset twice.

    Args:
        leader: who does not hold them; its own high watermark speaks of its own records, and proves nothing.
        follower: that is cut.
        witnesses: the partition's other readable replicas: one that holds the same records may prove that they were committed.
        history: of the partition.
        first: offset that goes.
    """
    known = {replica.broker_id: replica for replica in (follower, *witnesses)}
    proofs = [(bound, witness) for witness in known.values() for bound in bounds(witness, history, known)]
    found: list[Committed] = []
    taken: list[lineage.Span] = []
    for bound, witness in sorted(proofs, key=lambda proof: proof[0].strength):
        spans = _lost(leader, follower, witness, bound, first)
        for member in bound.members:
            spans = _held_by(known.get(member), spans)
        spans = lineage.without(spans, taken)
        if spans:
            taken += spans
            found.append(Committed(spans=tuple(spans), bound=bound))
    return found


def _lost(leader: Replica, follower: Replica, witness: Replica, bound: Bound, first: int) -> list[lineage.Span]:
    """What the follower shares with the witness below the bound, and the leader does not hold."""
    end, leader_end = min(follower.log.log_end_offset, bound.end_offset), leader.log.log_end_offset
    needs_epoch = witness is not follower or bound.evidence is not Evidence.CHECKPOINT
    lost: list[lineage.Span] = []
    for part in lineage.pieces(follower.history, witness.history, first, end):
        epoch = part.left_epoch
        if epoch is None or epoch != part.right_epoch or (needs_epoch and epoch < 0):
            continue
        # what retention took from the leader is not lost
        start = max(part.first_offset, leader.begins)
        lost += lineage.lacking(follower.history, leader.history, start, part.end_offset, missing_from=leader_end)
    return lost


def _held_by(replica: Replica | None, spans: Sequence[lineage.Span]) -> list[lineage.Span]:
    """The part of spans that a replica holds in the same epochs."""
    if replica is None:
        return []
    return [
        lineage.Span(span.leader_epoch, part.first_offset, part.end_offset)
        for span in spans
        for part in lineage.pieces([span], replica.history, span.first_offset, span.end_offset)
        if part.left_epoch == part.right_epoch
    ]


# What had been committed and is on no disk any more: no two logs differ there, only a checkpoint tells of it.


def unreached_high_watermark(replicas: Iterable[Replica], *, simultaneous: bool) -> tuple[int, int, int] | None:
    """The largest high watermark that was persisted above the end of every log.

    The rule is the product's own. A high watermark never passes the log end offset (UnifiedLog.maybeIncrementHighWatermark), so what is
    below it was once in that log. Only of brokers that did not run when they were copied: of others the log may have been copied first.

    Args:
        replicas: all of a partition; each can be read.
        simultaneous: whether all brokers were copied at one instant.

    Returns:
        Broker, the largest log end offset of all replicas, and the high watermark; None if a log reaches it, or a broker ran.
    """
    known = list(replicas)
    if not known or not (simultaneous or all(replica.alive is False for replica in known)):
        return None
    end = max(replica.log.log_end_offset for replica in known)
    committed, broker = max((replica.high_watermark or 0, replica.broker_id) for replica in known)
    return (broker, end, committed) if committed > end else None


# What is known of a partition besides its logs, and what that says of the leader's copy.


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the metadata and the capture tell of a partition. `leader_epoch` is the metadata's, -1 if unknown.

    `leader_is_inferred`: nobody says who leads, so what the leader holds proves nothing of what it can send.
    `enters_epoch_at_once`: leaders write their epoch to the table when they are elected (KAFKA-7415), not with their first record.
    `compacted`: batches may be missing anywhere. `simultaneous`: all brokers were copied at one instant. `clean_elections`: the leader
    epochs whose elections, by the metadata log, gave nothing up. `commits`: its leaders and their ISRs. `leads_by_choice`: the leader is
    one that somebody might elect, so what its log holds decides, however it came to be short. `touched`: what may have left its replicas
    with other keys, if it is compacted.
    """

    leader_epoch: int = -1
    leader_is_inferred: bool = False
    enters_epoch_at_once: bool = False
    compacted: bool = False
    simultaneous: bool = False
    clean_elections: frozenset[int] = frozenset()
    commits: CommitHistory = field(default_factory=CommitHistory)
    leads_by_choice: bool = False
    touched: TouchedBy | None = None

    def gaps_count(self, *replicas: Replica) -> bool:
        """Whether it is evidence that one of them lacks batches: no cleaner took any, and all segments could be read."""
        return not self.compacted and not any(one.is_partly_read for one in replicas)


def copied_before_its_election(leader: Replica, context: Context) -> bool:
    """Whether the leader's copy does not know the epoch that it leads in: the log may since have been truncated.

    Nor does the copy of a broker that was stopped cleanly: a broker that stops leads nothing any more, so it was elected later.
    A log without a batch and an epoch is a follower's that has just begun, or that retention emptied: on a running broker, and above 0,
    where retention of its leader was faster.
    """
    latest, is_running = latest_epoch(leader.log.epochs), bool(leader.alive)
    if latest < 0 and leader.history:
        latest = leader.history[-1].leader_epoch  # retention has just taken all entries, or the file is wrong
    has_begun = not leader.history and (leader.log.log_start_offset > 0 or (is_running and leader.checkpoint_known))
    is_of_before = (is_running or leader.stopped_cleanly) and not context.simultaneous
    return is_of_before and context.enters_epoch_at_once and (latest >= 0 or has_begun) and latest < context.leader_epoch
