"""The stages of an audit in this process, without Spark: the same functions that Spark maps over rows, in the same order.

Everything known of a cluster is in memory at once, so this is for what one person looks at; `engine.spark` serves whole fleets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.config import Settings
from replica_audit.engine.local_records import keys_of
from replica_audit.files.text_files import KeptText
from replica_audit.formats.collection.broker_folder import CollectedLogDir, SharedSegments
from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from replica_audit.formats.metadata.cluster_metadata import ClusterMetadata
from replica_audit.formats.values import SEGMENTS, TRANSACTIONS, Row, committed_offset, scanned_segment, transaction_state
from replica_audit.garbage import uncollected
from replica_audit.model import (
    BytesToRead,
    CommittedOffset,
    LogDirectory,
    LoggedVersions,
    MetadataCopy,
    PartitionMetadata,
    Problem,
    ReplicaFiles,
    ScannedSegment,
)
from replica_audit.partition.known.cluster_facts import ClusterFacts, cluster_facts
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.progress import Stage
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.protocol.comparison.observed import LogEvent
from replica_audit.protocol.verdict.acknowledgement import Acknowledgements
from replica_audit.rows import INPUT_ERRORS
from replica_audit.rows.arrow import AUDITED
from replica_audit.rows.encoding import as_dict
from replica_audit.stages.inventory import Item, Source, bytes_to_read, fitting_items, list_items
from replica_audit.stages.judged import judged
from replica_audit.stages.partitions import read_records
from replica_audit.stages.segments import collected_segments, scan_segment
from replica_audit.stages.transactions import TransactionsOfPartitions, list_commits, list_transactions
from replica_audit.stages.valid_rows import encoded_audits, fitting, refuse_scan, refuse_with_problem

_AT_ONCE = 256  # rows that are put into Arrow together
_OF_COORDINATORS = (GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC)  # what they say goes to the partitions that it is about, so it is read first

Key = tuple[str, int]
Sources = Iterable[tuple[str, int | None, str, str]]  # as of `Root.sources`
BeginsStage = Callable[[Stage, int], None]  # takes a stage, and how many replicas it is about


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAudit:
    """What the audit of one cluster found.

    `tables`: the rows of every table about partitions, and those of the shapes FOUND and CHECKED as `found` and `checked`; `problems`: rows
    of `input_errors` that belong to no partition. All have a cluster_id and no run_id. `replicas`: directories that were audited.
    """

    facts: ClusterFacts
    tables: Mapping[str, pa.Table]
    problems: pa.Table
    replicas: int


def audit_cluster(
    sources: Sources,
    head: ClusterMetadata | None,
    settings: Settings,
    *,
    facts: ClusterFacts | None = None,
    acknowledged: Acknowledgements | None = None,
    tell: BeginsStage = lambda _stage, _replicas: None,
) -> ClusterAudit:
    """Audit one cluster.

    Args:
        sources: what the inventory lists, as of `Root.sources`.
        head: of its cluster-metadata.json; None if there is none.
        settings: of the run.
        facts: of the cluster, where they are known; None to take them from the metadata.
        acknowledged: what somebody knows of in the cluster.
        tell: is called when a stage begins.
    """
    known = _Cluster()
    with uncollected():
        tell(Stage.LISTING, 0)
        for source in map(Source._make, sources):
            for item in fitting_items(source.cluster_id, list_items(source, settings.topics, known.collections)):
                known.add(source.cluster_id, item)
        replicas = sum(len(one.replicas) for one in known.partitions.values() if one.is_audited)
        tell(Stage.READING, replicas)
        now_ms = time.time_ns() // 1_000_000
        told = known.copies, settings, known.versions, now_ms, acknowledged, known.log_directories
        facts = facts or cluster_facts(head, *told)
        partitions = [one for _key, one in sorted(known.partitions.items())]
        of_groups, of_transactions = ([one for one in partitions if one.topic == topic] for topic in _OF_COORDINATORS)
        _scan([*of_groups, *of_transactions], known, facts.compare)
        _add_commits(of_groups, known, facts)
        transactions = _transactions(of_transactions, known, facts)
        _scan([one for one in partitions if one.topic not in _OF_COORDINATORS], known, facts.compare)
        tell(Stage.COMPARING, replicas)
        tables = _tables((one.known(transactions) for one in partitions if one.is_audited), facts)
    problems = pa.Table.from_pylist(known.problems, schema=tables[INPUT_ERRORS.name].schema)
    return ClusterAudit(facts=facts, tables=tables, problems=problems, replicas=replicas)


def listed_amounts(sources: Sources, topics: str) -> BytesToRead:
    """How much there is of everything; no segment is opened, no server.log read.

    Args:
        sources: what the inventory lists, as of `Root.sources`.
        topics: as the setting.
    """
    listed = (Source(*source) for source in sources)
    return bytes_to_read(item for source in listed if source.kind != "server-log" for item in list_items(source, topics))


@dataclass(slots=True)
class _Partition:
    """What is read of one partition, as of `KnownPartition`."""

    cluster_id: str
    topic: str
    partition: int
    is_audited: bool
    claims: list[tuple[int | None, PartitionMetadata]] = field(default_factory=list)
    replicas: list[tuple[int, ReplicaFiles]] = field(default_factory=list)
    segments: list[tuple[int, ScannedSegment]] = field(default_factory=list)
    events: list[LogEvent] = field(default_factory=list)
    commits: list[CommittedOffset] = field(default_factory=list)

    def known(self, transactions: TransactionsOfPartitions | None = None) -> KnownPartition:
        found = KnownPartition(
            cluster_id=self.cluster_id,
            topic=self.topic,
            partition=self.partition,
            claims=tuple(self.claims),
            replicas=tuple(self.replicas),
            segments=tuple(self.segments),
            events=tuple(self.events),
            commits=tuple(self.commits),
        )
        told = transactions.of(found) if transactions else ()
        return replace(found, transactions=told) if told else found


@dataclass(slots=True)
class _Cluster:
    """What the sources hold: partitions, copies of the metadata log, versions in server logs, log directories, problems of no replica."""

    partitions: dict[Key, _Partition] = field(default_factory=dict)
    copies: list[MetadataCopy] = field(default_factory=list)
    versions: list[LoggedVersions] = field(default_factory=list)
    log_directories: list[tuple[int, LogDirectory]] = field(default_factory=list)
    problems: list[Row] = field(default_factory=list)
    collections: dict[str, CollectedLogDir] = field(default_factory=dict)  # by where their scans are

    def add(self, cluster_id: str, item: Item) -> None:
        """Take what a source holds."""
        broker, value, is_audited = item
        if isinstance(value, ReplicaFiles) and broker is not None:
            self._partition(cluster_id, value, is_audited).replicas.append((broker, value))
        elif isinstance(value, PartitionMetadata):
            self._partition(cluster_id, value, is_audited).claims.append((broker, value))
        elif isinstance(value, LogEvent):
            self._partition(cluster_id, value, is_audited).events.append(value)
        elif isinstance(value, MetadataCopy):
            self.copies.append(value)
        elif isinstance(value, LogDirectory) and broker is not None:
            self.log_directories.append((broker, value))
        elif isinstance(value, LoggedVersions) and value not in self.versions:
            self.versions.append(value)
        elif isinstance(value, Problem):
            self.add_problem(cluster_id, broker, as_dict(value))

    def add_problem(self, cluster_id: str, broker: int | None, problem: Row) -> None:
        self.problems.append({"cluster_id": cluster_id, "broker_id": broker, **problem})

    def _partition(self, cluster_id: str, of: ReplicaFiles | PartitionMetadata | LogEvent, is_audited: bool) -> _Partition:
        key = (of.topic, of.partition)
        if key not in self.partitions:
            self.partitions[key] = _Partition(cluster_id, of.topic, of.partition, is_audited)
        return self.partitions[key]


def _scan(partitions: Sequence[_Partition], known: _Cluster, mode: CompareMode) -> None:
    """Read the segments of partitions."""
    by_key = {(one.topic, one.partition): one for one in partitions}
    collected: dict[tuple[int, str], set[str]] = {}
    with KeptText() as kept:
        for row in _fitting(_scanned(partitions, collected, kept, mode), SEGMENTS, refuse_scan):
            by_key[row["topic"], row["partition"]].segments.append((row["broker_id"], scanned_segment(row["segment"])))
    shared: SharedSegments = {}
    for (broker, scans), directories in collected.items():
        for name, scan in collected_segments(known.collections[scans], directories, shared):
            by_key[name.topic, name.partition].segments.append((broker, scan))


def _scanned(
    partitions: Iterable[_Partition], collected: dict[tuple[int, str], set[str]], kept: KeptText, mode: CompareMode
) -> Iterator[Row]:
    """The segments of replicas that are read here; those that were scanned on their brokers are added to `collected`."""
    for of in partitions:
        for broker, files in of.replicas:
            if files.scans:
                collected.setdefault((broker, files.scans), set()).add(files.directory)
                continue
            keys = {"cluster_id": of.cluster_id, "broker_id": broker, "topic": of.topic, "partition": of.partition}
            for file in files.segments:
                place = {**keys, "log_dir": files.log_dir, "directory": files.directory, "file": as_dict(file)}
                yield from scan_segment(place, kept, mode=mode)


def _add_commits(of_groups: Iterable[_Partition], known: _Cluster, facts: ClusterFacts) -> None:
    """Give every partition the offsets that groups committed of it."""
    for found in (made for one in of_groups for made in list_commits(one.known(), facts)):
        if found.get("problem"):
            known.add_problem(found["cluster_id"], found["broker_id"], found["problem"])
        elif (found["topic"], found["partition"]) in known.partitions:
            of = known.partitions[found["topic"], found["partition"]]
            of.commits.append(committed_offset(of.topic, of.partition, found["commit"]))


def _transactions(of_transactions: Iterable[_Partition], known: _Cluster, facts: ClusterFacts) -> TransactionsOfPartitions:
    """What coordinators say of transactions."""
    found = [made for one in of_transactions for made in list_transactions(one.known(), facts)]
    fitted = list(_fitting(found, TRANSACTIONS, refuse_with_problem))
    for row in fitted:
        if row.get("problem"):
            known.add_problem(row["cluster_id"], row["broker_id"], row["problem"])
    return TransactionsOfPartitions(transaction_state(row["transaction"]) for row in fitted if row.get("transaction"))


def _tables(partitions: Iterable[KnownPartition], facts: ClusterFacts) -> dict[str, pa.Table]:
    if facts.compare is CompareMode.RECORDS:
        partitions = (replace(one, records=read_records(keys_of(one, facts))) for one in partitions)
    audited = (judged(one, facts) for one in partitions)
    parts: dict[str, list[pa.Table]] = {name: [] for name in AUDITED.names if name != "cluster_id"}
    while some := list(islice(audited, _AT_ONCE)):
        batch = encoded_audits(some)
        for name, found in parts.items():
            found.append(_inlined(batch, name))
    return {name: pa.concat_tables(found) if found else _inlined(AUDITED.empty_table(), name) for name, found in parts.items()}


def _inlined(audited: pa.RecordBatch | pa.Table, name: str) -> pa.Table:
    """One table's rows of partitions of the shape AUDITED, with their cluster_id."""
    column: Any = audited[name]
    rows = pc.list_flatten(column)
    clusters = pc.take(audited["cluster_id"], pc.list_parent_indices(column))
    fields = list(column.type.value_type)
    columns = [clusters, *(pc.struct_field(rows, [place]) for place in range(len(fields)))]
    return pa.Table.from_arrays(columns, schema=pa.schema([AUDITED.field("cluster_id"), *fields]))


def _fitting(rows: Iterable[Row], schema: pa.Schema, refused: Any) -> Iterator[Row]:
    pending = iter(rows)
    while some := list(islice(pending, _AT_ONCE)):
        yield from fitting(some, schema, refused)
