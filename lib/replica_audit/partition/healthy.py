"""Partitions that are healthy by what was read of them: all replicas are one log, or begin it, and nothing is open, cut or in doubt.

That is decided before any replica is loaded and any pair compared, and only where nothing needs to be weighed: what is not simple is left
to `PartitionAudit`, which says the same of what passes here. Kafka's rules are not repeated here. Each condition makes sure that one of
them has nothing to do: who leads is known, and its table has the epoch that it leads in; a follower that asks is answered with records; a
log that is loaded stays as it is; and where nothing is missing, a cleaner took nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from replica_audit.formats.log_dir.names import METADATA_TOPIC
from replica_audit.frozen import once
from replica_audit.model import BatchRun, PartitionMetadata, Producers, ReplicaFiles, ScannedSegment, Segment, Window
from replica_audit.partition.findings.consumers import impact_rows
from replica_audit.partition.findings.roles import role_rows
from replica_audit.partition.known.cluster_facts import ClusterFacts, is_alive, may_have_run
from replica_audit.partition.known.known_partition import KnownPartition, ReadAgain, compaction
from replica_audit.partition.pairs.content import holds_the_beginning
from replica_audit.partition.pairs.pair import PairKeys, lookup_rows, uncut_rows, verdict_row
from replica_audit.partition.replicas import replica_rows
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.partition.replicas.replica_rows import leader_epoch_rows
from replica_audit.protocol.cluster.leadership import Leadership, farthest_copies, latest
from replica_audit.protocol.cluster.metadata_image import ElectionKind
from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.comparison.content import CompareMode, merged
from replica_audit.protocol.epochs.epoch_table import EpochEntry, EpochTable, table
from replica_audit.protocol.epochs.replica_log import load_log
from replica_audit.protocol.exchange.replica import Replica, ReplicaState
from replica_audit.protocol.transactions.open_transactions import open_transactions
from replica_audit.protocol.transactions.producer_spans import producers_of_log
from replica_audit.protocol.verdict.partition_findings import looks_at_table
from replica_audit.protocol.verdict.reasons import clean_prefix, same_over_all
from replica_audit.protocol.verdict.verdict import Judgement, Verdict
from replica_audit.rows import AuditedPartition
from replica_audit.rows.codes import Protocol
from replica_audit.rows.findings import CheckedPartition
from replica_audit.rows.pairs import EpochEndOffset, ReplicaVerdict, TruncationPoint

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

    def begins(self, longer: SoundLog) -> bool:
        """Whether it has batches, and a longer log begins like it, in the same epochs; batches are compared later."""
        shared = tuple(entry for entry in longer.epochs if entry.start_offset < self.end)
        return bool(self.epochs) and self.start == longer.start and self.end < longer.end and self.epochs == shared


@dataclass(frozen=True, slots=True)
class KnownReplica:
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """A partition that may be healthy: `told` is what is known of it last, and `leader` the replica of which that says that it leads."""

    known: KnownPartition
    cluster: ClusterFacts
    told: PartitionMetadata
    replicas: tuple[KnownReplica, ...]
    leader: KnownReplica

    @property
    def leader_epoch(self) -> int:
        """In which the leader leads."""
        return self.told.leader_epoch


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
    found = compaction(one.known, one.told.compacted)
    if not found.anywhere:
        return True
    was_cut = any(election.kind == ElectionKind.UNCLEAN for election in one.told.elections)
    return bool(found.is_known) and not was_cut and all(of.log is not None and of.log.holds_every_record for of in one.replicas)


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
    return None if leader is None else Candidate(known, cluster, told, tuple(replicas), leader)


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


def healthy_rows(one: Candidate, read_again: ReadAgain, agrees: Agrees, *, every_row: bool) -> AuditedPartition | None:
    """Every row about a healthy partition, as `PartitionAudit` makes them; None where what is read again, or a group, says otherwise.

    Args:
        one: what `proven_healthy` gave.
        read_again: reads the batches with which a follower ends that lags: its digests cannot tell of them.
        agrees: whether files about producers agree with a log.
        every_row: also those that only say, epoch by epoch, that nothing is cut.
    """
    cluster, files = one.cluster, {of.broker_id: of.files for of in one.replicas}
    compacted = compaction(one.known, one.told.compacted).anywhere
    metadata = one.told if one.told.compacted is compacted else replace(one.told, compacted=compacted)
    loaded = [_loaded(of, read_again) for of in one.replicas]
    if not (compacted or all(map(agrees, loaded, (of.scans for of in one.replicas)))) or not _begin_alike(one, loaded):
        return None
    replicas = {of.broker_id: _replica(of, made, one) for of, made in zip(one.replicas, loaded, strict=True)}
    leader, leadership = replicas[one.leader.broker_id], Leadership(metadata.leader, metadata.source)
    context = Context(
        leader_epoch=metadata.leader_epoch,
        enters_epoch_at_once=cluster.applies is Protocol.TRUNCATE_ON_FETCH,
        compacted=compacted,
        simultaneous=cluster.simultaneous,
    )
    leader_is_down = cluster.broker_states.get(metadata.leader) == "down"
    impacts = list(impact_rows(metadata, one.known.commits, leader, replicas, context=context, leader_is_down=leader_is_down))
    if any(row.affected is not False for row in impacts):
        return None
    followers = [of for of in one.replicas if of is not one.leader]
    pairs = [PairKeys(one.known.topic, one.known.partition, metadata.leader, of.broker_id) for of in followers]
    verdicts = [
        _verdict(keys, metadata.source, cluster.applies, one.leader, of, compacted=compacted)
        for keys, of in zip(pairs, followers, strict=True)
    ]
    has_batches = bool(one.leader.log and one.leader.log.epochs)
    points: list[TruncationPoint] = []
    lookups: list[EpochEndOffset] = []
    for of, keys in zip(followers, pairs, strict=True) if every_row else ():
        sides = leader.as_leader(), replicas[of.broker_id].as_follower()
        points += uncut_rows(keys, metadata.source, cluster.applies, *sides)
        lookups += lookup_rows(keys, *sides)
    cleaned_until = max(one.cleaner_offset or 0 for one in files.values())
    return AuditedPartition(
        cluster_id=one.known.cluster_id,
        replica_logs=[replica_rows.log_row(made, ran=of.alive) for of, made in zip(one.replicas, loaded, strict=True)],
        segment_epochs=replica_rows.segment_rows(one.known.segments, one.known.topic, one.known.partition),
        epoch_start_offsets=replica_rows.epoch_rows(
            loaded, leader=leader, cleaned_until=cleaned_until, compacted=compacted, metadata=metadata
        ),
        epoch_end_offsets=lookups,
        truncation_points=points,
        replica_verdicts=verdicts,
        replica_roles=list(role_rows(metadata, leadership, replicas, farthest_copies(one.known.claims), cluster, verdicts)),
        leader_epochs=list(leader_epoch_rows(metadata, leader, list(replicas.values()))),
        consumer_impacts=impacts,
        checked=[
            CheckedPartition(
                topic=metadata.topic,
                partition=metadata.partition,
                leader_id=metadata.leader,
                leader_source=metadata.source,
                leader_has_epoch=looks_at_table(leader, context),
                has_no_hanging_transaction=True,
                isr=metadata.isr,
                clean=(metadata.leader, *(of.broker_id for of in followers)),
                same_batches=tuple(of.broker_id for of in followers) if has_batches else (),
                same_records=(),
                proven_pairs=len(followers),
            )
        ],
    )


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


def _verdict(
    keys: PairKeys, source: str, protocol: Protocol, leader: KnownReplica, follower: KnownReplica, *, compacted: bool
) -> ReplicaVerdict:
    """The row of a follower whose log is its leader's, or the beginning of it."""
    if follower.end < leader.end:
        judgement = Judgement(verdict=Verdict.LAGGING, reason=clean_prefix(leader.end - follower.end))
    else:
        judgement = Judgement(verdict=Verdict.IDENTICAL, reason=same_over_all(batches=bool(leader.log and leader.log.epochs)))
    return verdict_row(keys, source, protocol, judgement)(
        common_prefix_end_offset=follower.end,
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
