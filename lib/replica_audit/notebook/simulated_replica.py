"""One replica of a run as the audit loaded it, as far as the tables keep it."""

from __future__ import annotations

from collections.abc import Iterable

from replica_audit.model import BatchRun
from replica_audit.protocol.epochs.epoch_table import table
from replica_audit.protocol.epochs.lineage import Span, history_of_runs, history_of_table
from replica_audit.protocol.epochs.replica_log import LoadedLog
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.rows.replicas import EpochStartOffset, ReplicaLog, SegmentEpoch


def simulated_replica(
    row: ReplicaLog, segments: Iterable[SegmentEpoch] | None, epochs: Iterable[EpochStartOffset], *, alive: bool, in_isr: bool
) -> Replica:
    """A replica as the audit loaded it, as far as the tables keep it.

    `segments` is None where another directory of the partition, such as one to be deleted, is in the same log directory: the rows of both
    cannot be told apart, and the table in effect says what the log holds.
    """
    start, end = row.log_start_offset or 0, row.log_end_offset or 0
    entries = table(sorted((one.leader_epoch, one.start_offset) for one in epochs if one.broker_id == row.broker_id and one.in_effect))
    bases: tuple[int, ...] = (start,)
    if segments is None:
        runs = tuple(_run_of(span) for span in history_of_table(entries, start, end))
    else:
        mine = (one for one in segments if (one.broker_id, one.log_dir) == (row.broker_id, row.log_dir) and one.first_offset < end)
        own = sorted(mine, key=lambda one: one.first_offset)
        runs, bases = tuple(_run(one) for one in own), tuple(sorted({one.segment_base_offset for one in own}))
    log = LoadedLog(
        log_start_offset=start,
        log_end_offset=end,
        first_segment_base=min([start, *bases]),
        epochs=entries,
        runs=runs,
        segment_bases=bases,
    )
    return Replica(
        broker_id=row.broker_id,
        log=log,
        history=tuple(history_of_runs(runs)),
        high_watermark=row.high_watermark,
        cleaner_offset=row.cleaner_offset,
        topic_id=row.topic_id,
        unreadable=row.unreadable_reason,
        alive=alive,
        in_isr=in_isr,
    )


def _run(one: SegmentEpoch) -> BatchRun:
    run = _run_of(Span(one.leader_epoch, one.first_offset, one.last_offset + 1))
    return run._replace(batch_count=one.batch_count, record_count=one.record_count, size_bytes=one.size_bytes)


def _run_of(span: Span) -> BatchRun:
    count = span.end_offset - span.first_offset
    return BatchRun(
        leader_epoch=span.leader_epoch,
        first_offset=span.first_offset,
        last_offset=span.end_offset - 1,
        batch_count=1,
        record_count=count,
        size_bytes=count,
        min_timestamp_ms=0,
        max_timestamp_ms=0,
        magic=2 if span.leader_epoch >= 0 else 1,
        intact=True,
    )
