"""The transactions that are open at the end of the leader's log → rows of `open_transactions`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote

from replica_audit.errors import visible
from replica_audit.model import PartitionMetadata, ScannedSegment, SegmentFile, TransactionState
from replica_audit.partition.known.known_partition import KnownPartition, UnreadBatchesError
from replica_audit.partition.replicas.leader_epochs import utc
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.cluster.leadership import INFERRED, Leadership
from replica_audit.protocol.epochs.epoch_table import latest_epoch
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
from replica_audit.protocol.transactions.segment_producers import producers_of_log
from replica_audit.protocol.verdict.partition_findings import CLOCKS_DIFFER_MS
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.tables.pairs import ReplicaVerdict
from replica_audit.tables.transactions import OpenTransactionRow, TransactionElsewhere

_TOLD = 5  # of transactions, and of groups
_WHY = {
    HangsBecause.MARKER_REMOVED: "its marker was written to another replica, and the leader's log is without it",
    HangsBecause.COORDINATOR_WENT_ON: "its coordinator completed it and has gone on to another epoch, and the leader's log has no marker",
    HangsBecause.PAST_TIMEOUT: "its coordinator knows nothing of it, and its producer wrote last longer ago than any transaction may take",
}
_CUTS = (Verdict.COMMITTED_LOSS, Verdict.STALE_TAIL)  # a copy of another moment cannot explain what they cut


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsKnown:
    """What the rows are made of: the leader and the other replicas, their segments, and what groups and coordinators say."""

    known: KnownPartition
    metadata: PartitionMetadata
    leadership: Leadership
    compared: Mapping[int, Loaded]
    replicas: Mapping[int, Replica]

    def rows(self, verdicts: Sequence[ReplicaVerdict], *, simultaneous: bool) -> tuple[OpenTransactionRow, ...] | None:
        """A row for each transaction that is open on the leader; None where that is not known.

        Args:
            verdicts: on its followers.
            simultaneous: whether all copies were taken at one instant.
        """
        leader = self.compared.get(self.leadership.leader_id)
        opened = self.opened(leader) if leader is not None else None
        if leader is None or leader.log is None or opened is None:
            return None
        stable = last_stable_offset(opened, leader.log.log_start_offset, leader.log.log_end_offset)
        waiting = tuple(sorted({commit.group_id for commit in self.known.commits if commit.offset == stable}))
        return tuple(self._row(one, stable, waiting, verdicts, simultaneous=simultaneous) for one in opened)

    def _row(
        self, one: OpenTransaction, stable: int, waiting: tuple[str, ...], verdicts: Sequence[ReplicaVerdict], *, simultaneous: bool
    ) -> OpenTransactionRow:
        state = state_of(one, self.known.transactions)
        elsewhere = tuple(self._elsewhere(one, verdicts))
        why: HangsBecause | None = None
        if self.leadership.source != INFERRED and one.is_certain:
            why = hangs_because(
                one,
                state,
                (self.known.topic, self.known.partition),
                marker_is_removed=any(other.is_removed for other in elsewhere),
                state_is_earlier=simultaneous or self._is_earlier(state),
                known_until_ms=self.compared[self.leadership.leader_id].files.captured_at_ms,
            )
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
            waiting_groups=waiting,
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
        captured = self.compared[self.leadership.leader_id].files.captured_at_ms
        copied_after = max([*elected, *([] if captured is None else [captured])], default=-1)
        return state.last_update_ms + CLOCKS_DIFFER_MS <= copied_after

    def opened(self, loaded: Loaded) -> tuple[OpenTransaction, ...] | None:
        """What is open at the end of a replica's log; None if that is not known."""
        if loaded.log is None or loaded.unreadable or loaded.log.recovery_cut is not None or loaded.log.missing:
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
        scanned = self._scanned(loaded)
        found = [scanned[file].segment.producers for file in loaded.files_in_log]
        spans = [span for one in found if one for span in one.spans if span.producer_id == producer_id]
        return max((span.last_marker_offset for span in spans), default=-1)

    def _scanned(self, loaded: Loaded) -> dict[SegmentFile, ScannedSegment]:
        return {scan.file: scan for broker, scan in self.known.segments if broker == loaded.broker_id and scan.file in loaded.scanned}

    def _elsewhere(self, opened: OpenTransaction, verdicts: Sequence[ReplicaVerdict]) -> Iterator[TransactionElsewhere]:
        for verdict in verdicts:
            follower, shared = self.compared.get(verdict.follower_id), verdict.common_prefix_end_offset
            theirs = self.opened(follower) if follower is not None else None
            if follower is None or theirs is None or shared is None:
                continue  # what its log tells is not known
            if shared <= opened.first_offset:
                yield TransactionElsewhere(broker_id=verdict.follower_id, standing="not-there", marker_offset=None, is_removed=None)
            elif self.last_marker(follower, opened.producer_id) <= opened.first_offset:
                yield TransactionElsewhere(broker_id=verdict.follower_id, standing="open", marker_offset=None, is_removed=None)
            else:
                marker = _marker(follower, opened)
                cut = verdict.truncation_offset if verdict.verdict in _CUTS else None
                removed = cut is not None and marker is not None and marker >= cut
                yield TransactionElsewhere(broker_id=verdict.follower_id, standing="finished", marker_offset=marker, is_removed=removed)


def hanging_summary(rows: Sequence[OpenTransactionRow]) -> str | None:
    """What hangs in a partition, and the command that ends it, in one sentence; None if nothing is known to."""
    hanging = [row for row in rows if row.hangs_because]
    if not hanging:
        return None
    first, more = hanging[0], len(hanging) - 1
    where = ", ".join(f"{row.first_offset} (producer {row.producer_id}, epoch {row.producer_epoch})" for row in hanging[:_TOLD])
    where += f" and {len(hanging) - _TOLD} more" if len(hanging) > _TOLD else ""
    what = f"{len(hanging)} transactions hang, from offsets {where}" if more else f"the transaction from offset {where} hangs"
    groups = f" ({', '.join(first.waiting_groups[:_TOLD])} among them)" if first.waiting_groups else ""
    why = _WHY[HangsBecause(first.hangs_because or "")]
    ends = f"kafka-transactions.sh --bootstrap-server BROKER:PORT abort --topic {quote(first.topic)} --partition {first.partition}"
    ends += f" --start-offset {first.first_offset}" + (", then the same with the other offsets" if more else "")
    stands = f"consumers with read_committed get no further than the last stable offset {first.last_stable_offset}{groups}"
    which = "of the first, " if more else ""
    return f"{what}: {which}{why}; {stands}; to end it: {ends}{_to_be_saved(hanging)}"


def _to_be_saved(hanging: Sequence[OpenTransactionRow]) -> str:
    """Which of the transactions their producers may take for committed."""
    committed = [row for row in hanging if may_be_committed(row.producer_epoch, row.coordinator_state, row.coordinator_epoch)]
    if not committed:
        return ""
    where = ", ".join(f"{row.first_offset} ({visible(row.transactional_id or '')})" for row in committed[:_TOLD])
    where += f" and {len(committed) - _TOLD} more" if len(committed) > _TOLD else ""
    return (
        f". First save the records of the one from offset {where}: its coordinator says CompleteCommit, so its producer takes them for "
        "committed, and once it is aborted read_committed consumers never see them"
    )


def _marker(follower: Loaded, opened: OpenTransaction) -> int | None:
    """Where a replica's log ends a transaction; None if its batches cannot be read again, or no longer tell who wrote them."""
    try:
        for batch in follower.batches_from(opened.first_offset):
            if batch.is_control and batch.producer_id == opened.producer_id and batch.base_offset > opened.first_offset:
                return batch.base_offset
    except UnreadBatchesError:
        pass
    return None
