"""Which pairs are compared record by record, over which offsets, and what came of it, as rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from replica_audit.model import PartitionMetadata, Producers, SegmentFile
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.partition.pairs.pair import Measured, Pair
from replica_audit.partition.pairs.sides import Side
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.cluster.cluster_history import in_sync_since
from replica_audit.protocol.comparison.compaction import ComparedLogs, KeptLog, RecordComparison, compared
from replica_audit.protocol.comparison.pair import removal_start
from replica_audit.protocol.verdict.verdict import Verdict, judge

FEW_BYTES = 16 << 20  # of the segments of all replicas of a partition, whose records are then read unasked: a second
_MOST_EPOCHS = 100  # the last ones, of which it matters when they began
# what a pair may be besides: any other verdict says that the logs are not those of one history, or that one cannot be read
_COMPARED = (
    *(Verdict.COMMITTED_LOSS, Verdict.TRUNCATED_OTHERWISE, Verdict.STALE_TAIL),
    *(Verdict.EPOCH_TABLE_ONLY, Verdict.CONSISTENT, Verdict.LAGGING, Verdict.IDENTICAL),
)


class WantedSegment(NamedTuple):
    """A segment to be read. `with_markers`: later ones that hold the first marker of a producer whose transaction is open at its end."""

    file: SegmentFile
    with_markers: tuple[SegmentFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsWanted:
    """What is to be read of a partition: the logs of its pairs that are compared, and the segments of each broker that is in one."""

    pairs: tuple[ComparedLogs, ...]
    segments: tuple[tuple[int, tuple[WantedSegment, ...]], ...]
    record_count: int

    def end_offset(self, broker_id: int) -> int:
        """How far the records of a broker are wanted: a follower's as far as it keeps them."""
        return next(log.end_offset for log in _logs(self.pairs, broker_id))

    @property
    def bounds(self) -> list[int]:
        """The offsets below each of which the newest record of a key counts."""
        return sorted({pair.end_offset for pair in self.pairs})


def _logs(pairs: Sequence[ComparedLogs], broker_id: int) -> Iterator[KeptLog]:
    return (log for pair in pairs for log in (pair.leader, pair.follower) if log.broker_id == broker_id)


def compared_logs(pair: Pair, measured: Measured, cluster: ClusterFacts, metadata: PartitionMetadata) -> ComparedLogs | None:
    """How far a pair is compared record by record; None if it is not: it is not compacted, or nothing of it is sound.

    Args:
        pair: of two replicas.
        measured: the same, without what server logs say.
        cluster: of the pair.
        metadata: of the partition.
    """
    comparison = measured.comparison
    if not comparison.context.compacted or measured.unread or comparison.effect.fetcher_fails:
        return None
    if comparison.effect.truncation.restart_offset is not None or judge(comparison).verdict not in _COMPARED:
        return None
    cut = removal_start(comparison.follower, comparison.effect)
    follower_end = comparison.follower.log.log_end_offset
    ends = (comparison.leader.log.log_end_offset, follower_end if cut is None else min(cut, follower_end))
    logs = [
        _kept(side, end, cluster.audited_at_ms, simultaneous=comparison.context.simultaneous)
        for side, end in zip((pair.leader, pair.follower), ends, strict=True)
    ]
    found = ComparedLogs(
        leader=logs[0],
        follower=logs[1],
        delete_retention_ms=metadata.delete_retention_ms,
        written_since=tuple(_written_since(pair)),
        is_of_brokers=metadata.topic in (GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC),
    )
    if cut is None:
        found = replace(found, leader=_in_sync(pair, pair.leader, found, metadata), follower=_in_sync(pair, pair.follower, found, metadata))
    return found if found.start_offset < found.end_offset else None


def _kept(side: Side, end: int, audited_at_ms: int, *, simultaneous: bool) -> KeptLog:
    log, copied_at_ms = side.replica.log, side.loaded.files.captured_at_ms
    runs = side.replica.alive is not False and not simultaneous
    return KeptLog(
        broker_id=side.replica.broker_id,
        start_offset=log.log_start_offset,
        end_offset=end,
        cleaned_until=side.replica.cleaner_offset or 0,
        copied_at_ms=audited_at_ms if copied_at_ms is None else copied_at_ms,
        last_timestamp_ms=max((run.max_timestamp_ms for run in log.runs if run.first_offset < end), default=-1),
        runs=runs,
        perhaps_missing=tuple(_between_files(side.loaded)) if runs else (),
    )


def _written_since(pair: Pair) -> Iterator[int]:
    """Where the last leader epochs begin, and when they did, by the metadata log: offsets and times in turn, both ascending."""
    latest = -1
    for term in list(pair.context.commits.terms)[-_MOST_EPOCHS:] if _is_known(pair) else ():
        began = term.states[0].since.timestamp_ms
        firsts = [_first_of(side, term.leader_epoch) for side in (pair.leader, pair.follower)]
        first = min((one for one in firsts if one is not None), default=None)
        if term.begins and began > latest and first is not None:
            latest = began
            yield from (first, began)


def _first_of(side: Side, leader_epoch: int) -> int | None:
    """The first offset of a log that was written in a leader epoch, or in a later one."""
    return min((run.first_offset for run in side.replica.log.runs if run.leader_epoch >= leader_epoch), default=None)


def _is_known(pair: Pair) -> bool:
    """Whether the metadata log is that of the topic, and tells of all that leads to its leader."""
    history = pair.context.commits
    return not history.is_outdated and all(history.is_of(side.replica) for side in (pair.leader, pair.follower))


def _in_sync(pair: Pair, side: Side, logs: ComparedLogs, metadata: PartitionMetadata) -> KeptLog:
    """One of two logs with the offset from which on its replica was in the ISR, where that is proven as far as tombstones can matter.

    A tombstone that was written after the metadata log ends must still be there: so the copies are of no much later time.
    """
    log = logs.leader if side is pair.leader else logs.follower
    history = pair.context.commits
    since = in_sync_since(metadata, history.cluster, log.broker_id) if _is_known(pair) else None
    ended, retention = history.cluster.end.timestamp_ms, logs.delete_retention_ms
    other = logs.follower if side is pair.leader else logs.leader
    is_in_time = retention is not None and ended >= 0 and ended + retention > other.copied_at_ms
    if since is None or not (is_in_time or not history.may_be_older):
        return log
    return replace(log, in_sync_from=_first_of(side, since.leader_epoch))


def _between_files(loaded: Loaded) -> Iterator[int]:
    """The first offset and the end, exclusive, of each span between the last batch of a segment and the base offset of the next one.

    A cleaner may have emptied it; or the segment that held it was made one with the segment before while the files were copied, and the
    copy has the older version of that. An oldest one that is there and empty has none before it: it holds nothing.
    """
    for place, ((file, runs), (following, _)) in enumerate(pairwise(loaded.scanned.items())):
        if not place and not runs:
            continue
        first = max((run.last_offset + 1 for run in runs), default=file.base_offset)
        if first < following.base_offset:
            yield from (first, following.base_offset)


def without_records(loaded: Loaded) -> str | None:
    """Why the input does not hold the records of a replica; None if it does."""
    file = next((file for file in loaded.files_in_log if bytes_of(file) is None), None)
    if file is None:
        return None
    kind = "text" if file.source == "dump" else "batches only"
    return f"of broker {loaded.broker_id} the input holds {kind}, not its records ({file.path})"


def bytes_of(file: SegmentFile) -> str | None:
    """Where the bytes of a segment are, None if the input does not hold them."""
    return file.path if file.source == "raw" else file.copy


def wanted(
    pairs: Sequence[ComparedLogs], loaded: Sequence[Loaded], producers: Mapping[tuple[int, SegmentFile], Producers | None]
) -> RecordsWanted | None:
    """What is to be read for pairs, of which those are left out that the input does not hold the records of; None if nothing is.

    Args:
        pairs: of one partition, with one leader.
        loaded: its replicas.
        producers: of each segment, by broker and file.
    """
    readable = {one.broker_id: one for one in loaded if without_records(one) is None}
    kept = tuple(pair for pair in pairs if {pair.leader.broker_id, pair.follower.broker_id} <= readable.keys())
    if not kept:
        return None
    segments = []
    for broker in sorted({log.broker_id for pair in kept for log in (pair.leader, pair.follower)}):
        files = [(file, producers.get((broker, file))) for file in readable[broker].files_in_log]
        behind = {end for log in _logs(kept, broker) for end in log.perhaps_missing[1::2]}
        of_broker = (WantedSegment(file, tuple(_with_markers(told, files[place:], behind))) for place, (file, told) in enumerate(files, 1))
        segments.append((broker, tuple(of_broker)))
    count = sum(run.record_count for broker, _files in segments for runs in readable[broker].scanned.values() for run in runs)
    return RecordsWanted(pairs=kept, segments=tuple(segments), record_count=count)


def _with_markers(
    producers: Producers | None, later: Iterable[tuple[SegmentFile, Producers | None]], behind: Collection[int]
) -> Iterator[SegmentFile]:
    """The segments that hold the first marker of each producer whose transaction is open; those of which it is not known, too.

    None behind a file that the copy may lack: that one may have held the marker, and the next marker is of a later transaction.
    """
    opened = {span.producer_id for span in producers.spans if span.open_first_offset >= 0} if producers else set()
    is_known = producers is not None and not producers.untold_batches
    for file, told in later:
        if file.base_offset in behind or (is_known and not opened):
            return
        ended = {span.producer_id for span in told.spans if span.marker_count > 0} if told else set()
        if not is_known or told is None or told.untold_batches or ended & opened:
            yield file
        opened -= ended


def with_records(pair: Pair, measured: Measured, logs: ComparedLogs | None, known: KnownPartition) -> Measured:
    """The pair with what its records are, once they were read; `logs` as `compared_logs` gives it."""
    if logs is None or known.records is None:
        return measured
    sides = (pair.leader.loaded, pair.follower.loaded)
    lacking = next((why for why in map(without_records, sides) if why is not None), None)
    brokers = [side.broker_id for side in sides]
    unread = lacking or next(
        (f"of broker {one} {problem.path}: {problem.detail}" for one, problem in known.records.unread if one in brokers), None
    )
    if unread is not None:
        found = RecordComparison(unread=unread, is_held=lacking is None)
    else:
        found = compared(keys for follower, keys in known.records.differing if follower == logs.follower.broker_id)
    return replace(measured, comparison=replace(measured.comparison, records=found))
