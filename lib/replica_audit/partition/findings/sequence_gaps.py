"""Gaps in the sequences of producers → rows of `sequence_gaps`, and the finding where records must have been lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from replica_audit.model import UNDEFINED_EPOCH, PartitionMetadata, SequenceGap
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.cluster.leadership import NO_LEADER, Leadership
from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.transactions.open_transactions import LogOfProducers, lost_sequences
from replica_audit.protocol.verdict.partition_findings import FindingAbout, PartitionCode
from replica_audit.rows.codes import Severity
from replica_audit.rows.columns import utc
from replica_audit.rows.findings import FoundFinding
from replica_audit.rows.records import LostRecords, MissingSequences

_MOST_NESTED = 5


def sequence_gap_rows(
    best: Loaded | None, compared: Mapping[int, Loaded], metadata: PartitionMetadata, context: Context
) -> Iterator[MissingSequences]:
    """What is missing from the sequences in the log of one replica; nothing of a log that was compacted or cannot be read whole.

    Args:
        best: the leader, or the replica that counts without it.
        compared: every replica of the partition, by broker.
        metadata: of the partition, with its elections.
        context: of its comparisons.
    """
    if best is None or best.log is None or best.unreadable or best.producers is None or context.compacted:
        return
    gaps = [gap for gap in best.producers.gaps if gap.first_offset_after < best.log.log_end_offset]
    spans = tuple(span for span in best.producers.spans if span.first_offset < best.log.log_end_offset)
    log = LogOfProducers(
        producers=best.producers._replace(gaps=tuple(gaps), spans=spans),
        first_offset=min((file.base_offset for file in best.scanned), default=-1),
        log_start_offsets=tuple(one.log.log_start_offset for one in compared.values() if one.log),
        others={broker: one.producers for broker, one in sorted(compared.items()) if one is not best and not one.unreadable},
    )
    latest = {gap.first_offset_after: _latest_append_ms(gap, best, metadata) for gap in gaps}
    for lost in lost_sequences(log, latest):
        gap = lost.gap
        yield MissingSequences(
            topic=metadata.topic,
            partition=metadata.partition,
            broker_id=best.broker_id,
            producer_id=gap.producer_id,
            producer_epoch=gap.producer_epoch,
            sequence_before=_before(gap),
            sequence_after=gap.found_sequence,
            missing_records=gap.missing_count,
            last_offset_before=gap.last_offset_before if gap.last_offset_before >= 0 else None,
            first_offset_after=gap.first_offset_after,
            written_after=utc(gap.timestamp_before_ms if gap.timestamp_before_ms >= 0 else None),
            written_before=utc(gap.timestamp_after_ms if gap.timestamp_after_ms >= 0 else None),
            is_certain=lost.is_certain,
            doubt=None if lost.doubt is None else str(lost.doubt),
            held_by=lost.held_by,
        )


def _before(gap: SequenceGap) -> int | None:
    """The last sequence of the same epoch; None where there is none."""
    is_same_epoch = gap.last_offset_before >= 0 and gap.producer_epoch_before == gap.producer_epoch
    return gap.expected_sequence - 1 if is_same_epoch and gap.expected_sequence > 0 else None


def _latest_append_ms(gap: SequenceGap, replica: Loaded, metadata: PartitionMetadata) -> int | None:
    """The latest time at which the batch behind a gap can have been appended: before the next election, and before it was collected."""
    runs = replica.log.runs if replica.log else ()
    epoch = next((run.leader_epoch for run in runs if run.first_offset <= gap.first_offset_after <= run.last_offset), UNDEFINED_EPOCH)
    is_same_topic = replica.files.topic_id in (None, metadata.topic_id)
    later = [one.timestamp_ms for one in metadata.elections if one.leader_epoch > epoch and is_same_topic and epoch > UNDEFINED_EPOCH]
    known = [*later, *([replica.files.captured_at_ms] if replica.files.captured_at_ms is not None else [])]
    return min(known, default=None)


def sequence_gap_findings(rows: Sequence[MissingSequences], metadata: PartitionMetadata, leadership: Leadership) -> Iterator[FoundFinding]:
    """The finding about a partition in which records are certainly lost, if there are such."""
    certain = [row for row in rows if row.is_certain]
    if certain:
        yield FoundFinding(
            finding_key=f"{PartitionCode.SEQUENCE_GAP}:{metadata.topic}-{metadata.partition}",
            code=str(PartitionCode.SEQUENCE_GAP),
            severity=str(Severity.ERROR),
            topic=metadata.topic,
            partition=metadata.partition,
            broker_id=NO_LEADER,
            summary=_summary(certain),
            about=str(FindingAbout.PARTITION),
            leader_id=leadership.leader_id,
            leader_source=leadership.source,
            lost_records=tuple(map(LostRecords.of, certain[:_MOST_NESTED])),
        )


def _summary(rows: Sequence[MissingSequences]) -> str:
    first, records = rows[0], sum(row.missing_records for row in rows)
    much = f"{records} record{' is' if records == 1 else 's are'} missing in {len(rows)} place{'' if len(rows) == 1 else 's'}"
    before = f"from sequence {first.sequence_before} " if first.sequence_before is not None else ""
    times = first.written_after, first.written_before
    when = f" (written {times[0]:%Y-%m-%d %H:%M:%S} to {times[1]:%Y-%m-%d %H:%M:%S} UTC)" if times[0] and times[1] else ""
    return (
        f"{much}: they were written, and no replica has them. Producer {first.producer_id} (epoch {first.producer_epoch}) jumps {before}"
        f"to sequence {first.sequence_after} between offsets {first.last_offset_before} and {first.first_offset_after}{when}, and Kafka "
        "refuses a batch that does not follow the previous one"
    )
