"""The order of an audit: discover, list, read, judge, write, conclude. What a stage does is in `stages`, how it is mapped in an engine."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from replica_audit.config import Settings
from replica_audit.engine.mapped import Engine, Facts, Groups, Items, OfPartition
from replica_audit.engine.tally import Tally, merged, totals
from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from replica_audit.formats.metadata.cluster_metadata import ClusterMetadata
from replica_audit.model import Amounts, LogDirectory, LoggedVersions, MetadataCopy, Problem, TransactionState
from replica_audit.partition.known.cluster_facts import ClusterFacts, cluster_facts
from replica_audit.past.doubts import doubts_of
from replica_audit.past.earlier_runs import MissingInput
from replica_audit.past.starts import broker_starts, known_of_brokers, open_outcomes
from replica_audit.progress import Stage
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.protocol.verdict.acknowledgement import Acknowledgements
from replica_audit.report.facts.assessment import by_verdict, exit_code
from replica_audit.report.text.findings_text import WORST, worst_first
from replica_audit.rows import BROKER_STARTS, FINDINGS, INPUT_ERRORS, OF_PARTITIONS, REPLICA_LOGS
from replica_audit.rows.encoding import as_dict
from replica_audit.rows.runs import NO_CLUSTER
from replica_audit.rows.starts import BrokerStart
from replica_audit.stages.inventory import list_source
from replica_audit.stages.items import OF_CLUSTER, OF_LISTING, READINGS, Item, OpenProducers, Source
from replica_audit.stages.segments import scan
from replica_audit.stages.transactions import list_commits, list_transactions, to_partitions, writers
from replica_audit.storage.inputs.sources import Found, Root, about_cluster, problems_of_input
from replica_audit.storage.warehouse.arrow_tables import ArrowTables

Row = dict[str, Any]
_CLUSTER = pa.schema([("cluster_id", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInput:
    """What is audited of a cluster: its sources, what its cluster-metadata.json says, and which of its findings somebody knows of."""

    cluster_id: str
    sources: Sequence[Source]
    head: ClusterMetadata | None = None
    acknowledged: Acknowledgements | None = None

    @classmethod
    def of(cls, root: Root, known: Acknowledgements | None) -> ClusterInput:
        """Take all of a cluster's root."""
        acknowledged = None if known is None else known.of_cluster(root.cluster_id)
        return cls(cluster_id=root.cluster_id, sources=list(map(Source._make, root.sources())), head=root.head, acknowledged=acknowledged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What an audit found: the facts of each cluster, problems of no partition, how much there was, and what was counted."""

    facts: Facts
    problems: Sequence[Item]
    amounts: Amounts
    tally: Tally


class Store(Protocol):
    """Where the rows of a run go, and where they come from."""

    @property
    def tables(self) -> ArrowTables:
        """The tables, with the rows of the run that are written."""

    def judge(self, roots: Sequence[Root]) -> Sequence[Judged]:
        """Audit clusters with an engine, all at once or one after the other."""

    def missing(self, facts: Facts) -> Sequence[MissingInput]:
        """Return what earlier runs of the same inputs had, and this one lacks."""

    def write(self, judged: Judged, problems: Sequence[Row]) -> None:
        """Write the tables about partitions, `findings`, and `input_errors`: `problems` are those of no partition."""

    def write_starts(self, starts: Sequence[BrokerStart]) -> None:
        """Write `broker_starts`."""

    def complete(self, of_run: Row, of_cluster: Mapping[str, Row], tally: Tally) -> None:
        """Write the rows of `audit_runs`: from then on the run counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run over inputs."""

    run_id: str
    run_date: date
    inputs: Sequence[str]
    settings: Settings
    found: Found

    @property
    def columns(self) -> Row:
        """Values of the columns `of_run` of a table, the same in all rows of the run."""
        return {"run_id": self.run_id, "run_date": self.run_date}


def run_audit(run: Run, store: Store) -> None:
    """Audit what was discovered, from the listing to the rows of `audit_runs`.

    Args:
        run: what is audited.
        store: where the rows go.
    """
    found, settings = run.found, run.settings
    parts = store.judge(found.roots)
    judged = Judged(
        facts={cluster: facts for part in parts for cluster, facts in part.facts.items()},
        problems=[problem for part in parts for problem in part.problems],
        amounts=Amounts(*map(sum, zip(Amounts(), *(part.amounts for part in parts), strict=True))),
        tally=merged((part.tally for part in parts), worst_first, WORST),
    )
    tally, has_replicas = judged.tally, bool(judged.amounts.replicas)
    found.problems += problems_of_input(found, judged.facts, run.inputs, settings.topics, has_replicas=has_replicas)
    missing = store.missing(judged.facts) if has_replicas else []
    problems = [{"cluster_id": one.cluster_id, "broker_id": one.broker_id, **as_dict(one.value)} for one in judged.problems]
    store.write(judged, [*found.problem_rows(), *problems])
    starts = broker_starts(store.tables, run.run_id, known_of_brokers(judged.facts, _missing_brokers(missing)))
    store.write_starts(starts)
    code = exit_code(
        *map(totals, (tally.severities, tally.verdicts, tally.acknowledged)),
        starts=open_outcomes(store.tables, run.run_id),
        doubts=doubts_of(store.tables, run.run_id),
        records_unread=tally.records_unread.total(),
        fail_on=settings.fail_on,
        has_replicas=has_replicas,
        all_inputs_read=found.every_input_was_read and not missing,
    )
    sizes = totals(tally.rows)
    errors = Counter(store.tables.columns(INPUT_ERRORS.name, _CLUSTER, run_id=run.run_id)["cluster_id"].to_pylist())
    table_rows = {table.name: sizes[table.name] for table in OF_PARTITIONS}
    table_rows |= {INPUT_ERRORS.name: errors.total(), BROKER_STARTS.name: len(starts)}
    table_rows[FINDINGS.name] = store.tables.count(FINDINGS.name, run_id=run.run_id) or 0
    of_cluster: dict[str, Row] = {
        root.cluster_id: _counts(root, judged) | {"input_errors": errors[root.cluster_id]} for root in found.roots
    }
    for one in missing:
        if one.broker_ids is None:
            of_cluster[one.cluster_id] = _missing_cluster(one)
        else:
            of_cluster[one.cluster_id]["missing_broker_ids"] = list(one.broker_ids)
    store.complete({"exit_code": code, "table_rows": table_rows}, of_cluster or {NO_CLUSTER: {"input_errors": errors.total()}}, tally)


def _counts(root: Root, judged: Judged) -> Row:
    """What the row of a cluster in `audit_runs` says of it."""
    cluster, tally = root.cluster_id, judged.tally
    return {
        **about_cluster(root, judged.facts[cluster]),
        "replicas": tally.rows[cluster, REPLICA_LOGS.name],
        "partitions": tally.partitions[cluster],
        "verdict_counts": by_verdict(tally.of_cluster(tally.verdicts, cluster)),
        "proven_healthy": tally.proven_healthy[cluster],
        "records_unread": tally.records_unread[cluster],
    }


def _missing_brokers(missing: Iterable[MissingInput]) -> dict[str, tuple[int, ...]]:
    """By cluster the brokers that an earlier run read and this input lacks; of a whole cluster that is missing all that were known."""
    return {one.cluster_id: tuple(one.last.broker_ids or () if one.broker_ids is None else one.broker_ids) for one in missing}


def _missing_cluster(one: MissingInput) -> Row:
    """What the row of a cluster in `audit_runs` says that the input lacks: nothing was read of it."""
    last = one.last
    return {
        "path": last.path,
        "protocol": last.protocol,
        "protocol_reason": last.protocol_reason,
        "brokers": 0,
        "replicas": 0,
        "partitions": 0,
        "input_errors": 0,
        "verdict_counts": {},
        "proven_healthy": 0,
        "records_unread": 0,
        "has_metadata": False,
        "broker_ids": None if last.broker_ids is None else list(last.broker_ids),
        "last_seen_run_id": last.last_seen_run_id or last.run_id,
    }


def run_rows(run: Run, of_run: Row, of_cluster: Mapping[str, Row]) -> list[Row]:
    """The rows of `audit_runs`: what is known when the run begins, and what `of_run` and `of_cluster`, by cluster id, say besides."""
    common = {**run.columns, "inputs": list(map(str, run.inputs)), "config": json.dumps(run.settings.model_dump(), sort_keys=True)}
    return [{**common, **of_run, "cluster_id": cluster, **known} for cluster, known in of_cluster.items()]


def judge_clusters(
    engine: Engine[Items, Groups],
    clusters: Sequence[ClusterInput],
    settings: Settings,
    tell: Callable[[Stage, Amounts], None] = lambda _stage, _amounts: None,
    facts: Facts | None = None,
) -> Judged:
    """List, read and judge some clusters.

    Args:
        engine: maps the stages.
        clusters: what is audited.
        settings: of the run.
        tell: is called when a stage begins; not every engine reads before it compares.
        facts: of each cluster, where they are known; None to take them from what is listed.
    """
    tell(Stage.LISTING, Amounts())
    sources = [Item(source.cluster_id, None, None, source.broker_id, source) for of in clusters for source in of.sources]
    listed = engine.keep(engine.flat_map(engine.given(sources), partial(list_source, topics=settings.topics, opened=engine.opened)))
    of_clusters = engine.collect(listed, OF_CLUSTER)
    amounts = Amounts(*map(sum, zip(*(item.value for item in of_clusters if isinstance(item.value, Amounts)), strict=True)))
    facts = facts or {one.cluster_id: _facts(one, of_clusters, settings) for one in clusters}
    problems = [item for item in of_clusters if isinstance(item.value, Problem)]
    mode = CompareMode(settings.compare)

    scanning = partial(scan, mode=mode, opened=engine.opened)

    def scanned(topic: str | None) -> Items:
        return engine.flat_map(engine.spread(engine.of_topic(listed, READINGS, topic), amounts), scanning)

    def coordinator(topic: str, stage: OfPartition) -> Items:
        """Read a coordinator's topic before all else: what it says goes to the partitions that it is about."""
        segments = engine.keep(scanned(topic))
        scans.append(segments)
        said = engine.keep(engine.map_groups(engine.group([engine.of_topic(listed, OF_LISTING, topic), segments]), stage, facts))
        problems.extend(engine.collect(said, [Problem]))
        return said

    tell(Stage.READING, amounts)
    parts, scans = [engine.select(listed, OF_LISTING)], list[Items]()
    if amounts.group_offsets:
        parts.append(coordinator(GROUP_OFFSETS_TOPIC, list_commits))
    states = coordinator(TRANSACTIONS_TOPIC, list_transactions) if amounts.transaction_states else None
    scans.append(scanned(None) if states is None else engine.keep(scanned(None)))
    if states is not None:
        # who has a transaction open in a partition is known by its segments alone
        written = writers(item for some in scans for item in engine.collect(some, [OpenProducers]))
        parts.append(engine.flat_map(engine.select(states, [TransactionState]), partial(to_partitions, written=written)))
    groups = engine.group([*parts, *scans])
    tell(Stage.COMPARING, amounts)
    if mode is CompareMode.RECORDS:
        groups = engine.compare_records(groups, facts, amounts)
    return Judged(facts=facts, problems=problems, amounts=amounts, tally=engine.judge(groups, facts, worst_first, WORST))


def _facts(of: ClusterInput, items: Iterable[Item], settings: Settings) -> ClusterFacts:
    """The facts of a cluster, from what its metadata and its brokers' own logs say."""
    told = [item for item in items if item.cluster_id == of.cluster_id]
    return cluster_facts(
        of.head,
        [item.value for item in told if isinstance(item.value, MetadataCopy)],
        settings,
        list({item.value: None for item in told if isinstance(item.value, LoggedVersions)}),
        time.time_ns() // 1_000_000,
        of.acknowledged,
        [(item.broker_id, item.value) for item in told if isinstance(item.value, LogDirectory) and item.broker_id is not None],
    )
