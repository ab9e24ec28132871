"""What is to be explained: which run, which cluster, which partition, which followers. Every answer but one is an error that helps."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from replica_audit.errors import UsageError
from replica_audit.formats.log_dir.names import METADATA_TOPIC
from replica_audit.program import command_line
from replica_audit.report.facts.partition_facts import PARTITION_TABLES, ClusterOfRow, Tables, TopicPartition
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.replicas import ReplicaLog
from replica_audit.rows.runs import AuditRun
from replica_audit.words import count

_PARTITION = re.compile(r"([A-Za-z0-9._-]{1,249})-([0-9]{1,10})")
_LARGEST_PARTITION = 2**31 - 1
_LISTED = 5
_MATCHED_TOPICS = 20_000  # likeness is slow; beyond this many only names that contain each other are close


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was asked. `run_id` None is the latest complete run, `cluster_id` None the only one, `follower_id` None all followers."""

    topic: str
    partition: int
    run_id: str | None = None
    cluster_id: str | None = None
    follower_id: int | None = None

    @property
    def name(self) -> str:
        """The partition as Kafka writes it."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What the question is about: the run of one cluster, and the verdicts on the followers that were asked for, in order.

    `alone` says why there are none; None if there are some.
    """

    run: AuditRun
    topic: str
    partition: int
    verdicts: tuple[ReplicaVerdict, ...]
    alone: str | None = None


def parse_partition(text: str) -> tuple[str, int]:
    """TOPIC-N as its parts.

    Raises:
        UsageError: it is not of this form.
    """
    match = _PARTITION.fullmatch(text)
    if match is None or int(match[2]) > _LARGEST_PARTITION:
        raise UsageError(f"--partition {text!r}: not TOPIC-N; give the topic and the partition's number, such as orders-0")
    return match[1], int(match[2])


def find(tables: Tables, question: Question) -> Subject:
    """Find what was asked for.

    Raises:
        UsageError: it is not there, or there is more than one; the message says what there is.
    """
    run_id, runs = chosen_run(tables, run_id=question.run_id, cluster_id=question.cluster_id)
    keys: dict[str, str | int] = {"topic": question.topic, "partition": question.partition}
    if not tables.has("replica_verdicts"):
        raise UsageError(f"warehouse {tables.location}: has no table replica_verdicts; audit again into a new warehouse")
    names = ("replica_verdicts", "findings", *PARTITION_TABLES)
    everywhere = {one.cluster_id for name in names for one in tables.distinct(name, ClusterOfRow, run_id=run_id, **keys)}
    clusters = sorted(cluster for cluster in everywhere if question.cluster_id in (None, cluster))
    if not clusters:
        raise UsageError(_nothing_said(tables, question, run_id, everywhere))
    if len(clusters) > 1:
        raise UsageError(f"{question.name} is in {len(clusters)} clusters of run {run_id}; give one with --cluster: {_listed(clusters)}")
    verdicts = tables.rows("replica_verdicts", ReplicaVerdict, run_id=run_id, cluster_id=clusters[0], **keys)
    run = next(run for run in runs if run.cluster_id == clusters[0])
    if verdicts:
        return Subject(run=run, topic=question.topic, partition=question.partition, verdicts=_of_follower(verdicts, question))
    alone = _alone(question, tables.rows("replica_logs", ReplicaLog, run_id=run_id, cluster_id=clusters[0], **keys))
    if question.follower_id is not None:
        raise UsageError(f"--follower {question.follower_id}: {question.name} has no follower to explain in run {run_id}: {alone}")
    return Subject(run=run, topic=question.topic, partition=question.partition, verdicts=(), alone=alone)


def no_warehouse(location: str) -> UsageError:
    """What to say of a place that holds no table of runs."""
    return UsageError(
        f"--warehouse {location}: not a warehouse: it has no table audit_runs; "
        "give the directory that an audit wrote its tables to (its --warehouse)"
    )


def chosen_run(tables: Tables, *, run_id: str | None = None, cluster_id: str | None = None) -> tuple[str, list[AuditRun]]:
    """The run's id and its rows: the one that was asked for, else the one that began last of those that count.

    Args:
        tables: to look in.
        run_id: None for the latest complete run.
        cluster_id: only runs of this cluster; None for any.

    Raises:
        UsageError: there is no such run, or it is not complete; the message says what there is.
    """
    if not tables.has("audit_runs"):
        raise no_warehouse(tables.location)
    if run_id is not None and cluster_id is None:  # of hundreds of runs only one need be read
        asked = list(tables.rows("audit_runs", AuditRun, run_id=run_id))
        if asked and all(run.status == "complete" for run in asked):
            return run_id, asked
    known = tables.rows("audit_runs", AuditRun)
    if cluster_id is not None:
        clusters = {run.cluster_id for run in known}
        if cluster_id not in clusters:
            close = _close(cluster_id, clusters) or sorted(clusters)
            raise UsageError(f"--cluster {cluster_id}: no run has that cluster; there are: {_listed(close)}")
        known = tuple(run for run in known if run.cluster_id == cluster_id)
    complete = sorted(
        (run for run in known if run.counts and (cluster_id is None or run.last_seen_run_id is None)),
        key=lambda run: (run.started_at, run.run_id),
        reverse=True,
    )
    latest = _listed(dict.fromkeys(run.run_id for run in complete))
    there_are = f"the latest complete runs are: {latest}" if complete else f"there is no complete run; start {command_line('audit')}"
    if run_id is None:
        if not complete:
            raise UsageError(f"--warehouse {tables.location}: {there_are}")
        return complete[0].run_id, [run for run in complete if run.run_id == complete[0].run_id]
    asked = [run for run in known if run.run_id == run_id]
    if not asked:
        raise UsageError(f"--run-id {run_id}: no such run; {there_are}")
    if any(run.status != "complete" for run in asked):
        # the other tables may hold half of its rows: an explanation of them could be wrong, and nobody would see it
        raise UsageError(
            f"--run-id {run_id}: started at {asked[0].started_at:%Y-%m-%d %H:%M:%S} UTC and not complete, so its rows do not count: "
            f"it still runs, was interrupted and must be started again, or maintain is removing it; {there_are}"
        )
    return run_id, asked


def _of_follower(verdicts: Sequence[ReplicaVerdict], question: Question) -> tuple[ReplicaVerdict, ...]:
    followers = sorted(verdicts, key=lambda verdict: verdict.follower_id)
    if question.follower_id is None:
        return tuple(followers)
    chosen = tuple(verdict for verdict in followers if verdict.follower_id == question.follower_id)
    if chosen:
        return chosen
    there_are = f"its followers: {', '.join(str(verdict.follower_id) for verdict in followers)}"
    if any(verdict.leader_id == question.follower_id for verdict in followers):
        raise UsageError(f"--follower {question.follower_id}: leads {question.name}; give one of {there_are}, or none for all")
    raise UsageError(f"--follower {question.follower_id}: does not follow {question.name}; give one of {there_are}")


def _nothing_said(tables: Tables, question: Question, run_id: str, elsewhere: Iterable[str]) -> str:
    """Why a run has no verdict on a partition."""
    others = sorted(elsewhere)
    if others:
        return f"{question.name} is not in cluster {question.cluster_id} of run {run_id}, but in: {_listed(others)}"
    keys: dict[str, str | int] = {"run_id": run_id}
    if question.cluster_id is not None:
        keys["cluster_id"] = question.cluster_id
    replicas = tables.rows("replica_logs", ReplicaLog, topic=question.topic, partition=question.partition, **keys)
    if replicas:
        return f"{question.name} has no follower to explain in run {run_id}: {_alone(question, replicas)}"
    return f"--partition {question.name}: not in run {run_id}; {_others(question, tables.distinct('replica_logs', TopicPartition, **keys))}"


def _others(question: Question, names: Sequence[TopicPartition]) -> str:
    """What a run knows instead of a partition that it does not know."""
    partitions: dict[str, list[int]] = {}
    for name in names:
        partitions.setdefault(name.topic, []).append(name.partition)
    there = sorted(partitions.get(question.topic, ()))
    if there:
        return f"it has {_listed(f'{question.topic}-{number}' for number in there)}"
    close = [(topic, partitions[topic]) for topic in _close(question.topic, partitions)]
    if close:
        like = (f"{topic}-{question.partition if question.partition in there else min(there)}" for topic, there in close)
        return f"did you mean {' or '.join(like)}?"
    if len(partitions) <= _LISTED:
        return f"it has {_listed(f'{topic}-{number}' for topic, there in sorted(partitions.items()) for number in sorted(there))}"
    return f"it has {len(partitions)} other topics; perhaps --topics limited the run"


def _alone(question: Question, replicas: Sequence[ReplicaLog]) -> str:
    brokers = ", ".join(str(broker) for broker in sorted({replica.broker_id for replica in replicas}))
    states = sorted({replica.state for replica in replicas})
    if question.topic == METADATA_TOPIC:
        return "the metadata log replicates by Raft and is not compared"
    if not replicas:
        return "the input holds none of its replicas"
    if "current" not in states:
        return f"the input holds it only as {' and '.join(states)} (broker {brokers})"
    return f"only broker {brokers} is known to have a replica; if there are others, audit copies of them, too"


def _close(name: str, known: Iterable[str]) -> list[str]:
    names = sorted(known)
    if len(names) <= _MATCHED_TOPICS:
        return difflib.get_close_matches(name, names, n=3)
    return [other for other in names if name in other or other in name][:3]


def _listed(values: Iterable[str]) -> str:
    listed = list(values)
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return ", ".join(listed[:_LISTED]) + more


class CountedTables(Tables, Protocol):
    """Tables whose rows can be counted, and that know what may be wrong with their files."""

    def count(self, table: str, /, **equal: str | int | None) -> int | None:
        """How many rows there are; None if there is no such table."""

    def damage(self, table: str) -> str | None:
        """Which file of a table is damaged, and how; None if that cannot be seen."""

    def way_back(self) -> str:
        """What to do about damage."""


_TRIES = 5  # of a run that is made again, or removed, while it is counted


@dataclass(frozen=True, slots=True, kw_only=True)
class LackingTable:
    """A table with other rows of a run than the run wrote: `there`, None if there is no such table."""

    table: str
    run_id: str
    there: int | None
    written: int

    def sentence(self) -> str:
        """Say so."""
        if self.there is None:
            return f"table {self.table} is missing, run {self.run_id} wrote {count(self.written, 'row')}"
        return f"table {self.table} has {count(self.there, 'row')} of run {self.run_id}, which wrote {self.written}"


def whole_run(tables: CountedTables, *, run_id: str | None = None, cluster_id: str | None = None) -> tuple[str, list[AuditRun]]:
    """Choose a run as `chosen_run` does, and hold it against its tables.

    Raises:
        UsageError: also if a table has fewer or more rows of the run than the run wrote; names the table, and the file if it can.
    """
    found, runs = chosen_run(tables, run_id=run_id, cluster_id=cluster_id)
    for _try in range(_TRIES):
        if is_whole(tables, found):
            break
        found, runs = chosen_run(tables, run_id=run_id, cluster_id=cluster_id)
    return found, runs


def is_whole(tables: CountedTables, run_id: str) -> bool:
    """Whether a run is complete, and its tables hold the rows that it wrote; False: it is being made again or removed.

    Raises:
        UsageError: it is complete, and a table holds other rows.
    """
    for tries_left in reversed(range(_TRIES)):
        rows = tables.rows("audit_runs", AuditRun, run_id=run_id)
        if not rows or any(row.status != "complete" for row in rows):
            break
        lacking = lacking_table(tables, run_id, rows)
        if lacking is None:
            return True
        if not tries_left or _by_cluster(tables.rows("audit_runs", AuditRun, run_id=run_id)) == _by_cluster(rows):
            damage = tables.damage(lacking.table)
            because = f": {damage}" if damage else ""
            raise UsageError(f"warehouse {tables.location}: {lacking.sentence()}{because}. {tables.way_back()}")
    return False


def _by_cluster(rows: Iterable[AuditRun]) -> dict[str, AuditRun]:
    return {row.cluster_id: row for row in rows}


def _written_rows(rows: Iterable[AuditRun]) -> dict[str, int]:
    """How many rows a run wrote, by table, as far as its rows of `audit_runs` say; an older version did not say it of every table."""
    known = list(rows)
    written = next((row.table_rows for row in known if row.table_rows is not None), None)
    if written is not None:
        return dict(written)
    if any(row.replicas is None or row.verdict_counts is None for row in known):
        return {}
    verdicts = sum(number for row in known for number in (row.verdict_counts or {}).values())
    return {"replica_logs": sum(row.replicas or 0 for row in known), "replica_verdicts": verdicts}


def lacking_table(tables: CountedTables, run_id: str, rows: Iterable[AuditRun]) -> LackingTable | None:
    """Return the first table that holds other rows of a run than the run wrote; None if all hold them.

    `rows` are the run's of `audit_runs`.
    """
    for name, number in _written_rows(rows).items():
        there = tables.count(name, run_id=run_id)
        if (there or 0) != number:
            return LackingTable(table=name, run_id=run_id, there=there, written=number)
    return None
