"""Replicas, pairs and random lineages for the tests of the protocol layer, written the short way: a batch is (epoch, base, last)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from replica_audit.model import BatchHeader, BatchRun, CommittedOffset, Segment
from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.comparison.pair import Comparison, Effect
from replica_audit.protocol.epochs.epoch_table import EpochTable, table
from replica_audit.protocol.epochs.lineage import history_of_runs
from replica_audit.protocol.epochs.replica_log import LoadedLog
from replica_audit.protocol.exchange.cuts import can_fail_to_append, lies_inside_a_batch, measure_removal
from replica_audit.protocol.exchange.replay import RULES, Truncation
from replica_audit.protocol.exchange.replica import Replica, ReplicaState
from replica_audit.rows.codes import Protocol

Pairs = Sequence[tuple[int, int]]
Batch = tuple[int, int, int]

TIME = 1_700_000_000_000


def run(epoch: int, first: int, last: int, *, magic: int | None = None, intact: bool = True) -> BatchRun:
    """A run of one batch; a run without an epoch is of the format before it."""
    return BatchRun(
        leader_epoch=epoch,
        first_offset=first,
        last_offset=last,
        batch_count=1,
        record_count=last - first + 1,
        size_bytes=100,
        min_timestamp_ms=TIME,
        max_timestamp_ms=TIME,
        magic=magic if magic is not None else 2 if epoch >= 0 else 1,
        intact=intact,
    )


def commit(offset: int, epoch: int, *, at_ms: int = TIME, group_id: str = "g", topic_id: str | None = None) -> CommittedOffset:
    """What a group committed of a partition."""
    return CommittedOffset(
        group_id=group_id,
        topic="t",
        partition=0,
        offset=offset,
        leader_epoch=epoch,
        commit_timestamp_ms=at_ms,
        topic_id=topic_id,
        record_offset=7,
        path="/b/__consumer_offsets-3/00000000000000000000.log",
    )


def runs(batches: Iterable[Batch]) -> tuple[BatchRun, ...]:
    """Batches as runs: neighbours of one epoch that leave no offset out are joined."""
    joined: list[BatchRun] = []
    for epoch, first, last in batches:
        if joined and joined[-1].leader_epoch == epoch and joined[-1].last_offset + 1 == first:
            batches_so_far, records = joined[-1].batch_count, joined[-1].record_count
            joined[-1] = joined[-1]._replace(last_offset=last, batch_count=batches_so_far + 1, record_count=records + last - first + 1)
        else:
            joined.append(run(epoch, first, last))
    return tuple(joined)


def segment(base_offset: int, *batches: Batch, damaged: bool = False, swap: bool = False) -> Segment:
    return Segment(base_offset=base_offset, runs=runs(batches), damaged=damaged, swap=swap)


def header(epoch: int, base: int, last: int, **fields: Any) -> BatchHeader:
    """A batch as its header tells it; `fields` replace what is ordinary."""
    ordinary: dict[str, Any] = {
        "position": 0,
        "base_offset": base,
        "last_offset": last,
        "size_bytes": 100,
        "magic": 2 if epoch >= 0 else 1,
        "leader_epoch": epoch,
        "record_count": last - base + 1,
        "max_timestamp_ms": TIME,
        "crc": 0,
        "crc_valid": True,
        "codec": "none",
        "is_transactional": False,
        "is_control": False,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
    }
    return BatchHeader(**(ordinary | fields))


def first_of_each_epoch(batches: Iterable[Batch]) -> EpochTable:
    """The table that a broker holds which has appended these batches, epochs never going back."""
    starts: dict[int, int] = {}
    for epoch, base, _last in batches:
        if epoch >= 0:
            starts.setdefault(epoch, base)
    return table(sorted(starts.items()))


def replica(
    broker_id: int,
    batches: Sequence[Batch] = (),
    *,
    epochs: Pairs | None = None,
    start: int | None = None,
    end: int | None = None,
    first_segment_base: int | None = None,
    **fields: Any,
) -> Replica:
    """A replica; table, log start and log end are those of the batches unless given. `fields` go to `Replica`."""
    log_start = start if start is not None else batches[0][1] if batches else 0
    held = runs(batches)
    log = LoadedLog(
        log_start_offset=log_start,
        log_end_offset=end if end is not None else batches[-1][2] + 1 if batches else log_start,
        first_segment_base=log_start if first_segment_base is None else first_segment_base,
        epochs=first_of_each_epoch(batches) if epochs is None else table(epochs),
        runs=held,
    )
    return Replica(broker_id=broker_id, log=log, history=history_of_runs(held), **fields)


def state(
    epochs: Pairs, end: int, *, start: int = 0, high_watermark: int | None = None, first_segment_base: int | None = None
) -> ReplicaState:
    """One side of the exchange; the high watermark is the log start unless given."""
    return ReplicaState(
        log_start_offset=start,
        log_end_offset=end,
        epochs=table(epochs),
        high_watermark=start if high_watermark is None else high_watermark,
        first_segment_base=start if first_segment_base is None else first_segment_base,
    )


def effect(truncation: Truncation, leader: Sequence[Batch], follower: Sequence[Batch], follower_end: int) -> Effect:
    """A truncation measured on the batches of both sides."""
    physical = truncation.truncation_offset
    if physical is not None:
        physical = measure_removal([header(*batch) for batch in follower], physical, follower_end).physical_offset
    fails = can_fail_to_append(truncation) and lies_inside_a_batch([header(*batch) for batch in leader], truncation.fetch_offset)
    return Effect(truncation=truncation, physical_offset=physical, fetcher_fails=fails)


def compare(
    leader: Replica,
    follower: Replica,
    *witnesses: Replica,
    protocol: Protocol = Protocol.TRUNCATE_ON_FETCH,
    leader_batches: Sequence[Batch] | None = None,
    follower_batches: Sequence[Batch] | None = None,
    **context: Any,
) -> Comparison:
    """The comparison under a protocol. Every offset is a batch of its own unless batches are given; `context` goes to `Context`."""
    truncation = RULES[protocol](leader.as_leader(), follower.as_follower())

    def of(side: Replica, given: Sequence[Batch] | None) -> Sequence[Batch]:
        singly = (
            (held.leader_epoch, offset, offset) for held in side.log.runs for offset in range(held.first_offset, held.last_offset + 1)
        )
        return list(singly) if given is None else given

    measured = effect(truncation, of(leader, leader_batches), of(follower, follower_batches), follower.log.log_end_offset)
    return Comparison(leader=leader, follower=follower, context=Context(**context), effect=measured, witnesses=witnesses)
