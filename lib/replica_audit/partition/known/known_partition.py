"""What was read of one partition: all that its audit starts from, and whether its topic is compacted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from replica_audit.model import (
    BatchHeader,
    BatchRun,
    CommittedOffset,
    PartitionMetadata,
    Problem,
    ProducerState,
    ReplicaFiles,
    ScannedSegment,
    Segment,
    SegmentFile,
    StoredBatch,
    StoredDamage,
    TransactionState,
)
from replica_audit.protocol.comparison.compaction import DifferingKeys, lacks_records, shows_cleaning
from replica_audit.protocol.comparison.observed import LogEvent
from replica_audit.rows.runs import ReportedProblem

# Reads the batches of segments of a replica of a broker again, from the one that holds an offset on, each segment after the other; the
# runs that their scans found are given. Raises UnreadBatchesError where they can no longer be read.
ReadAgain = Callable[[int, ReplicaFiles, Mapping[SegmentFile, Sequence[BatchRun]], int], Iterator[BatchHeader]]


# The same, each batch with the file that holds it and, where the input has them, its bytes; and where a segment stops being a log.
ReadStored = Callable[[int, ReplicaFiles, Mapping[SegmentFile, Sequence[BatchRun]], int], Iterator[StoredBatch | StoredDamage]]

# Reads a producer snapshot of a replica, of a name; None where it cannot be read.
ReadSnapshot = Callable[[ReplicaFiles, str], tuple[ProducerState, ...] | None]


class UnreadBatchesError(Exception):
    """The batches of a replica could not be read again: `problem`, of broker `broker_id`."""

    def __init__(self, broker_id: int, problem: Problem) -> None:
        """Remember what happened, and whose replica it was."""
        super().__init__(problem.detail)
        self.broker_id, self.problem = broker_id, problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecords:
    """What comparing records gave: the keys that differ of each follower, and what could not be read, with its broker."""

    differing: tuple[tuple[int, DifferingKeys], ...] = ()
    unread: tuple[tuple[int, Problem], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPartition:
    """One partition as it was read, in any order.

    `claims`: what each source of metadata says of it, with the broker whose copy it is, None for the file beside the brokers; `replicas`
    and `segments`: with their broker; `events`: the lines of brokers' own logs about it; `commits`: what groups committed of it;
    `transactions`: what coordinators say of the transactional ids whose transaction it takes part in, or whose producer has one open in it.
    `records`: what comparing records gave, None before they were read.
    """

    cluster_id: str
    topic: str
    partition: int
    claims: tuple[tuple[int | None, PartitionMetadata], ...] = ()
    replicas: tuple[tuple[int, ReplicaFiles], ...] = ()
    segments: tuple[tuple[int, ScannedSegment], ...] = ()
    events: tuple[LogEvent, ...] = ()
    commits: tuple[CommittedOffset, ...] = ()
    transactions: tuple[TransactionState, ...] = ()
    records: ReadRecords | None = None

    def part(self, is_in: Callable[[int, str], bool]) -> KnownPartition:
        """The same with the replicas and segments of some log directories alone, by broker and path."""
        replicas = tuple((broker, one) for broker, one in self.replicas if is_in(broker, one.log_dir))
        segments = tuple((broker, one) for broker, one in self.segments if is_in(broker, one.log_dir))
        return replace(self, replicas=replicas, segments=segments)


_P = ParamSpec("_P")
_T = TypeVar("_T")


class UnreadBatches:
    """The files that could not be read again."""

    def __init__(self) -> None:
        """None yet."""
        self._found: dict[tuple[int, str], ReportedProblem] = {}

    def noted(self, read: Callable[_P, Iterator[_T]]) -> Callable[_P, Iterator[_T]]:
        """A way to read that raises what it raises, and has it noted."""

        def reading(*arguments: _P.args, **named: _P.kwargs) -> Iterator[_T]:
            try:
                yield from read(*arguments, **named)
            except UnreadBatchesError as error:
                self._found.setdefault((error.broker_id, error.problem.path), ReportedProblem.of(error.broker_id, error.problem))
                raise

        return reading

    def problems(self, told: Collection[ReportedProblem]) -> list[ReportedProblem]:
        """One for each file, by broker and path; none of what the scans have told."""
        known = {(one.broker_id, one.path, one.code) for one in told}
        return [one for _place, one in sorted(self._found.items()) if (one.broker_id, one.path, one.code) not in known]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Whether batches of a partition may be missing without harm.

    `is_known`: by its topic, its cleanup.policy or a cleaner checkpoint; None where the input has none of these. Only then what the logs
    show counts: `cleaned` are the brokers whose replica does.
    """

    is_known: bool | None
    cleaned: frozenset[int] = frozenset()

    @property
    def anywhere(self) -> bool:
        """Whether in any replica."""
        return self.of(*self.cleaned)

    def of(self, *brokers: int) -> bool:
        """Whether in the replicas of these brokers; what one of the others shows says nothing of them."""
        return bool(self.is_known) or (self.is_known is None and not self.cleaned.isdisjoint(brokers))


def compaction(known: KnownPartition, policy: bool | None) -> Compaction:
    """Whether batches may be missing: by cleanup.policy or a cleaner checkpoint, or else by the logs themselves.

    A policy that is known is believed: no broker takes a record out of a batch where it is `delete`. A log that was compacted before the
    policy changed has its entry in the cleaner's checkpoint (LogCleanerManager.updateCheckpoints keeps those of all logs that are there).
    Where the policy is unknown, a batch that lacks records shows a cleaner; holes do only where its checkpoint is not in the input either:
    text of kafka-dump-log, and single directories, come alone.

    Args:
        known: what was read of the partition.
        policy: whether cleanup.policy says so, None if it is unknown.
    """
    files = [one for _broker, one in known.replicas if one.state == "current"]
    if known.topic in (GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC) or policy or any(one.cleaner_offset is not None for one in files):
        return Compaction(is_known=True)
    if policy is not None:
        return Compaction(is_known=False)
    has_checkpoints = all(one.cleaner_offsets_collected for one in files)  # none of them names it
    shows = lacks_records if has_checkpoints else shows_cleaning
    logs: defaultdict[tuple[int, str, str], list[Segment]] = defaultdict(list)
    for broker, scan in known.segments:
        logs[broker, scan.log_dir, scan.directory].append(scan.segment)
    cleaned = {broker for (broker, *_), segments in logs.items() if shows(sorted(segments, key=lambda one: one.base_offset))}
    return Compaction(is_known=None, cleaned=frozenset(cleaned))
