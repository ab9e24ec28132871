"""What is found of a partition, or of one of its replicas, besides the verdicts on its followers.

Sources: PartitionChangeBuilder.isValidNewLeader and ReplicationControlManager.handleBrokerUncleanShutdown (who is elected cleanly),
Partition.makeLeader with KAFKA-7415 (a leader writes its epoch to its table when it is elected), KAFKA-15608 and KAFKA-20961 (the table
of a log that moves between directories loses the epochs that have no batch).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from replica_audit.model import UNDEFINED_EPOCH, PartitionMetadata
from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.comparison.observed import EventKind, LogEvent
from replica_audit.protocol.epochs.epoch_table import latest_epoch
from replica_audit.protocol.exchange.replica import Replica, held_by_table, not_held
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.rows.codes import Severity
from replica_audit.rows.history import LoggedIncident
from replica_audit.rows.pairs import MissingOffsets, ReplicaVerdict

CLOCKS_DIFFER_MS = 10_000  # two brokers' clocks, and what a broker needs to act on new metadata
_NAMED = 5


class PartitionCode(StrEnum):
    """Codes of findings that are not verdicts on followers."""

    OFFLINE_PARTITION = "offline_partition"
    LEADER_EPOCH_MISSING = "leader_epoch_missing"
    IN_SYNC_OUTSIDE_ISR = "in_sync_outside_isr"
    SEQUENCE_GAP = "sequence_gap"
    HANGING_TRANSACTION = "hanging_transaction"
    OFFSETS_MISSING = "offsets_missing"
    MARKER_MISSING = "transaction_marker_missing"
    TOPIC_ID_CONFLICT = "topic_id_conflict"
    WILL_BECOME_STRAY = "will_become_stray"
    STRAY_HOLDS_RECORDS = "stray_holds_records"
    TORN_AFTER_CLEAN_STOP = "torn_after_clean_stop"
    ENDS_BELOW_HIGH_WATERMARK = "ends_below_high_watermark"
    COMMITTED_RECORDS_GONE = "committed_records_gone"
    FETCH_FAILS_FOREVER = "fetch_fails_forever"
    # by a line of a broker's own log, named as the incidents (protocol/logged_incidents)
    REMOVED_BELOW_HIGH_WATERMARK = "removed_below_high_watermark"
    TRUNCATION_REFUSED = "truncation_refused"


BAD_ENDS = (PartitionCode.TORN_AFTER_CLEAN_STOP, PartitionCode.ENDS_BELOW_HIGH_WATERMARK)
"""Of replicas whose brokers are not to be started as they are."""


class FindingAbout(StrEnum):
    """What a finding is about: a follower against its leader, the leader's own replica, any replica, the partition, or a broker's log."""

    FOLLOWER = "follower"
    REPLICA = "replica"
    LEADER = "leader"
    PARTITION = "partition"
    BROKER_LOG = "broker-log"


class ElectionType(StrEnum):
    """What making a replica the leader would be: clean for a member of the ISR or, where that is empty, of the ELR."""

    CLEAN = "clean"
    UNCLEAN = "unclean"


def election_type(metadata: PartitionMetadata, broker_id: int, *, crashed: bool = False) -> ElectionType | None:
    """What electing a replica would be by the metadata; None where the metadata is not known.

    A member of the ELR alone that crashed is taken off it when it registers (ReplicationControlManager.handleBrokerUncleanShutdown).
    """
    if metadata.leader < 0 and not metadata.no_leader:
        return None
    eligible = metadata.isr or (() if crashed else metadata.elr)
    return ElectionType.CLEAN if broker_id in eligible else ElectionType.UNCLEAN


def last_leader(metadata: PartitionMetadata) -> int | None:
    """Who led last: by the elections of the metadata log, else by the last known ELR, which then holds it alone (KIP-966)."""
    led = next((election.leader_id for election in reversed(metadata.elections) if election.leader_id >= 0), None)
    if led is None and metadata.no_leader and len(metadata.last_known_elr) == 1:
        return metadata.last_known_elr[0]
    return led


def leaderless_since_ms(metadata: PartitionMetadata) -> int | None:
    """When the partition lost its leader, by the metadata log, in milliseconds since the epoch; None if that is not known."""
    last = metadata.elections[-1] if metadata.elections else None
    is_it = last is not None and last.leader_id < 0 and last.leader_epoch == metadata.leader_epoch
    return last.timestamp_ms if last is not None and is_it else None


def was_stopped_in_order(
    metadata: PartitionMetadata, stopped_cleanly: Collection[int], runs: Collection[bool], losing: Collection[int] = ()
) -> bool:
    """Whether nobody leads only because the whole cluster was shut down: starting it elects a leader cleanly, and loses nothing.

    Args:
        metadata: of a partition without a leader.
        stopped_cleanly: the replicas whose copies have the marker of a clean shutdown.
        runs: of every broker of the cluster, as far as it is known, whether it runs.
        losing: the replicas that others follow only by truncating what nobody else holds, or never: one of before an unclean election, say.
    """
    electable = set(metadata.isr or metadata.elr)
    return bool(electable) and electable <= set(stopped_cleanly) and bool(runs) and not any(runs) and not electable & set(losing)


def severity_of_offline(*, stopped: bool) -> Severity:
    """An outage is an error; a cluster that was shut down in order has no leaders, and nothing is wrong with that."""
    return Severity.WARNING if stopped else Severity.ERROR


def offline_sentence(metadata: PartitionMetadata, led: int | None, *, stopped: bool) -> str:
    """The finding of a partition without a leader, in one sentence; `led` is who led last, None if that is not known."""

    def named(brokers: Sequence[int]) -> str:
        return ", ".join(map(str, brokers)) or "none"

    who = f"it has no leader in epoch {metadata.leader_epoch}" if metadata.leader_epoch >= 0 else "nobody leads it"
    last = "" if led is None else f", last leader {led}"
    why = "; the whole cluster was shut down cleanly, and starting it elects a leader cleanly" if stopped else ""
    return f"{who} (by {metadata.source}): ISR {named(metadata.isr)}, ELR {named(metadata.elr)}{last}{why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingEpoch:
    """A live leader whose table lacks the epoch that it leads in.

    `table_epoch` is the last one that the table has, -1 if it has none. `known_epoch` is the leader epoch in the broker's own copy of the
    metadata log, None without one. `is_certain`: the copy cannot be of before the election.
    """

    leader_epoch: int
    table_epoch: int
    known_epoch: int | None
    is_certain: bool

    @property
    def has_not_heard(self) -> bool:
        """Whether the broker's own copy of the metadata log does not have the election yet."""
        return self.known_epoch is not None and self.known_epoch < self.leader_epoch

    @property
    def severity(self) -> Severity:
        """An error where no later copy can explain it."""
        return Severity.ERROR if self.is_certain else Severity.WARNING

    @property
    def reason(self) -> str:
        """The finding in one sentence."""
        table = f"ends at epoch {self.table_epoch}" if self.table_epoch >= 0 else "has no entry"
        what = f"leads in epoch {self.leader_epoch} and runs, but its leader-epoch-checkpoint {table}"
        lost = "the broker lost the entry when the log moved between directories (KAFKA-20961, KAFKA-15608)"
        harm = "a follower that has that epoch then gets OFFSET_OUT_OF_RANGE until records are written"
        if self.has_not_heard:
            return (
                f"{what}: its own copy of the metadata log (epoch {self.known_epoch}) shows that its broker had not heard of the election"
            )
        if self.is_certain:
            return f"{what}, though the copy is of after the election: most likely {lost}; {harm}"
        return f"{what}: either the copy is of before the election (copy it again), or {lost}; {harm}"


def missing_epoch(
    leader: Replica, context: Context, *, began_at_ms: int | None, copied_at_ms: int | None, known_epoch: int | None
) -> MissingEpoch | None:
    """Whether the table of a leader that runs lacks the metadata's leader epoch; None if not, or if it need not have it.

    Args:
        leader: by the metadata.
        context: of its partition.
        began_at_ms: when the epoch began at the latest, in milliseconds since the epoch; None if unknown.
        copied_at_ms: when the leader's replica was copied; None if unknown.
        known_epoch: the leader epoch in the broker's own copy of the metadata log; None without one.
    """
    if not looks_at_table(leader, context):
        return None
    table_epoch = latest_epoch(leader.log.epochs)
    if table_epoch >= context.leader_epoch:
        return None
    is_later = began_at_ms is not None and copied_at_ms is not None and copied_at_ms >= began_at_ms + CLOCKS_DIFFER_MS
    froze_later = leader.frozen and known_epoch is not None and known_epoch >= context.leader_epoch
    has_not_heard = known_epoch is not None and known_epoch < context.leader_epoch
    return MissingEpoch(
        leader_epoch=context.leader_epoch,
        table_epoch=table_epoch,
        known_epoch=known_epoch,
        is_certain=not has_not_heard and (context.simultaneous or is_later or froze_later),
    )


def looks_at_table(leader: Replica, context: Context) -> bool:
    """Whether the leader's table must have its epoch: it runs, its checkpoint was collected, and its version writes it when elected."""
    is_known = context.enters_epoch_at_once and context.leader_epoch > UNDEFINED_EPOCH
    has_table = leader.checkpoint_known and leader.has_epochs  # a format before v2 has no epochs
    return is_known and has_table and bool(leader.alive) and not leader.unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideIsr:
    """A follower that runs and equals its leader, and is not in the ISR. `is_certain`: the metadata is of after both copies."""

    isr: tuple[int, ...]
    is_certain: bool

    @property
    def severity(self) -> Severity:
        """An error where no metadata of another moment can explain it."""
        return Severity.ERROR if self.is_certain else Severity.WARNING

    @property
    def reason(self) -> str:
        """The finding in one sentence."""
        members = ", ".join(map(str, self.isr))
        what = f"equal to its leader, and its broker runs, but the ISR is {members} without it"
        rejected = "the leader rejects its fetches (OFFSET_OUT_OF_RANGE in its server.log: KAFKA-20961, KAFKA-15608)"
        if self.is_certain:
            return f"{what}, and still was after both had been copied: most likely {rejected}"
        return f"{what}: either it had just caught up or the metadata is older than the copies, or {rejected}"


def outside_isr(
    verdict: str, leader: Replica, follower: Replica, metadata: PartitionMetadata, *, fenced: bool, copied_at_ms: int | None
) -> OutsideIsr | None:
    """Whether a live follower equals its live leader and is outside the ISR; None if not.

    Args:
        verdict: on the follower.
        leader: by the metadata.
        follower: of it.
        metadata: what is known last of the partition.
        fenced: whether the follower's broker is fenced: then it may not be in the ISR.
        copied_at_ms: when the later one of the two was copied; None if unknown.
    """
    is_member = follower.broker_id in metadata.isr or follower.broker_id not in metadata.replicas
    is_equal = verdict in (Verdict.IDENTICAL, Verdict.CONSISTENT) and follower.log.log_end_offset == leader.log.log_end_offset
    if not is_equal or is_member or not metadata.isr or fenced:
        return None
    if not all(replica.alive and not replica.frozen and not replica.unreadable for replica in (leader, follower)):
        return None
    known = metadata.known_at_ms
    is_certain = known is not None and copied_at_ms is not None and known >= copied_at_ms + CLOCKS_DIFFER_MS
    return OutsideIsr(isr=metadata.isr, is_certain=is_certain)


def missing_sentence(holes: Sequence[MissingOffsets]) -> str:
    """That offsets are on no replica; `holes` are those of the leader's log, at least one."""
    where = ", ".join(f"{one.first_offset}..{one.end_offset - 1}" for one in holes[:_NAMED])
    where += f" and {len(holes) - _NAMED} more ranges" if len(holes) > _NAMED else ""
    return f"offsets {where} are missing between records of the log, which is not compacted, and no other replica in the input has them"


# What brokers logged about committed records that a truncation removed, truncations that were refused, and unclean elections.
# Sources: UnifiedLog.updateHighWatermarkMetadata (2.8 and later) and truncateTo (4.2), ReplicaFetcherThread.handleOffsetOutOfRange (0.8 to
# 1.0), PartitionRegistration.maybeLogPartitionChange (KRaft), OfflinePartitionLeaderSelector (ZooKeeper, until 1.0).


class IncidentKind(StrEnum):
    """What happened to a partition, by the log of one node."""

    REMOVED_BELOW_HIGH_WATERMARK = PartitionCode.REMOVED_BELOW_HIGH_WATERMARK
    TRUNCATION_REFUSED = PartitionCode.TRUNCATION_REFUSED
    UNCLEAN_ELECTION = "unclean_election"


_KINDS = {
    EventKind.BELOW_HIGH_WATERMARK: IncidentKind.REMOVED_BELOW_HIGH_WATERMARK,
    EventKind.HIGH_WATERMARK_FELL: IncidentKind.REMOVED_BELOW_HIGH_WATERMARK,
    EventKind.TRUNCATION_REFUSED: IncidentKind.TRUNCATION_REFUSED,
    EventKind.UNCLEAN_ELECTION: IncidentKind.UNCLEAN_ELECTION,
}


# a broker truncates what its leader does not hold: below its high watermark committed records are gone
_SEVERITIES = {
    IncidentKind.REMOVED_BELOW_HIGH_WATERMARK: Severity.ERROR,
    IncidentKind.TRUNCATION_REFUSED: Severity.WARNING,
    IncidentKind.UNCLEAN_ELECTION: Severity.NONE,
}


def incidents(events: Iterable[LogEvent]) -> list[LoggedIncident]:
    """The incidents of one partition, each once; none is a finding yet.

    A truncation has up to two lines, and a controller logs an election again whenever it reads the metadata log again, each controller for
    itself: of equal ones the first counts. Two truncations of a broker from one high watermark to one offset are told apart by what it
    logged between them: that it loaded the log, or began to follow.

    Args:
        events: of one topic-partition, by log in the order of its lines.
    """
    found: list[LoggedIncident] = []
    seen: set[tuple[object, ...]] = set()
    change: dict[int | None, int] = {}
    for event in events:
        if event.kind in (EventKind.LOADED, EventKind.BECAME_FOLLOWER, EventKind.FETCHER_ADDED):
            change[event.broker_id] = change.get(event.broker_id, 0) + 1
        kind = _KINDS.get(event.kind)
        if kind is None:
            continue
        refused = kind is IncidentKind.TRUNCATION_REFUSED
        end = event.log_end_offset if refused else event.high_watermark
        if kind is IncidentKind.UNCLEAN_ELECTION:
            same: tuple[object, ...] = (kind, event.leader_id, event.time if event.leader_epoch is None else event.leader_epoch)
        else:
            same = (kind, event.broker_id, event.offset, end, 0 if refused else change.get(event.broker_id, 0))
        if same not in seen:
            seen.add(same)
            found.append(
                LoggedIncident(
                    topic=event.topic,
                    partition=event.partition,
                    broker_id=event.broker_id,
                    kind=str(kind),
                    logged_at=event.time or None,
                    truncation_offset=event.offset,
                    end_offset=end,
                    leader_id=event.leader_id,
                    leader_epoch=event.leader_epoch,
                    severity=str(Severity.NONE),
                    summary=_summary(kind, event, end),
                    path=event.path,
                    line=event.line,
                )
            )
    return found


def incident_rows(events: Iterable[LogEvent], verdicts: Iterable[ReplicaVerdict]) -> Iterator[LoggedIncident]:
    """Decide which incidents of a partition are findings.

    Of a broker's incidents of one kind the last is a finding, and the others are not. Removed records are none where the verdict on this
    broker's replica is about the same truncation, and an unclean election alone is none.

    Args:
        events: the lines about the partition, in the order of the logs.
        verdicts: rows of `replica_verdicts` of the partition.
    """
    found = incidents(events)
    last = {(one.broker_id, one.kind): one for one in found}
    covered = {
        (row.follower_id, row.truncation_offset)
        for row in verdicts
        if row.verdict in (Verdict.COMMITTED_LOSS, Verdict.LOG_MATCHING_VIOLATION)
    }
    for one in found:
        is_covered = one.kind == IncidentKind.REMOVED_BELOW_HIGH_WATERMARK and (one.broker_id, one.truncation_offset) in covered
        is_finding = last[one.broker_id, one.kind] is one and not is_covered
        yield replace(one, severity=str(_SEVERITIES[IncidentKind(one.kind)])) if is_finding else one


def _summary(kind: IncidentKind, event: LogEvent, end: int | None) -> str:
    where = f"according to {event.path or 'server.log'}, line {event.line}"
    when = f" at {event.time}" if event.time else ""
    match kind:
        case IncidentKind.REMOVED_BELOW_HIGH_WATERMARK:
            return (
                f"{where}, broker {event.broker_id} truncated to {event.offset}{when}, below its high watermark {end}: "
                f"offsets {event.offset}..{(end or 0) - 1} had been committed"
            )
        case IncidentKind.TRUNCATION_REFUSED:
            return (
                f"{where}, broker {event.broker_id} exited{when} because it must not truncate from {end} to the log end "
                f"{event.offset} of its leader: a replica outside the ISR was elected, or the leader lost its tail"
            )
        case IncidentKind.UNCLEAN_ELECTION:
            epoch = "" if event.leader_epoch is None else f" in epoch {event.leader_epoch}"
            return f"{where}, broker {event.leader_id} was elected leader{epoch} by an unclean election (logged{when or ' without a date'})"


# What endangers a replica at the end of its log, though nothing there differs from its leader. Sources: LogManager.loadLogs (after a clean
# stop a log is not recovered), LogLoader and LogSegment.append (what is appended then lies behind whatever bytes are there),
# UnifiedLog.maybeIncrementHighWatermark and Partition.maybeAdvanceHighWatermark (a high watermark passes neither the log's end nor that of
# a member of the ISR).

FETCH_FAILS = (
    "its log ends at {offset}, inside one of its leader's batches: it fetches that batch again and again, cannot append it "
    "(UnexpectedAppendOffsetException), and never comes back into the ISR by itself"
)


class FailedFetch(NamedTuple):
    """A fetch that a running follower failed at for good: at `offset`, inside a batch of its leader; its files end at `end`.

    `leader_start` is where the leader's log starts. `is_inside`: its files, too, end inside that batch. `line` is the place of the failure
    in the broker's own log; None: its checkpointed high watermark tells it, which lies beyond the end of its files and inside the batch,
    where a log ends in memory alone, after a truncation.
    """

    offset: int
    end: int
    leader_start: int
    is_inside: bool
    line: str | None

    @property
    def reason(self) -> str:
        """The finding in one sentence."""
        shown = "as its own checkpointed high watermark shows" if self.line is None else f"according to {self.line}"
        if self.end < self.leader_start:
            once_restarted = f"empties its log, and starts again at {self.leader_start}"
        else:
            once_restarted = f"fetches from {self.end}{', which is inside the batch, too' if self.is_inside else ''}"
        return (
            f"its fetcher failed at {self.offset}, {shown}, and its files end at {self.end}: it does not fetch, and stays out of the ISR, "
            f"until its broker restarts; then it {once_restarted}"
        )


class LostEnd(NamedTuple):
    """A log that ends below `reached`, exclusive, up to where its records had been committed or written. `known_by`: whose file says so."""

    broker_id: int
    end: int
    reached: int
    known_by: int

    @property
    def reason(self) -> str:
        """The finding in one sentence."""
        whose = "its own" if self.known_by == self.broker_id else f"broker {self.known_by}'s"
        return (
            f"its log ends at {self.end}, and by {whose} checkpoints it had reached {self.reached}: offsets {self.end}..{self.reached - 1} "
            "are gone from it, or its copy is short; if it is elected, they are lost"
        )


def lost_ends(replicas: Iterable[Replica], *, leader_id: int, electable: Collection[int], agreeing: Collection[int]) -> list[LostEnd]:
    """The replicas that lack what they held, as far as no copy of another moment can explain it.

    By its own checkpoints: of a broker that was stopped cleanly, or that can be elected cleanly. One that crashed may have lost what it had
    not flushed, and fetches it again: of that only what, by its table, no other one holds. By the high watermark of another one: of
    those that can be elected cleanly. Not of a log that recovery ends at a damaged batch: its copy is not short, and what recovery takes
    is told apart.

    Args:
        replicas: of a partition, those that can be read.
        leader_id: who leads, or is taken to.
        electable: who can be elected cleanly, by metadata of after the brokers did their last; empty if that is not known.
        agreeing: the followers whose logs are clean prefixes of the leader's.
    """
    usable = {replica.broker_id: replica for replica in replicas if not replica.unreadable}
    alike = [usable[broker] for broker in (leader_id, *agreeing) if broker in usable and usable[broker].lost_end is None]
    committed, known_by = max(((one.high_watermark or 0, one.broker_id) for one in alike if one.is_at_rest), default=(0, -1))
    found = []
    for broker, replica in sorted(usable.items()):
        end, own, is_electable = replica.log.log_end_offset, replica.lost_end, broker in electable
        may_be = not (replica.stopped_cleanly or is_electable or replica.alive)  # a crash may have taken it
        if replica.log.recovery_cut is not None:
            continue
        if own is not None and (not may_be or (replica.alive is False and _lacks(usable, leader_id, replica, own))):
            found.append(LostEnd(broker, end, own, broker))
        elif is_electable and replica.is_at_rest and broker in agreeing and end < committed:
            found.append(LostEnd(broker, end, committed, known_by))
    return found


def _lacks(usable: Mapping[int, Replica], leader_id: int, replica: Replica, reached: int) -> bool:
    """Whether a replica held offsets beyond its end, by its table, that no other one has in the same epochs.

    Of the epoch in which somebody leads now nobody held more than the leader: that high watermark is of before a truncation.
    """
    others = [one for one in usable.values() if one is not replica]
    newest = latest_epoch(usable[leader_id].log.epochs) if leader_id in usable and leader_id != replica.broker_id else None
    held = held_by_table(replica, replica.log.log_end_offset, reached)
    return bool(not_held([span for span in held if newest is None or span.leader_epoch < newest], others))


def torn_sentence(path: str, byte_offset: int | None, detail: str) -> str:
    """The finding about an end that is no batch, of a broker that was stopped cleanly."""
    return (
        f"its broker was stopped cleanly, and {path} ends in bytes that are no whole batch (byte {byte_offset}: {detail}): the broker does "
        "not recover the log when it starts, and what it appends behind them cannot be read"
    )


def gone_sentence(broker_id: int, end: int, committed: int) -> str:
    """The finding about records that had been committed and that no log holds."""
    return (
        f"the high watermark in the checkpoint of broker {broker_id} is {committed}, and no replica's log reaches beyond {end}: offsets "
        f"{end}..{committed - 1} had been committed and are gone"
    )


def electable_by(
    isr: Collection[int], elr: Collection[int], leader_copy_isr: Collection[int] | None, states: Mapping[int, str]
) -> set[int]:
    """Who can be elected cleanly, as far as metadata of after the brokers' last doings says it; empty if there is none.

    Args:
        isr: by the metadata known last.
        elr: likewise.
        leader_copy_isr: by the leader's own copy of the metadata log, which is of the moment of its files; None without one.
        states: of the brokers by the metadata; of one that it sees run it may be older than its files.
    """
    if leader_copy_isr is not None:
        return set(leader_copy_isr) or set(elr)
    members = set(isr) or set(elr)
    return members if all(states.get(broker) in ("down", "paused", "stopped") for broker in members) else set()
