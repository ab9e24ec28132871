"""A loaded replica as rows of `replica_logs`, `segment_epochs` and `epoch_start_offsets`; a partition as rows of `leader_epochs`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

from replica_audit.frozen import once
from replica_audit.model import UNDEFINED_EPOCH, BatchRun, PartitionMetadata, ScannedSegment
from replica_audit.partition.replicas.corrected_checkpoints import corrected_content
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.cluster.cluster_history import beginnings, given_up
from replica_audit.protocol.cluster.metadata_image import ElectionKind
from replica_audit.protocol.epochs.checkpoint_repair import ReconciledEpoch, Undetermined, reconcile
from replica_audit.protocol.epochs.epoch_table import EMPTY, joined
from replica_audit.protocol.epochs.lineage import covered
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.rows.blocks import RowBlock
from replica_audit.rows.columns import utc
from replica_audit.rows.history import LeaderEpoch
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
        checkpoint_sha256=files.checkpoint_sha256,
    )


def segment_rows(partitions: Iterable[tuple[str, int, Iterable[tuple[int, ScannedSegment]]]]) -> RowBlock[SegmentEpoch]:
    """Scanned segments of partitions, each with its broker, as rows of `segment_epochs`.

    Neighbouring runs of one epoch are joined, across holes, too.
    """
    made = RowBlock(SegmentEpoch)
    for topic, partition, segments in partitions:
        for broker_id, scan in segments:
            runs = _of_epochs(scan.segment.runs)
            if runs:
                same = {
                    "topic": topic,
                    "partition": partition,
                    "broker_id": broker_id,
                    "log_dir": scan.log_dir,
                    "segment_base_offset": scan.file.base_offset,
                    "source": scan.file.source,
                }
                made.add(len(runs["leader_epoch"]), same, runs)
    return made


@once
def _of_epochs(runs: Sequence[BatchRun]) -> Mapping[str, Sequence[Any]]:
    """Runs with neighbours of one epoch joined, by field; empty if there are none."""
    made: list[BatchRun] = []
    for run in runs:
        if made and made[-1].leader_epoch == run.leader_epoch and made[-1].last_offset < run.first_offset:
            made[-1] = joined(made[-1], run)
        else:
            made.append(run)
    return dict(zip(BatchRun._fields, zip(*made, strict=True), strict=True)) if made else {}


def epoch_rows(
    replicas: Iterable[Loaded], *, leader: Replica | None, cleaned_until: int, compacted: bool, metadata: PartitionMetadata
) -> RowBlock[EpochStartOffset]:
    """The epochs of replicas as rows of `epoch_start_offsets`; none where there is no log.

    `leader` is the partition's leader, None if there is none; `cleaned_until` the largest cleaner checkpoint of its replicas. Who led each
    epoch is known as far as the metadata log tells it, for logs of the same topic id.
    """
    made = RowBlock(EpochStartOffset)
    for loaded in replicas:
        found = _epochs(loaded, leader, cleaned_until, compacted=compacted)
        is_same_topic = loaded.files.topic_id in (None, metadata.topic_id)
        led_by = {election.leader_epoch: election.leader_id for election in metadata.elections} if is_same_topic else {}
        columns = epoch_columns(found)
        same = {"topic": loaded.files.topic, "partition": loaded.files.partition, "broker_id": loaded.broker_id, "leader_id": None}
        led = {"leader_id": [led_by.get(entry.leader_epoch) for entry in found]} if led_by else {}
        made.add(len(found), same, {**columns, **led})
    return made


def _epochs(loaded: Loaded, leader: Replica | None, cleaned_until: int, *, compacted: bool) -> tuple[ReconciledEpoch, ...]:
    if loaded.log is None or not loaded.is_compared:
        return ()
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
    if not loaded.is_end_unknown:
        return found
    # whether batches bear it out is in the segment that cannot be read
    return tuple(entry for entry in found if entry.start_offset < loaded.log.log_end_offset)


@once
def epoch_columns(found: Sequence[ReconciledEpoch]) -> Mapping[str, Sequence[Any]]:
    """Return the columns of epochs that `epoch_start_offsets` has of each replica that holds the same."""
    columns = zip(*found, strict=True) if found else repeat((), len(ReconciledEpoch._fields))
    computed: dict[str, Sequence[Any]] = {"agrees": [entry.agrees for entry in found], "source": [entry.source for entry in found]}
    return dict(zip(ReconciledEpoch._fields, columns, strict=True)) | computed


def leader_epoch_rows(metadata: PartitionMetadata, leader: Replica | None, replicas: Sequence[Replica]) -> Iterator[LeaderEpoch]:
    """Every epoch that the metadata log tells of.

    Args:
        metadata: what is known last of the partition.
        leader: of the partition, None if it is unknown or unreadable.
        replicas: all that have a log, the leader among them; those of another topic id are left out. Of an unreadable one only what its
            batches are counts: it may hold what was given up, and does not say where an epoch began.
    """
    own = [replica for replica in replicas if not replica.topic_id or not metadata.topic_id or replica.topic_id == metadata.topic_id]
    readable = [replica for replica in own if not replica.unreadable]
    began = beginnings([leader, *readable] if leader in readable else readable) if metadata.elections else {}
    is_read = not any(replica.is_partly_read for replica in own)
    at_end = {change.leader_epoch: change.isr for change in metadata.isr_changes}
    for election in metadata.elections:
        start = began.get(election.leader_epoch)
        held = None
        if start is not None and election.kind == ElectionKind.UNCLEAN:
            held = given_up(election, start.start_offset, own, compacted=bool(metadata.compacted))
            held = held if is_read and (held or start.is_exact) else None
        yield LeaderEpoch(
            topic=metadata.topic,
            partition=metadata.partition,
            topic_id=metadata.topic_id,
            leader_epoch=election.leader_epoch,
            leader_id=election.leader_id,
            election=election.kind,
            isr=election.isr,
            elr=election.elr,
            isr_at_end=at_end.get(election.leader_epoch, election.isr),
            metadata_offset=election.metadata_offset,
            metadata_epoch=election.metadata_epoch,
            began_at=utc(election.timestamp_ms),
            start_offset=start.start_offset if start and start.is_exact else None,
            given_up_offsets=None if held is None else covered((s.first_offset, s.end_offset) for spans in held.values() for s in spans),
            given_up_held_by=None if held is None else tuple(sorted(held)),
        )
