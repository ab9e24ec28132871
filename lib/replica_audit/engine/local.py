"""The stages of an audit in this process, without Spark: the same functions that Spark maps over rows, in the same order.

Everything known of a cluster is in memory at once, so this is for what one person looks at; `engine.spark` serves whole fleets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.config import Settings
from replica_audit.engine.local_records import keys_of
from replica_audit.engine.second_process import both
from replica_audit.files.locations import SCHEMES
from replica_audit.files.text_files import KeptText
from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from replica_audit.formats.metadata.cluster_metadata import ClusterMetadata
from replica_audit.formats.values import INVENTORY, SEGMENTS, TRANSACTIONS, Row, log_directory, metadata_copy
from replica_audit.garbage import uncollected
from replica_audit.model import LogDirectory, LoggedVersions, MetadataCopy
from replica_audit.partition.known.cluster_facts import ClusterFacts, cluster_facts
from replica_audit.progress import Stage
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.protocol.verdict.acknowledgement import Acknowledgements
from replica_audit.rows import INPUT_ERRORS
from replica_audit.rows.arrow import AUDITED
from replica_audit.stages.commits import list_commits
from replica_audit.stages.inventory import SOURCE_COLUMNS, list_source
from replica_audit.stages.judged import judged
from replica_audit.stages.segments import collected_scans, scan_segment
from replica_audit.stages.transactions import TransactionsOfPartitions, list_transactions
from replica_audit.stages.valid_rows import encoded_audits, fitting, refuse_scan, refuse_with_problem

_AT_ONCE = 256  # rows that are put into Arrow together
_MUCH = 200  # replicas, for which a second process is worth to be made
_OF_COORDINATORS = (GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC)  # what they say goes to the partitions that it is about, so it is read first

Key = tuple[str, int]
Source = tuple[str, int | None, str, str]
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
    sources: Iterable[Source],
    head: ClusterMetadata | None,
    settings: Settings,
    *,
    facts: ClusterFacts | None = None,
    acknowledged: Acknowledgements | None = None,
    tell: BeginsStage = lambda _stage, _replicas: None,
    shares: bool = False,
) -> ClusterAudit:
    """Audit one cluster.

    Args:
        sources: what the inventory lists, as of `Root.sources`.
        head: of its cluster-metadata.json; None if there is none.
        settings: of the run.
        facts: of the cluster, where they are known; None to take them from the metadata.
        acknowledged: what somebody knows of in the cluster.
        tell: is called when a stage begins.
        shares: whether a second process may do half of what is much. The rows, and their order, are the same.
    """
    known, listed = _Known(), tuple(sources)
    shares = shares and not any(path.partition("://")[0] in SCHEMES for _cluster, _broker, path, _kind in listed)  # clients have threads
    with uncollected():
        tell(Stage.LISTING, 0)
        _list(listed, settings.topics, known, shares=shares)
        replicas = sum(len(row["replicas"]) for row in known.partitions.values() if row["is_audited"])
        tell(Stage.READING, replicas)
        now_ms = time.time_ns() // 1_000_000
        told = known.copies, settings, known.versions, now_ms, acknowledged, known.log_directories
        facts = facts or cluster_facts(head, *told)
        rows = [row for _key, row in sorted(known.partitions.items())]
        of_groups, of_transactions = ([row for row in rows if row["topic"] == topic] for topic in _OF_COORDINATORS)
        _scan([*of_groups, *of_transactions], facts.compare)
        _add_commits(of_groups, known, facts)
        transactions = _transactions(of_transactions, known, facts)
        tables = _audited(rows, facts, transactions, lambda: tell(Stage.COMPARING, replicas), shares=shares)
    problems = pa.Table.from_pylist(known.problems, schema=tables[INPUT_ERRORS.name].schema)
    return ClusterAudit(facts=facts, tables=tables, problems=problems, replicas=replicas)


@dataclass(slots=True)
class _Known:
    """What the sources hold: partitions, copies of the metadata log, versions in server logs, log directories, problems of no replica."""

    partitions: dict[Key, Row] = field(default_factory=dict)
    copies: list[MetadataCopy] = field(default_factory=list)
    versions: list[LoggedVersions] = field(default_factory=list)
    log_directories: list[tuple[int, LogDirectory]] = field(default_factory=list)
    problems: list[Row] = field(default_factory=list)

    def partition(self, row: Row) -> Row:
        key = (row["topic"], row["partition"])
        if key not in self.partitions:
            keys = {"cluster_id": row["cluster_id"], "topic": key[0], "partition": key[1]}
            lists: Row = {name: [] for name in ("claims", "replicas", "segments", "events", "commits")}
            self.partitions[key] = {**keys, "is_audited": row["is_audited"], **lists}
        return self.partitions[key]

    def add_problem(self, row: Row) -> None:
        self.problems.append({"cluster_id": row["cluster_id"], "broker_id": row["broker_id"], **row["problem"]})

    def add(self, row: Row) -> None:
        """Take a row of the shape INVENTORY."""
        if row.get("problem"):
            self.add_problem(row)
        elif row.get("metadata_copy"):
            self.copies.append(metadata_copy(row["metadata_copy"]))
        elif row.get("log_directory"):
            self.log_directories.append((row["broker_id"], log_directory(row["log_directory"])))
        elif row.get("versions"):
            versions = LoggedVersions(**row["versions"])
            if versions not in self.versions:
                self.versions.append(versions)
        else:
            of_broker = {"broker_id": row["broker_id"]}
            of_partition = self.partition(row)
            if row.get("event"):
                of_partition["events"].append({**of_broker, "event": row["event"]})
            elif row.get("metadata"):
                of_partition["claims"].append({**of_broker, "metadata": row["metadata"]})
            else:
                of_partition["replicas"].append({**of_broker, "replica": row["replica"]})


def _list(sources: Sequence[Source], topics: str, known: _Known, *, shares: bool) -> None:
    sizes = [_folders_in(path) if shares and kind == "broker" else 0 for _cluster, _broker, path, kind in sources]
    if sum(sizes) < _MUCH:
        found = [_listed(sources, topics)]
    else:
        middle = _middle(sizes)
        found = [*both(partial(_listed, sources[:middle], topics), partial(_listed, sources[middle:], topics))]
    for row in (row for rows in found for row in rows):
        known.add(row)


def _folders_in(path: str) -> int:
    """How many folders are in those of a folder: replicas, if it is a broker's."""
    try:
        return sum(1 for below in Path(path).iterdir() if below.is_dir() for _replica in below.iterdir())
    except OSError:
        return 0  # told when it is listed


def _middle(sizes: Sequence[int]) -> int:
    """How many of the first ones make half of all."""
    sums = list(accumulate(sizes))
    return min(range(1, len(sums)), key=lambda place: abs(sums[-1] - 2 * sums[place - 1]), default=len(sums))


def _listed(sources: Iterable[Source], topics: str) -> list[Row]:
    rows = (row for source in sources for row in list_source(dict(zip(SOURCE_COLUMNS, source, strict=True)), topics))
    return list(_fitting(rows, INVENTORY, refuse_with_problem))


def _audited(
    rows: Sequence[Row], facts: ClusterFacts, transactions: TransactionsOfPartitions, compares: Callable[[], None], *, shares: bool
) -> dict[str, pa.Table]:
    """The rows of every table about some partitions, whose segments are read first."""

    def tables_of(some: Sequence[Row], begins: Callable[[], None]) -> dict[str, pa.Table]:
        _scan([row for row in some if row["topic"] not in _OF_COORDINATORS], facts.compare)
        for row in some:
            row["transactions"] = transactions.of(row)
        begins()
        return _tables(some, facts)

    sizes = [len(row["replicas"]) for row in rows]
    if not shares or sum(sizes) < _MUCH:
        return tables_of(rows, compares)
    middle = _middle(sizes)
    first, second = both(partial(tables_of, rows[:middle], compares), partial(tables_of, rows[middle:], lambda: None))
    return {name: pa.concat_tables([table, second[name]]) for name, table in first.items()}


def _scan(rows: Sequence[Row], mode: CompareMode) -> None:
    """Read the segments of partitions."""
    partitions: dict[Key, Row] = {(row["topic"], row["partition"]): row for row in rows}
    places: list[Row] = []

    def add(row: Row) -> None:
        partitions[row["topic"], row["partition"]]["segments"].append({"broker_id": row["broker_id"], "segment": row["segment"]})

    with KeptText() as kept:
        for row in _fitting(_scanned(rows, places, kept, mode), SEGMENTS, refuse_scan):
            add(row)
    if places:
        for batch in collected_scans(iter([pa.RecordBatch.from_pylist(places)])):
            for row in batch.to_pylist():
                add(row)


def _scanned(rows: Iterable[Row], places: list[Row], kept: KeptText, mode: CompareMode) -> Iterator[Row]:
    """The segments of replicas that are read here; of those that were scanned on their brokers the places are added."""
    for partition in rows:
        for of_broker in partition["replicas"]:
            replica, keys = of_broker["replica"], {"cluster_id": partition["cluster_id"], "broker_id": of_broker["broker_id"]}
            if replica["scans"]:
                places.append({**keys, **{name: replica[name] for name in ("scans", "log_dir", "directory")}})
                continue
            place = {**keys, **{name: replica[name] for name in ("log_dir", "directory", "topic", "partition")}}
            for file in replica["segments"]:
                yield from scan_segment({**place, "file": file}, kept, mode=mode)


def _add_commits(of_groups: Iterable[Row], known: _Known, facts: ClusterFacts) -> None:
    """Give every partition the offsets that groups committed of it."""
    for found in (made for row in of_groups for made in list_commits(row, {row["cluster_id"]: facts})):
        if found.get("problem"):
            known.add_problem(found)
        elif (found["topic"], found["partition"]) in known.partitions:
            known.partitions[found["topic"], found["partition"]]["commits"].append(found["commit"])


def _transactions(of_transactions: Iterable[Row], known: _Known, facts: ClusterFacts) -> TransactionsOfPartitions:
    """What coordinators say of transactions."""
    found = [made for row in of_transactions for made in list_transactions(row, {row["cluster_id"]: facts})]
    fitted = list(_fitting(found, TRANSACTIONS, refuse_with_problem))
    for row in fitted:
        if row.get("problem"):
            known.add_problem(row)
    return TransactionsOfPartitions(row for row in fitted if row.get("transaction"))


def _tables(rows: Iterable[Row], facts: ClusterFacts) -> dict[str, pa.Table]:
    compares = facts.compare is CompareMode.RECORDS
    audited = (judged(row | {"keys": keys_of(row, facts)} if compares else row, facts) for row in rows if row["is_audited"])
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
