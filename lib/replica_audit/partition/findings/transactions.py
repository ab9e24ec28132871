"""The transactions that are open at the end of the leader's log → rows of `open_transactions`, and the groups that wait for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from replica_audit.formats.segment.record_batch import LAST_OFFSET
from replica_audit.model import CommittedOffset, EndMarker, PartitionMetadata, ScannedSegment, SegmentFile, StoredBatch, TransactionState
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import KnownPartition, UnreadBatchesError
from replica_audit.partition.replicas.copied_at import copied_at_ms
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.cluster.leadership import INFERRED, Leadership
from replica_audit.protocol.comparison.compaction import LONGEST_COPY_MS
from replica_audit.protocol.epochs.epoch_table import latest_epoch
from replica_audit.protocol.epochs.lineage import first_difference
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.transactions.open_transactions import (
    HangsBecause,
    OpenTransaction,
    hangs_because,
    last_stable_offset,
    may_be_committed,
    open_transactions,
    state_of,
)
from replica_audit.protocol.transactions.producer_spans import producers_of_log
from replica_audit.protocol.verdict.partition_findings import CLOCKS_DIFFER_MS
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.rows.columns import utc
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.records import OpenTransactionRow, TransactionElsewhere

_NEAR = 1000  # offsets below it in which control batches are looked for: one for each transaction that ended there


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsAtStableOffset:
    """Groups by name: those that have read all below it, those that have not yet, and those that have committed beyond it."""

    waiting: tuple[str, ...]
    approaching: tuple[str, ...]
    beyond: tuple[str, ...]


def groups_at(stable_offset: int, leader: Loaded, commits: Sequence[CommittedOffset]) -> GroupsAtStableOffset:
    """Where groups stand that committed an offset inside the leader's log.

    A consumer passes over control batches without committing: a group whose committed offset is followed by nothing else up to the last
    stable offset has read all that it gets.

    Args:
        stable_offset: of the leader.
        leader: with a log.
        commits: of the groups; those of an earlier topic of the same name are left out.
    """
    if leader.log is None:
        return GroupsAtStableOffset(waiting=(), approaching=(), beyond=())
    start, end = leader.log.log_start_offset, leader.log.log_end_offset
    own = [one for one in commits if start <= one.offset <= end and not _of_another_topic(one, leader.files.topic_id)]
    near = [one.offset for one in own if stable_offset - _NEAR <= one.offset < stable_offset]
    data_end = _data_end(leader, min(near), stable_offset) if near else stable_offset
    return GroupsAtStableOffset(
        waiting=_names(one for one in own if data_end <= one.offset <= stable_offset),
        approaching=_names(one for one in own if one.offset < data_end),
        beyond=_names(one for one in own if one.offset > stable_offset),
    )


def _of_another_topic(commit: CommittedOffset, topic_id: str | None) -> bool:
    return bool(commit.topic_id and topic_id and commit.topic_id != topic_id)


def _names(commits: Iterable[CommittedOffset]) -> tuple[str, ...]:
    return tuple(sorted({commit.group_id for commit in commits}))


def _data_end(leader: Loaded, first: int, stable_offset: int) -> int:
    """The offset behind the last record from `first` on and below the last stable offset; that itself where it cannot be read again."""
    end = first
    try:
        for batch in leader.batches_from(first):
            if batch.base_offset >= stable_offset:
                return end
            if not batch.is_control and batch.last_offset >= first:
                end = batch.last_offset + 1
    except UnreadBatchesError:
        pass
    return stable_offset


_COMMITTED, _ABORTED = "committed", "aborted"
_ABORT_FORMS = {True: "start-offset", False: "producer-id", None: None}
DELETE_RETENTION_MS = 86_400_000  # where the topic's is unknown, Kafka's default
_NOT_COMPARED = (Verdict.UNREADABLE, Verdict.STALE_TOPIC_ID, Verdict.INCONCLUSIVE)
_CUTS = (Verdict.COMMITTED_LOSS, Verdict.STALE_TAIL)  # a copy of another moment cannot explain what they cut


class Ended(NamedTuple):
    """The marker that ends a transaction: where it is, and what it says; None for what can no longer be read."""

    offset: int | None
    marker: EndMarker | None


_NOT_READ = Ended(None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsKnown:
    """What the rows are made of: the leader and the other replicas, their segments, and what groups and coordinators say."""

    known: KnownPartition
    metadata: PartitionMetadata
    leadership: Leadership
    compared: Mapping[int, Loaded]
    replicas: Mapping[int, Replica]
    _opened: dict[tuple[int, bool], tuple[OpenTransaction, ...] | None] = field(default_factory=dict)  # by broker, as the others
    _open_producers: dict[int, frozenset[int]] = field(default_factory=dict)
    _last_markers: dict[int, dict[int, int]] = field(default_factory=dict)
    _ends: dict[tuple[int, bool], Mapping[int, Ended]] = field(default_factory=dict)

    def rows(self, verdicts: Sequence[ReplicaVerdict], cluster: ClusterFacts) -> tuple[OpenTransactionRow, ...] | None:
        """A row for each transaction that is open on the leader; None where that is not known.

        Args:
            verdicts: on its followers.
            cluster: whether all copies were taken at one instant, and what its brokers can be asked for.
        """
        leader = self.compared.get(self.leadership.leader_id)
        opened = self.opened(leader) if leader is not None else None
        if leader is None or leader.log is None or opened is None:
            return None
        if not opened:
            return ()
        stable = last_stable_offset(opened, leader.log.log_start_offset, leader.log.log_end_offset)
        groups = groups_at(stable, leader, self.known.commits)
        states: dict[int, list[TransactionState]] = {}
        for state in self.known.transactions:
            for producer_id in {state.producer_id, state.previous_producer_id, state.next_producer_id}:
                states.setdefault(producer_id, []).append(state)
        return tuple(
            self._row(one, leader, stable, groups, verdicts, cluster, state_of(one, states.get(one.producer_id, ()))) for one in opened
        )

    def _row(
        self,
        one: OpenTransaction,
        leader: Loaded,
        stable: int,
        groups: GroupsAtStableOffset,
        verdicts: Sequence[ReplicaVerdict],
        cluster: ClusterFacts,
        state: TransactionState | None,
    ) -> OpenTransactionRow:
        elsewhere = tuple(self._elsewhere(one, verdicts))
        why: HangsBecause | None = None
        if self.leadership.source != INFERRED and one.is_certain:
            why = hangs_because(
                one,
                state,
                (self.known.topic, self.known.partition),
                marker_is_removed=any(other.is_removed for other in elsewhere),
                state_is_earlier=cluster.simultaneous or self._is_earlier(state),
                known_until_ms=copied_at_ms(leader.broker_id, self.compared),
            )
        commits = [other.outcome == _COMMITTED for other in elsewhere if other.outcome]
        return OpenTransactionRow(
            topic=self.known.topic,
            partition=self.known.partition,
            leader_id=self.leadership.leader_id,
            leader_source=self.leadership.source,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            first_offset=one.first_offset,
            last_offset=one.last_offset,
            began_at=utc(one.first_timestamp_ms),
            last_written_at=utc(one.last_timestamp_ms),
            last_stable_offset=stable,
            elsewhere=elsewhere,
            transactional_id=state.transactional_id if state else None,
            coordinator_state=state.state if state else None,
            coordinator_epoch=state.producer_epoch if state else None,
            timeout_ms=state.timeout_ms if state else None,
            hangs_because=str(why) if why else None,
            waiting_groups=groups.waiting,
            may_be_committed=may_be_committed(one, state, commits),
            coordinator_producer_id=state.producer_id if state else None,
            abort_form=_ABORT_FORMS[cluster.describes_producers],
            marker_coordinator_epoch=self._last_coordinator_epoch(leader, one.producer_id) if why else None,
            approaching_groups=groups.approaching,
            groups_beyond=groups.beyond,
        )

    def _is_earlier(self, state: TransactionState | None) -> bool:
        """Whether a state was written before the leader's log was copied, whatever its clock."""
        if state is None or state.last_update_ms < 0:
            return False
        leader = self.replicas[self.leadership.leader_id]
        if leader.frozen:  # no coordinator completes a transaction while it waits for this leader to write a marker
            return True
        epoch = self.metadata.leader_epoch
        elected = [one.timestamp_ms for one in self.metadata.elections if one.leader_epoch == epoch <= latest_epoch(leader.log.epochs)]
        captured = copied_at_ms(self.leadership.leader_id, self.compared)
        copied_after = max([*elected, *([] if captured is None else [captured])], default=-1)
        return state.last_update_ms + CLOCKS_DIFFER_MS <= copied_after

    def opened(self, loaded: Loaded, *, may_have_holes: bool = False) -> tuple[OpenTransaction, ...] | None:
        """What is open at the end of a replica's log; None if that is not known. `may_have_holes`: its cleaner makes some of them."""
        key = loaded.broker_id, may_have_holes
        if key not in self._opened:
            self._opened[key] = self._found_open(loaded, may_have_holes=may_have_holes)
        return self._opened[key]

    def _found_open(self, loaded: Loaded, *, may_have_holes: bool) -> tuple[OpenTransaction, ...] | None:
        if loaded.log is None or not loaded.has_whole_log or loaded.log.recovery_cut is not None:
            return None
        if loaded.log.missing and not may_have_holes:
            return None
        scanned = self._scanned(loaded)
        found = producers_of_log(scanned[file].segment.producers for file in loaded.files_in_log)
        opened, start = open_transactions(found), loaded.log.log_start_offset
        if opened is None or all(one.last_offset >= start for one in opened):
            return opened
        runs = self.replicas[loaded.broker_id].alive if loaded.broker_id in self.replicas else None
        told = ((one, True if one.last_offset >= start else loaded.remembers(one, runs=runs)) for one in opened)
        return tuple(replace(one, is_certain=bool(known)) for one, known in told if known is not False)

    def last_marker(self, loaded: Loaded, producer_id: int) -> int:
        """The last marker of a producer in a replica's log; -1 if there is none."""
        last = self._last_markers.get(loaded.broker_id)
        if last is None:
            last, scanned = self._last_markers.setdefault(loaded.broker_id, {}), self._scanned(loaded)
            for found in (scanned[file].segment.producers for file in loaded.files_in_log):
                for span in found.spans if found else ():
                    last[span.producer_id] = max(last.get(span.producer_id, -1), span.last_marker_offset)
        return last.get(producer_id, -1)

    def without_markers(self, verdicts: Sequence[ReplicaVerdict], *, simultaneous: bool) -> Iterator[MarkerMissing]:
        """Transactions that are open in a follower's log for good: they have ended in the leader's, below what the follower fetches next.

        Not where the marker may have gone between the copies of two segments: a cleaner keeps it for `delete.retention.ms` at least once
        the records of its transaction are gone (CleanedTransactionMetadata).

        Args:
            verdicts: on the followers.
            simultaneous: whether all copies were taken at one instant.
        """
        leader = self.compared.get(self.leadership.leader_id)
        if leader is None or leader.log is None:
            return
        is_copy_whole = bool(self.metadata.compacted) and (simultaneous or all(one.alive is False for one in self.replicas.values()))
        still_open = self.opened(leader, may_have_holes=is_copy_whole)
        if still_open is None:
            return
        retention = DELETE_RETENTION_MS if self.metadata.delete_retention_ms is None else self.metadata.delete_retention_ms
        goes_on = {one.producer_id: one.first_offset for one in still_open}
        for verdict in verdicts:
            follower = self.compared.get(verdict.follower_id)
            replica = self.replicas.get(verdict.follower_id)
            if follower is None or follower.log is None or replica is None or verdict.verdict in _NOT_COMPARED:
                continue
            opened = self.opened(follower, may_have_holes=is_copy_whole) or ()
            if replica.alive is not False and not simultaneous and retention < LONGEST_COPY_MS:
                continue
            end = follower.log.log_end_offset if verdict.truncation_offset is None else verdict.truncation_offset
            ended = [one for one in opened if one.is_certain and goes_on.get(one.producer_id, one.last_offset + 1) > one.last_offset]
            marked = {one.producer_id: one.last_offset + 1 for one in ended if self.last_marker(leader, one.producer_id) > one.last_offset}
            ends = _ends_of(leader, marked)
            for one in ended:
                if self._ended_below(leader, one, end, ends.get(one.producer_id, _NOT_READ) if one.producer_id in marked else None):
                    yield MarkerMissing(verdict.follower_id, one)

    def _ended_below(self, leader: Loaded, opened: OpenTransaction, end: int, ended: Ended | None) -> bool:
        """Whether a transaction, which is not open in the leader's log, ended there below an offset, exclusive; `ended`: by a marker."""
        if ended is not None:
            return ended.offset is not None and ended.offset < end
        cleaned = self.replicas[leader.broker_id].cleaner_offset if leader.broker_id in self.replicas else None
        return opened.last_offset < end and cleaned is not None and cleaned <= end  # the leader's cleaner took its records and its marker

    def _scanned(self, loaded: Loaded) -> dict[SegmentFile, ScannedSegment]:
        return {scan.file: scan for broker, scan in self.known.segments if broker == loaded.broker_id and scan.file in loaded.scanned}

    def _elsewhere(self, opened: OpenTransaction, verdicts: Sequence[ReplicaVerdict]) -> Iterator[TransactionElsewhere]:
        for verdict in verdicts:
            follower, shared = self.compared.get(verdict.follower_id), verdict.common_prefix_end_offset
            cut = verdict.truncation_offset if verdict.verdict in _CUTS else None
            if verdict.verdict == Verdict.UNREADABLE or self.compared[self.leadership.leader_id].unreadable:
                shared, cut = self._by_batches(verdict.follower_id)
            theirs = self.opened(follower) if follower is not None else None
            if follower is None or theirs is None or shared is None:
                continue  # what its log tells is not known
            is_marked = self.last_marker(follower, opened.producer_id) > opened.first_offset
            is_open = opened.producer_id in self._still_open(follower.broker_id, theirs)
            is_cleaned = not is_marked and not is_open  # of an abort that was cut since
            if shared <= opened.first_offset or is_cleaned:
                yield TransactionElsewhere(broker_id=verdict.follower_id, standing="not-there", marker_offset=None, is_removed=None)
            elif not is_marked:
                yield TransactionElsewhere(broker_id=verdict.follower_id, standing="open", marker_offset=None, is_removed=None)
            else:
                offset, marker = self._end_elsewhere(follower, opened.producer_id)
                yield TransactionElsewhere(
                    broker_id=verdict.follower_id,
                    standing="finished",
                    marker_offset=offset,
                    is_removed=cut is not None and offset is not None and offset >= cut,
                    outcome=None if marker is None else _COMMITTED if marker.is_commit else _ABORTED,
                )

    def _still_open(self, broker_id: int, opened: Sequence[OpenTransaction]) -> frozenset[int]:
        """The producers whose transactions are open at the end of a replica's log."""
        if broker_id not in self._open_producers:
            self._open_producers[broker_id] = frozenset(one.producer_id for one in opened)
        return self._open_producers[broker_id]

    def _end_elsewhere(self, follower: Loaded, producer_id: int) -> Ended:
        """What ends in a follower's log the transaction of a producer that is open in the leader's: of all producers in one pass."""
        key = follower.broker_id, False
        if key not in self._ends:
            opened = self.opened(self.compared[self.leadership.leader_id]) or ()
            marked = (one for one in opened if self.last_marker(follower, one.producer_id) > one.first_offset)
            self._ends[key] = _ends_of(follower, {one.producer_id: one.first_offset + 1 for one in marked})
        return self._ends[key].get(producer_id, _NOT_READ)

    def _by_batches(self, follower_id: int) -> tuple[int | None, int | None]:
        """Up to where a follower agrees with the leader, and where the two hold other epochs, by their batches alone."""
        pair = [self.replicas.get(broker) for broker in (self.leadership.leader_id, follower_id)]
        logs = [self.compared.get(broker) for broker in (self.leadership.leader_id, follower_id)]
        leader, follower = pair
        if leader is None or follower is None or not all(log is not None and log.has_whole_log for log in logs):
            return None, None
        start = max(replica.log.log_start_offset for replica in (leader, follower))
        end = min(replica.log.log_end_offset for replica in (leader, follower))
        found = first_difference(leader.history, follower.history, start, end, gaps_count=False)
        return (end, None) if found is None else (found.first_offset, found.first_offset)

    def _last_coordinator_epoch(self, leader: Loaded, producer_id: int) -> int | None:
        """The coordinator epoch of a producer's last marker in the leader's log; -1 if it has none, None if that cannot be read."""
        if self.last_marker(leader, producer_id) < 0:
            return -1
        key = leader.broker_id, True
        if key not in self._ends:
            last = {one.producer_id: self.last_marker(leader, one.producer_id) for one in self.opened(leader) or ()}
            self._ends[key] = _ends_of(leader, {producer: offset for producer, offset in last.items() if offset >= 0})
        marker = self._ends[key].get(producer_id, _NOT_READ).marker
        return None if marker is None else marker.coordinator_epoch


class MarkerMissing(NamedTuple):
    """A transaction that has ended in the leader's log, and whose marker a follower will never have."""

    follower_id: int
    opened: OpenTransaction


def hanging_of(rows: Sequence[OpenTransactionRow]) -> tuple[OpenTransactionRow, ...]:
    """Those that are known to hang."""
    return tuple(row for row in rows if row.hangs_because)


def _ends_of(loaded: Loaded, wanted: Mapping[int, int]) -> dict[int, Ended]:
    """By producer the first of its markers from an offset on; those that can no longer be read are left out."""
    found: dict[int, Ended] = {}
    try:
        for item in loaded.stored_from(min(wanted.values())) if wanted else ():
            if not isinstance(item, StoredBatch) or not item.header.is_control or item.header.producer_id in found:
                continue
            if item.header.base_offset >= wanted.get(item.header.producer_id, LAST_OFFSET):
                found[item.header.producer_id] = Ended(item.header.base_offset, item.marker() if item.marker else None)
                if len(found) == len(wanted):
                    break
    except UnreadBatchesError:
        pass
    return found
