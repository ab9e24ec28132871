"""A loaded replica as rows of `replica_logs`, `segment_epochs` and `epoch_start_offsets`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter

from replica_audit.model import UNDEFINED_EPOCH, BatchRun, PartitionMetadata, ScannedSegment
from replica_audit.partition.replicas.corrected_checkpoints import corrected_content
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.epochs.checkpoint_repair import Undetermined, reconcile
from replica_audit.protocol.epochs.epoch_table import EMPTY, joined
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.rows.columns import utc
from replica_audit.rows.replicas import CorrectedLine, EpochStartOffset, FollowerOnceCorrected, ReplicaLog, SegmentEpoch

_EPOCH_AND_START = itemgetter(1, 2)  # of an entry of a checkpoint


def log_row(loaded: Loaded, healed: Sequence[FollowerOnceCorrected] = (), *, ran: bool | None) -> ReplicaLog:
    """The replica as a row of `replica_logs`, without the run's keys.

    Args:
        loaded: the replica.
        healed: what its corrected file does for followers.
        ran: whether its broker did when it was copied; None if unknown.
    """
    files, log, correction = loaded.files, loaded.log, loaded.correction
    entries = () if correction is None or isinstance(correction, Undetermined) else correction
    runs = log.runs if log else ()
    # offsets that are there twice count twice
    stored = runs if log is None or log.went_back is None else [run for of_file in loaded.scanned.values() for run in of_file]
    return ReplicaLog(
        topic=files.topic,
        partition=files.partition,
        broker_id=loaded.broker_id,
        log_dir=files.log_dir,
        directory=files.directory,
        topic_id=files.topic_id,
        state=files.state,
        log_start_offset=log.log_start_offset if log else None,
        log_end_offset=log.log_end_offset if log and not loaded.is_end_unknown else None,
        high_watermark=files.high_watermark,
        recovery_point=files.recovery_point,
        cleaner_offset=files.cleaner_offset,
        last_epoch=runs[-1].leader_epoch if runs else UNDEFINED_EPOCH,
        batch_count=sum(run.batch_count for run in stored),
        record_count=sum(run.record_count for run in stored),
        size_bytes=sum(run.size_bytes for run in stored),
        checkpoint_state=files.checkpoint_state,
        corrected_checkpoint=corrected_content(correction),
        corrected_entries=None
        if correction is None
        else tuple(
            CorrectedLine(epoch=one.epoch, start_offset=one.start_offset, source=str(one.source), from_broker_id=one.broker_id)
            for one in entries
        ),
        not_corrected_because=str(correction) if isinstance(correction, Undetermined) else None,
        rejoins_once_corrected=tuple(healed) if entries else None,
        recovery_cut_offset=log.recovery_cut if log else None,
        unreadable_reason=loaded.unreadable,
        captured_at=utc(files.captured_at_ms),
        crcs_verified_at=utc(files.verified_at_ms),
        looked_again_at=utc(files.second_look.looked_at_ms) if files.second_look else None,
        later_log_end_offset=files.second_look.log_end_offset if files.second_look else None,
        broker_ran=ran,
    )


def segment_rows(broker_id: int, scan: ScannedSegment, topic: str, partition: int) -> Iterator[SegmentEpoch]:
    """One scanned segment as rows of `segment_epochs`: neighbouring runs of one epoch joined, also across missing offsets."""
    runs: list[BatchRun] = []
    for run in scan.segment.runs:
        if runs and runs[-1].leader_epoch == run.leader_epoch and runs[-1].last_offset < run.first_offset:
            runs[-1] = joined(runs[-1], run)
        else:
            runs.append(run)
    for run in runs:
        yield SegmentEpoch(
            topic=topic,
            partition=partition,
            broker_id=broker_id,
            log_dir=scan.log_dir,
            segment_base_offset=scan.file.base_offset,
            leader_epoch=run.leader_epoch,
            first_offset=run.first_offset,
            last_offset=run.last_offset,
            batch_count=run.batch_count,
            record_count=run.record_count,
            size_bytes=run.size_bytes,
            min_timestamp_ms=run.min_timestamp_ms,
            max_timestamp_ms=run.max_timestamp_ms,
            source=scan.file.source,
        )


def epoch_rows(
    loaded: Loaded, *, leader: Replica | None, cleaned_until: int, compacted: bool, metadata: PartitionMetadata
) -> Iterator[EpochStartOffset]:
    """The replica's epochs as rows of `epoch_start_offsets`; none where there is no log.

    `leader` is the partition's leader, None if there is none; `cleaned_until` the largest cleaner checkpoint of its replicas. Who led each
    epoch is known as far as the metadata log tells it, for logs of the same topic id.
    """
    if loaded.log is None or not loaded.is_compared:
        return
    is_same_topic = loaded.files.topic_id in (None, metadata.topic_id)
    led_by = {election.leader_epoch: election.leader_id for election in metadata.elections} if is_same_topic else {}
    leads = leader is not None and leader.broker_id == loaded.broker_id
    in_effect = loaded.log.epochs if leads else loaded.log.epochs_in_log
    known = loaded.files.has_known_table
    checkpoint = tuple(map(_EPOCH_AND_START, loaded.files.checkpoint)) if known else None
    found = reconcile(
        loaded.log,
        in_effect if loaded.unreadable is None else EMPTY,
        checkpoint,
        cleaned_until=cleaned_until,
        compacted=compacted,
        # above the cleaner checkpoints it tells nothing, and the question is the same for all replicas
        leader=None if leads or leader is None or not cleaned_until else leader.as_leader().epochs,
    )
    for entry in found:
        if loaded.is_end_unknown and entry.start_offset >= loaded.log.log_end_offset:
            continue  # whether batches bear it out is in the segment that cannot be read
        yield EpochStartOffset(
            topic=loaded.files.topic,
            partition=loaded.files.partition,
            broker_id=loaded.broker_id,
            leader_epoch=entry.leader_epoch,
            leader_id=led_by.get(entry.leader_epoch),
            start_offset=entry.start_offset,
            end_offset=entry.end_offset,
            checkpoint_start_offset=entry.checkpoint_start_offset,
            segment_start_offset=entry.segment_start_offset,
            source=entry.source,
            agrees=entry.agrees,
            in_effect=entry.in_effect,
            difference=entry.difference,
        )
