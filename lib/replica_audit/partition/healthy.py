"""Partitions that are healthy by what was read of them: all replicas are one log, or begin it, and nothing is open, cut or in doubt.

That is decided before any replica is loaded and any pair compared, and only where nothing needs to be weighed: what is not simple is left
to `PartitionAudit`, which says the same of what passes here. Kafka's rules are not repeated here. Each condition makes sure that one of
them has nothing to do: who leads is known, and its table has the epoch that it leads in; a follower that asks is answered with records; a
log that is loaded stays as it is; and where nothing is missing, a cleaner took nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from replica_audit.formats.log_dir.names import METADATA_TOPIC
from replica_audit.frozen import once
from replica_audit.model import BatchRun, PartitionMetadata, Producers, ReplicaFiles, ScannedSegment, Segment, Window
from replica_audit.partition.findings.consumers import impact_rows
from replica_audit.partition.known.cluster_facts import ClusterFacts, is_alive, may_have_run
from replica_audit.partition.known.known_partition import Compaction, KnownPartition, ReadAgain, compaction
from replica_audit.partition.pairs.content import holds_the_beginning
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.cluster.leadership import latest
from replica_audit.protocol.cluster.metadata_image import ElectionKind
from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.comparison.content import CompareMode, merged
from replica_audit.protocol.epochs.epoch_table import EpochEntry, EpochTable, table
from replica_audit.protocol.epochs.replica_log import load_log
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.transactions.open_transactions import open_transactions
from replica_audit.protocol.transactions.producer_spans import producers_of_log
from replica_audit.rows.codes import Protocol
from replica_audit.rows.history import ConsumerImpact

_EPOCH_AND_START = itemgetter(1, 2)  # of an entry of a checkpoint

# Whether the files about producers of a replica, of these segments, agree with its log
Agrees = Callable[[Loaded, Sequence[ScannedSegment]], bool]


@dataclass(frozen=True, slots=True)
class SoundLog:
    """What segments come to that hold every offset from `start` to `end`, exclusive, in epochs that only grow, and no open transaction.

    `epochs` is the table that follows from the batches; `holds_every_record`: a cleaner has taken none.
    """

    start: int
    end: int
    epochs: EpochTable
    windows: tuple[Window, ...]
    holds_every_record: bool
    batch_count: int = field(compare=False)
    record_count: int = field(compare=False)
    size_bytes: int = field(compare=False)

    def begins(self, longer: SoundLog) -> bool:
        """Whether it has batches, and a longer log begins like it, in the same epochs; batches are compared later."""
        shared = tuple(entry for entry in longer.epochs if entry.start_offset < self.end)
        return bool(self.epochs) and self.start == longer.start and self.end < longer.end and self.epochs == shared


class KnownReplica(NamedTuple):
    """A replica directory with its segments, ascending, and whether its broker ran when it was copied, None if unknown.

    `log` is what its segments come to; None where they are not sound.
    """

    broker_id: int
    files: ReplicaFiles
    scans: tuple[ScannedSegment, ...]
    alive: bool | None
    log: SoundLog | None

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.log.end if self.log is not None else -1

    @property
    def sound_log(self) -> SoundLog:
        """What its segments come to, of one that passed."""
        if self.log is None:
            raise AssertionError(f"the segments of {self.files.path} are not sound")
        return self.log


class Candidate(NamedTuple):
    """A partition that may be healthy: `told` is what is known of it last, and `leader` the replica of which that says that it leads.

    `compaction`: whether batches may be missing without harm; `told` has it, too, as far as it is known.
    """

    known: KnownPartition
    cluster: ClusterFacts
    told: PartitionMetadata
    compaction: Compaction
    replicas: tuple[KnownReplica, ...]
    leader: KnownReplica

    @property
    def leader_epoch(self) -> int:
        """In which the leader leads."""
        return self.told.leader_epoch

    @property
    def compacted(self) -> bool:
        """Whether batches may be missing without harm."""
        return self.compaction.anywhere


def _is_compared_by_content(known: KnownPartition, cluster: ClusterFacts) -> bool:
    return cluster.compare is CompareMode.CONTENT and known.records is None


def _asks_for_no_more(known: KnownPartition, cluster: ClusterFacts) -> bool:
    """Whether every replica is judged, and no other leader is to be tried."""
    return not cluster.what_if_leaders and not cluster.other_copies


def _is_told_by_logs_alone(known: KnownPartition, cluster: ClusterFacts) -> bool:
    """Whether neither a broker's own log nor a coordinator says anything of it."""
    return not known.events and not known.transactions and known.topic != METADATA_TOPIC


def _has_claims_that_agree(known: KnownPartition, cluster: ClusterFacts) -> bool:
    """Whether all sources name one leader in one epoch, of one topic, and the same replicas; those that reach less far, too."""
    first = known.claims[0][1] if known.claims else None
    return first is not None and all(
        (one.leader, one.leader_epoch, one.topic_id, one.replicas) == (first.leader, first.leader_epoch, first.topic_id, first.replicas)
        for _broker, one in known.claims
    )


def _has_each_replica_once(known: KnownPartition, cluster: ClusterFacts) -> bool:
    """Whether each broker that the partition is assigned to has one directory of it, and nobody else has any."""
    return bool(known.claims) and sorted(broker for broker, _files in known.replicas) == sorted(known.claims[0][1].replicas)


# of what was read, looked at before anything is made of it
OF_PARTITION: tuple[Callable[[KnownPartition, ClusterFacts], bool], ...] = (
    _is_compared_by_content,
    _asks_for_no_more,
    _is_told_by_logs_alone,
    _has_claims_that_agree,
    _has_each_replica_once,
)


def _has_leader(one: Candidate) -> bool:
    return one.told.leader >= 0 and one.leader_epoch >= 0 and not one.told.no_leader


def _uses_tables(one: Candidate) -> bool:
    """Whether brokers use the epoch table of a log in the newest format."""
    return one.cluster.formats.has_table(one.told.message_format, 2)


def _is_local(one: Candidate) -> bool:
    """Whether nothing of it is in remote storage."""
    return not one.told.remote_storage


def _lacks_no_record(one: Candidate) -> bool:
    """Whether no replica may lack batches that others have; of a compacted topic, whether each record is there, and always was."""
    if not one.compacted:
        return True
    was_cut = any(election.kind == ElectionKind.UNCLEAN for election in one.told.elections)
    return bool(one.compaction.is_known) and not was_cut and all(of.log is not None and of.log.holds_every_record for of in one.replicas)


def _leads_in_its_epoch(one: Candidate) -> bool:
    """Whether the leader's table ends in the epoch in which it leads, where the batches do or at the log end, and else is that of them."""
    log, found = one.leader.log, table(one.leader.files.epochs)
    if log is None or not found or found[-1].epoch != one.leader_epoch:
        return False
    return found in (log.epochs, (*log.epochs, EpochEntry(one.leader_epoch, log.end)))


def _are_positions_in_the_log(one: Candidate) -> bool:
    """Whether no group has committed an offset, or read an epoch, that the leader's log does not hold."""
    log = one.leader.log
    return log is not None and all(
        log.start <= commit.offset <= log.end and commit.leader_epoch <= one.leader_epoch and commit.topic_id in (None, one.told.topic_id)
        for commit in one.known.commits
    )


OF_ALL: tuple[Callable[[Candidate], bool], ...] = (
    _has_leader,
    _uses_tables,
    _is_local,
    _lacks_no_record,
    _leads_in_its_epoch,
    _are_positions_in_the_log,
)


def _is_current(one: KnownReplica, of: Candidate) -> bool:
    """Whether it is a directory that its broker uses, with its small files as they should be."""
    return one.files.state == "current" and not one.files.is_refused


def _is_of_the_topic(one: KnownReplica, of: Candidate) -> bool:
    """Whether it has the topic id of the metadata; without topic ids, whether its broker is one that knows none."""
    return one.files.topic_id == of.told.topic_id and (one.files.topic_id is not None or one.broker_id not in of.cluster.kraft)


def _is_without_problems(one: KnownReplica, of: Candidate) -> bool:
    return not one.files.problems and not any(scan.failed or scan.problems for scan in one.scans) and one.files.offline_reason is None


def _has_its_log(one: KnownReplica, of: Candidate) -> bool:
    """Whether its segments are sound, and the same as the leader's or their beginning."""
    log, leads = one.log, of.leader.log
    return log is not None and leads is not None and (log == leads or log.begins(leads))


def _is_in_sync(one: KnownReplica, of: Candidate) -> bool:
    """Whether it reaches every high watermark, as members of the ISR and of the ELR do; outside the ISR it lags, and is not frozen."""
    told, reaches = of.told, one.end >= max(replica.files.high_watermark or 0 for replica in of.replicas)
    if one.broker_id in told.isr:
        return reaches
    # one that is frozen may have yet to learn whom it follows
    return (
        (reaches or one.broker_id not in told.elr) and one.end < of.leader.end and of.cluster.broker_states.get(one.broker_id) != "paused"
    )


def _has_its_table(one: KnownReplica, of: Candidate) -> bool:
    """Whether the file is the table that follows from the batches; who leads may have entered its epoch besides, at the log end."""
    files = one.files
    if one.log is None or tuple(map(_EPOCH_AND_START, files.checkpoint)) != files.epochs:
        return False
    is_read = files.checkpoint_state == "ok" or (files.checkpoint_state == "empty" and not files.epochs)
    return is_read and (one is of.leader or files.epochs == one.log.epochs)


def _starts_with_its_segments(one: KnownReplica, of: Candidate) -> bool:
    """Whether the log start is not above the first segment."""
    return one.log is not None and (one.files.log_start_offset or 0) <= one.log.start


def _ends_where_its_checkpoints_say(one: KnownReplica, of: Candidate) -> bool:
    """Whether no checkpoint lies beyond the log end, and no rule cuts to the high watermark: it is the end, or was used already."""
    files = one.files
    if not files.high_watermarks_collected or (files.recovery_point or 0) > one.end:
        return False
    high_watermark = files.high_watermark or 0
    return high_watermark == one.end or (high_watermark < one.end and bool(one.alive))


OF_REPLICA: tuple[Callable[[KnownReplica, Candidate], bool], ...] = (
    _is_current,
    _is_of_the_topic,
    _is_without_problems,
    _has_its_log,
    _has_its_table,
    _starts_with_its_segments,
    _is_in_sync,
    _ends_where_its_checkpoints_say,
)


def _is_whole(segments: Sequence[Segment]) -> bool:
    """Whether each was read to its end, is in its place, has a digest, and begins where the one before ends; the last may be empty."""
    begins = all(after.base_offset == before.next_offset for before, after in pairwise(segments))
    has_batches = all(one.runs and one.windows for one in segments[:-1]) and (not segments[-1].runs or bool(segments[-1].windows))
    return begins and has_batches and not any(one.damaged or one.swap for one in segments)


def _is_continuous(segments: Sequence[Segment]) -> bool:
    """Whether each run begins where the one before ends, the first with its segment."""
    return all(
        run.first_offset == end
        for one in segments
        for run, end in zip(one.runs, (one.base_offset, *(before.last_offset + 1 for before in one.runs)), strict=False)
    )


def _has_good_batches(segments: Sequence[Segment]) -> bool:
    """Whether all match their CRCs, and are in a format that has epochs."""
    return all(
        run.intact and run.magic >= 2 and run.batch_count > 0 and run.record_count >= 0 and run.size_bytes > 0
        for one in segments
        for run in one.runs
    )


def _has_growing_epochs(segments: Sequence[Segment]) -> bool:
    epochs = [run.leader_epoch for one in segments for run in one.runs]
    return all(before <= after for before, after in pairwise((0, *epochs)))


def _has_no_loose_ends(segments: Sequence[Segment]) -> bool:
    """Whether each producer's sequences follow each other from 0 on, or from where retention has left any, and no transaction is open."""
    found = producers_of_log(one.producers for one in segments)
    if found is None or found.untold_batches or found.gaps or open_transactions(found):
        return False
    return segments[0].base_offset > 0 or not any(span.first_sequence > 0 for span in found.spans)


OF_SEGMENTS: tuple[Callable[[Sequence[Segment]], bool], ...] = (
    _is_whole,
    _is_continuous,
    _has_good_batches,
    _has_growing_epochs,
    _has_no_loose_ends,
)


@once
def sound_log(segments: tuple[Segment, ...]) -> SoundLog | None:
    """What segments come to, ascending by base offset; None if they are not sound: then a log is loaded to say what is wrong with it."""
    if not segments or not all(holds(segments) for holds in OF_SEGMENTS):
        return None
    runs = [run for one in segments for run in one.runs]
    return SoundLog(
        start=segments[0].base_offset,
        end=segments[-1].next_offset,
        epochs=_epochs(runs),
        windows=merged(window for one in segments for window in one.windows),
        holds_every_record=all(run.record_count == run.last_offset - run.first_offset + 1 for run in runs),
        batch_count=sum(run.batch_count for run in runs),
        record_count=sum(run.record_count for run in runs),
        size_bytes=sum(run.size_bytes for run in runs),
    )


def _epochs(runs: Sequence[BatchRun]) -> EpochTable:
    """Where each epoch begins in runs whose epochs only grow."""
    starts: dict[int, int] = {}
    for run in runs:
        starts.setdefault(run.leader_epoch, run.first_offset)
    return table(starts.items())


def candidate(known: KnownPartition, cluster: ClusterFacts) -> Candidate | None:
    """A partition with what its metadata and its segments tell; None if it is none, or has no leader that could be healthy."""
    told = latest([claim for _broker, claim in known.claims], cluster.metadata_log_end)
    if told is None:
        return None
    scans: defaultdict[tuple[int, str, str], list[ScannedSegment]] = defaultdict(list)
    for broker, scan in known.segments:
        scans[broker, scan.log_dir, scan.directory].append(scan)
    replicas = []
    for broker, files in sorted(known.replicas, key=itemgetter(0)):
        own = tuple(sorted(scans[broker, files.log_dir, files.directory], key=lambda scan: scan.segment.base_offset))
        log = sound_log(tuple(scan.segment for scan in own))
        replicas.append(KnownReplica(broker, files, own, is_alive(broker, files, cluster), log))
    leader = next((one for one in replicas if one.broker_id == told.leader), None)
    if leader is None:
        return None
    found = compaction(known, told.compacted)
    told = told if told.compacted is found.anywhere else replace(told, compacted=found.anywhere)
    return Candidate(known, cluster, told, found, tuple(replicas), leader)


def proven_healthy(known: KnownPartition, cluster: ClusterFacts) -> Candidate | None:
    """A partition that is certainly healthy; None: whether it is has to be weighed.

    Args:
        known: what was read of it.
        cluster: the facts of its cluster.
    """
    if not all(holds(known, cluster) for holds in OF_PARTITION):
        return None
    one = candidate(known, cluster)
    if one is None or not all(holds(replica, one) for replica in one.replicas for holds in OF_REPLICA):
        return None
    return one if all(holds(one) for holds in OF_ALL) else None


class Healthy(NamedTuple):
    """A partition that is healthy, with what its groups find.

    `replicas` are its replicas as the rules see them, by broker; empty where no row asks a rule.
    """

    of: Candidate
    replicas: Mapping[int, Replica]
    impacts: Sequence[ConsumerImpact]


def confirmed(one: Candidate, read_again: ReadAgain, agrees: Agrees, *, every_row: bool) -> Healthy | None:
    """A candidate that passed as a healthy partition; None where what is read again, or a group, says otherwise.

    Args:
        one: what `proven_healthy` gave.
        read_again: reads the batches with which a follower ends that lags: its digests cannot tell of them.
        agrees: whether files about producers agree with a log.
        every_row: whether rows are made that only say, epoch by epoch, that nothing is cut.
    """
    lags = any(of.end < one.leader.end for of in one.replicas)
    has_files = not one.compacted and any(of.files.producer_files or of.files.producer_texts for of in one.replicas)
    if not (lags or has_files or one.known.commits or one.told.elections or every_row):
        return Healthy(one, {}, ())
    loaded = [_loaded(of, read_again) for of in one.replicas]
    if has_files and not all(map(agrees, loaded, (of.scans for of in one.replicas))):
        return None
    if lags and not _begin_alike(one, loaded):
        return None
    replicas = {of.broker_id: _replica(of, made, one) for of, made in zip(one.replicas, loaded, strict=True)}
    context = Context(
        leader_epoch=one.leader_epoch,
        enters_epoch_at_once=one.cluster.applies is Protocol.TRUNCATE_ON_FETCH,
        compacted=one.compacted,
        simultaneous=one.cluster.simultaneous,
    )
    leader, is_down = replicas[one.leader.broker_id], one.cluster.broker_states.get(one.told.leader) == "down"
    impacts = list(impact_rows(one.told, one.known.commits, leader, replicas, context=context, leader_is_down=is_down))
    return None if any(row.affected is not False for row in impacts) else Healthy(one, replicas, impacts)


def _loaded(one: KnownReplica, read_again: ReadAgain) -> Loaded:
    """The replica as of `load`, which finds nothing to say of segments that are sound."""
    segments, files = tuple(scan.segment for scan in one.scans), one.files
    log = load_log(
        segments,
        checkpoint=table(files.epochs),
        log_start_checkpoint=files.log_start_offset,
        recovery_point=files.recovery_point or 0,
        recovers=not (files.clean_shutdown or one.alive),
        runs_on=bool(one.alive),
    )
    return Loaded(
        broker_id=one.broker_id,
        files=files,
        log=log,
        unreadable=None,
        scanned={scan.file: scan.segment.runs for scan in one.scans},
        problems=(),
        read_again=read_again,
        read_stored=_not_read,
        read_snapshot=_not_read,
        producers=_producers(segments),
    )


@once
def _producers(segments: Sequence[Segment]) -> Producers | None:
    return producers_of_log(one.producers for one in segments)


def _begin_alike(one: Candidate, loaded: Sequence[Loaded]) -> bool:
    """Whether followers that lag hold the leader's batches."""
    leader = next(made for of, made in zip(one.replicas, loaded, strict=True) if of is one.leader)
    lagging = [made for of, made in zip(one.replicas, loaded, strict=True) if of.end < one.leader.end]
    return all(holds_the_beginning(leader, made) for made in lagging)


def _replica(one: KnownReplica, loaded: Loaded, of: Candidate) -> Replica:
    return loaded.replica(
        alive=one.alive,
        may_have_run=may_have_run(one.broker_id, one.files, of.cluster),
        in_isr=one.broker_id in of.told.isr,
        frozen=of.cluster.broker_states.get(one.broker_id) == "paused",
        of_one_time=of.cluster.simultaneous,
        has_remote_storage=False,
    )


def _not_read(*_of: object) -> Any:
    raise AssertionError("what is healthy is not read a second time")
