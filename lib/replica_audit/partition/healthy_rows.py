"""The rows of partitions that are proven healthy, as `PartitionAudit` makes them: what each says follows from the proof."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from replica_audit.frozen import once
from replica_audit.model import UNDEFINED_EPOCH
from replica_audit.partition.findings.roles import Reach, role_rows
from replica_audit.partition.healthy import Candidate, Healthy, KnownReplica
from replica_audit.partition.pairs.pair import PairKeys, lookup_rows, uncut_rows, verdict_row
from replica_audit.partition.replicas.replica_rows import epoch_columns, leader_epoch_rows, segment_rows
from replica_audit.protocol.cluster.leadership import Leadership, farthest_copies
from replica_audit.protocol.epochs.checkpoint_repair import EpochDifference, ReconciledEpoch
from replica_audit.protocol.epochs.epoch_table import EpochTable, table
from replica_audit.protocol.exchange.replica import ReplicaState
from replica_audit.protocol.verdict.reasons import clean_prefix, same_over_all
from replica_audit.protocol.verdict.verdict import Judgement, Verdict
from replica_audit.rows import AuditedPartition
from replica_audit.rows.blocks import RowBlock
from replica_audit.rows.codes import Protocol
from replica_audit.rows.columns import hints_of, utc
from replica_audit.rows.findings import CheckedPartition
from replica_audit.rows.pairs import EpochEndOffset, ReplicaVerdict, TruncationPoint
from replica_audit.rows.replicas import EpochStartOffset, ReplicaLog, ReplicaRole

# columns of `replica_logs` that the small files of a replica tell
_OF_FILES = (
    *("topic", "partition", "log_dir", "directory", "topic_id", "state", "high_watermark", "recovery_point", "cleaner_offset"),
    *("checkpoint_state", "checkpoint_sha256"),
)


class _Pair(NamedTuple):
    """A follower with its leader."""

    of: Candidate
    follower: KnownReplica

    @property
    def keys(self) -> PairKeys:
        return PairKeys(self.of.known.topic, self.of.known.partition, self.of.told.leader, self.follower.broker_id)

    @property
    def kind(self) -> tuple[str, Protocol, bool, bool, int]:
        """What its verdict depends on, as of `_verdict`."""
        of, leader = self.of, self.of.leader.sound_log
        return of.told.source, of.cluster.applies, of.compacted, bool(leader.epochs), leader.end - self.follower.end


def healthy_rows(found: Sequence[Healthy], *, every_row: bool) -> AuditedPartition:
    """Every row about some healthy partitions of one cluster.

    Args:
        found: at least one.
        every_row: also those that only say, epoch by epoch, that nothing is cut.
    """
    partitions = [one.of for one in found]
    pairs = [_Pair(of, one) for of in partitions for one in of.replicas if one is not of.leader]
    verdicts = _verdict_rows(pairs)
    points: list[TruncationPoint] = []
    lookups: list[EpochEndOffset] = []
    replicas = {id(one.of): one.replicas for one in found}
    for pair in pairs if every_row else ():
        of_partition = replicas[id(pair.of)]
        sides = of_partition[pair.of.told.leader].as_leader(), of_partition[pair.follower.broker_id].as_follower()
        points += uncut_rows(pair.keys, pair.of.told.source, pair.of.cluster.applies, *sides)
        lookups += lookup_rows(pair.keys, *sides)
    return AuditedPartition(
        cluster_id=partitions[0].known.cluster_id,
        replica_logs=_log_rows([one for of in partitions for one in of.replicas]),
        segment_epochs=segment_rows((of.known.topic, of.known.partition, of.known.segments) for of in partitions),
        epoch_start_offsets=_epoch_rows(partitions),
        epoch_end_offsets=lookups,
        truncation_points=points,
        replica_verdicts=verdicts,
        replica_roles=[row for of in partitions for row in _role_rows(of)],
        leader_epochs=[
            row
            for one in found
            if one.replicas
            for row in leader_epoch_rows(one.of.told, one.replicas[one.of.told.leader], list(one.replicas.values()))
        ],
        consumer_impacts=[row for one in found for row in one.impacts],
        checked=[_checked(of) for of in partitions],
    )


def _log_rows(replicas: Sequence[KnownReplica]) -> RowBlock[ReplicaLog]:
    """Rows of `replica_logs`: each log is loaded as it is, and nothing in it has to be corrected."""
    made = RowBlock(ReplicaLog)
    files, logs = [one.files for one in replicas], [one.sound_log for one in replicas]
    looks = [one.second_look for one in files]
    columns: dict[str, list[Any]] = {name: list(map(attrgetter(name), files)) for name in _OF_FILES}
    columns |= {name: list(map(attrgetter(name), logs)) for name in ("batch_count", "record_count", "size_bytes")}
    columns |= {
        "broker_id": [one.broker_id for one in replicas],
        "log_start_offset": [log.start for log in logs],
        "log_end_offset": [log.end for log in logs],
        "last_epoch": [log.epochs[-1].epoch if log.epochs else UNDEFINED_EPOCH for log in logs],
        "captured_at": [utc(one.captured_at_ms) for one in files],
        "crcs_verified_at": [utc(one.verified_at_ms) for one in files],
        "looked_again_at": [None if look is None else utc(look.looked_at_ms) for look in looks],
        "later_log_end_offset": [None if look is None else look.log_end_offset for look in looks],
        "broker_ran": [one.alive for one in replicas],
    }
    made.add(len(replicas), dict.fromkeys(made.columns), columns)
    return made


def _epoch_rows(partitions: Iterable[Candidate]) -> RowBlock[EpochStartOffset]:
    made = RowBlock(EpochStartOffset)
    for of in partitions:
        led_by = {election.leader_epoch: election.leader_id for election in of.told.elections}
        for one in of.replicas:
            columns = _table_columns(table(one.files.epochs), one.sound_log.epochs, one.end)
            led = {"leader_id": list(map(led_by.get, columns["leader_epoch"]))} if led_by else {}
            same = {"topic": of.known.topic, "partition": of.known.partition, "broker_id": one.broker_id, "leader_id": None}
            made.add(len(columns["leader_epoch"]), same, {**columns, **led})
    return made


@once
def _table_columns(in_effect: EpochTable, of_batches: EpochTable, end: int) -> Mapping[str, Sequence[Any]]:
    """The columns of a table in effect that is that of the batches, or has one epoch more, which begins at the log end."""
    ends = [*(entry.start_offset for entry in in_effect[1:]), end]
    return epoch_columns(
        [
            ReconciledEpoch(epoch, start, until, start, start, True, None)
            if place < len(of_batches)
            else ReconciledEpoch(epoch, start, until, start, None, True, EpochDifference.TRIVIAL_EPOCH)
            for place, ((epoch, start), until) in enumerate(zip(in_effect, ends, strict=False))
        ]
    )


def _role_rows(of: Candidate) -> Iterator[ReplicaRole]:
    leadership = Leadership(of.told.leader, of.told.source)
    reaches = {one.broker_id: Reach(one.end, one.files.high_watermark) for one in of.replicas}
    return role_rows(of.told, leadership, reaches, farthest_copies(of.known.claims), of.cluster, ())


def _verdict_rows(pairs: Iterable[_Pair]) -> RowBlock[ReplicaVerdict]:
    made = RowBlock(ReplicaVerdict)
    for kind, alike in groupby(pairs, attrgetter("kind")):
        some = list(alike)
        keys = zip(*(pair.keys for pair in some), strict=True)
        columns: dict[str, Sequence[Any]] = dict(zip(PairKeys._fields, keys, strict=True))
        made.add(len(some), _verdict(*kind), {**columns, "common_prefix_end_offset": [pair.follower.end for pair in some]})
    return made


@lru_cache(maxsize=64)
def _verdict(source: str, protocol: Protocol, compacted: bool, has_batches: bool, lag: int) -> Mapping[str, Any]:
    """The row of a follower whose log is its leader's, or the beginning of it, but for its keys and where it ends."""
    if lag:
        judgement = Judgement(verdict=Verdict.LAGGING, reason=clean_prefix(lag))
    else:
        judgement = Judgement(verdict=Verdict.IDENTICAL, reason=same_over_all(batches=has_batches))
    row = verdict_row(PairKeys("", 0, 0, 0), source, protocol, judgement)(
        removed_offsets=0,
        removed_records=0,
        removed_bytes=0,
        lost_offsets=0,
        lost_records=0,
        lost_bytes=0,
        removed_below_high_watermark=0,
        removed_committed=0,
        removed_committed_offsets={},
        removed_commits=(),
        open_transactions=(),
        already_truncated=False,
        wrong_lines=(),
        compacted=compacted,
        differences=(),
        conflicts=(),
        cleaned_beyond_cut=False,
    )
    return {name: getattr(row, name) for name in hints_of(ReplicaVerdict)}


def _checked(of: Candidate) -> CheckedPartition:
    told, followers = of.told, tuple(one.broker_id for one in of.replicas if one is not of.leader)
    return CheckedPartition(
        topic=told.topic,
        partition=told.partition,
        leader_id=told.leader,
        leader_source=told.source,
        # a leader that runs under this rule must have it, and has
        leader_has_epoch=of.cluster.applies is Protocol.TRUNCATE_ON_FETCH and bool(of.leader.alive),
        has_no_hanging_transaction=True,
        isr=told.isr,
        clean=(told.leader, *followers),
        same_batches=followers if of.leader.sound_log.epochs else (),
        same_records=(),
        proven_pairs=len(followers),
    )


class StoredLog(NamedTuple):
    """What a run stored of a replica's log: where it starts, its exclusive end, its table in effect, and whether its broker ran."""

    start: int
    end: int
    epochs: tuple[tuple[int, int], ...]
    ran: bool | None

    @property
    def _state(self) -> ReplicaState:
        """Its side of the exchange; no rule has anything to cut to its high watermark, which is as good as the log end."""
        return ReplicaState(
            log_start_offset=self.start,
            log_end_offset=self.end,
            epochs=table(self.epochs),
            high_watermark=self.end,
            first_segment_base=self.start,
            high_watermark_in_memory=bool(self.ran),
        )

    def points(self, keys: tuple[str, int, int, int], source: str, protocol: str, leader: StoredLog) -> Iterator[TruncationPoint]:
        """The rows of `truncation_points` of a follower from whose log nothing goes, as `healthy_rows` makes them; `keys`: of the pair."""
        return uncut_rows(PairKeys(*keys), source, Protocol(protocol), leader._state, self._state)

    def lookups(self, keys: tuple[str, int, int, int], leader: StoredLog) -> Iterator[EpochEndOffset]:
        """Likewise those of `epoch_end_offsets`."""
        return lookup_rows(PairKeys(*keys), leader._state, self._state)
