"""What is said of a partition as a whole, whichever follower was asked for: who is what, who led, who else could, and whom it concerns."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from replica_audit.protocol.verdict.acknowledgement import FOUND_NOW
from replica_audit.protocol.verdict.partition_findings import IncidentKind, PartitionCode
from replica_audit.rows.columns import ClusterId, OfPartition
from replica_audit.rows.findings import RunFinding
from replica_audit.rows.history import ConsumerImpact, LeaderEpoch, LoggedIncident
from replica_audit.rows.records import DamagedBatch, MissingSequences, OpenTransactionRow
from replica_audit.rows.replicas import FutureReplica, ReplicaLog, ReplicaRole
from replica_audit.rows.runs import AuditRun
from replica_audit.rows.what_if import WhatIfLeader

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


RowT = TypeVar("RowT", bound="DataclassInstance")


class Tables(Protocol):
    """Tables by name, a class of rows whose fields name the wanted columns, and the values that columns must equal.

    `cut_short` names the tables that held more rows than were read.
    """

    location: str
    cut_short: list[str]

    def has(self, table: str) -> bool:
        """Whether there is such a table."""

    def rows(self, table: str, kind: type[RowT], /, **equal: str | int | None) -> tuple[RowT, ...]:
        """The rows, in no order."""

    def distinct(self, table: str, kind: type[RowT], /, **equal: str | int | None) -> tuple[RowT, ...]:
        """The rows, each value once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOfRow:
    """The cluster that a row is about."""

    cluster_id: ClusterId


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartition(OfPartition):
    """The partition that a row is about."""


def common_folder(logs: Sequence[ReplicaLog]) -> str:
    """The deepest folder that holds all log directories; empty if there is none."""
    folders = {posixpath.dirname(log.log_dir) for log in logs}
    return posixpath.commonpath(folders) if folders and len({path.startswith("/") for path in folders}) == 1 else ""


def below(folder: str, text: str) -> str:
    """A text without the folder that its paths begin with."""
    return text.replace(f"{folder}/", "") if folder.strip("/") else text


def lies_in(folder: str, path: str) -> bool:
    """Whether a path is a folder, or lies in it."""
    return path == folder or path.startswith(f"{folder}/")


PARTITION_TABLES = (
    "replica_roles",
    "leader_epochs",
    "consumer_impacts",
    "what_if_leaders",
    "future_replicas",
    "logged_incidents",
    "damaged_batches",
    "sequence_gaps",
    "open_transactions",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """The rows about one partition, each in the order of telling. `findings` are those that are no verdict on a follower.

    `alone` says why there is no follower to explain; None if there is one. `folder` and `cut_short` as in an explanation of a follower.
    """

    run: AuditRun
    warehouse: str
    folder: str
    topic: str
    partition: int
    alone: str | None
    roles: tuple[ReplicaRole, ...]
    elections: tuple[LeaderEpoch, ...]
    incidents: tuple[LoggedIncident, ...]
    impacts: tuple[ConsumerImpact, ...]
    choices: tuple[WhatIfLeader, ...]
    futures: tuple[FutureReplica, ...]
    cut_short: tuple[str, ...]
    findings: tuple[RunFinding, ...] = ()
    damaged: tuple[DamagedBatch, ...] = ()
    gaps: tuple[MissingSequences, ...] = ()
    transactions: tuple[OpenTransactionRow, ...] = ()

    @property
    def name(self) -> str:
        """The partition as Kafka writes it."""
        return f"{self.topic}-{self.partition}"

    @property
    def offline(self) -> RunFinding | None:
        """That nobody leads it; None if somebody does, or if it is not known."""
        return next((one for one in self.findings if one.code == PartitionCode.OFFLINE_PARTITION), None)


def partition_facts(tables: Tables, run: AuditRun, topic: str, partition: int, *, alone: str | None, folder: str) -> PartitionFacts:
    """Read what a run knows of a partition; a table that is not there has nothing to say."""
    keys: dict[str, str | int] = {"run_id": run.run_id, "cluster_id": run.cluster_id, "topic": topic, "partition": partition}
    futures = [
        replace(
            row,
            log_dir=row.log_dir and below(folder, row.log_dir),
            future_log_dir=below(folder, row.future_log_dir),
            reason=below(folder, row.reason),
        )
        for row in tables.rows("future_replicas", FutureReplica, **keys)
    ]
    choices = [replace(row, reason=below(folder, row.reason)) for row in tables.rows("what_if_leaders", WhatIfLeader, **keys)]
    roles = [
        replace(row, isr_objection=row.isr_objection and below(folder, row.isr_objection))
        for row in tables.rows("replica_roles", ReplicaRole, **keys)
    ]
    incidents = [replace(row, summary=below(folder, row.summary)) for row in tables.rows("logged_incidents", LoggedIncident, **keys)]
    return PartitionFacts(
        run=run,
        warehouse=tables.location,
        folder=folder,
        topic=topic,
        partition=partition,
        alone=alone,
        roles=tuple(sorted(roles, key=lambda row: row.broker_id)),
        elections=tuple(sorted(tables.rows("leader_epochs", LeaderEpoch, **keys), key=lambda row: row.leader_epoch)),
        incidents=tuple(sorted(incidents, key=lambda row: (row.logged_at or "", row.path, row.line))),
        impacts=tuple(sorted(tables.rows("consumer_impacts", ConsumerImpact, **keys), key=_worst_first)),
        choices=tuple(sorted(choices, key=lambda row: (row.rank is None, row.rank or 0, row.candidate_id))),
        futures=tuple(sorted(futures, key=lambda row: (row.broker_id, row.future_log_dir, row.directory))),
        gaps=tuple(
            sorted(tables.rows("sequence_gaps", MissingSequences, **keys), key=lambda row: (not row.is_certain, row.first_offset_after))
        ),
        transactions=tuple(sorted(tables.rows("open_transactions", OpenTransactionRow, **keys), key=lambda row: row.first_offset)),
        cut_short=tuple(dict.fromkeys(tables.cut_short)),
        damaged=damaged_batches(tables, folder, keys),
        findings=tuple(sorted(_findings(tables, folder, keys), key=lambda row: (row.code != PartitionCode.OFFLINE_PARTITION, row.code))),
    )


def damaged_batches(tables: Tables, folder: str, keys: Mapping[str, str | int]) -> tuple[DamagedBatch, ...]:
    """The damaged batches of a partition, by broker and offset."""
    found = [replace(row, path=below(folder, row.path)) for row in tables.rows("damaged_batches", DamagedBatch, **keys)]
    return tuple(sorted(found, key=lambda row: (row.broker_id, row.first_offset)))


def _findings(tables: Tables, folder: str, keys: dict[str, str | int]) -> Iterator[RunFinding]:
    for row in tables.rows("findings", RunFinding, **keys):
        # what brokers logged stands by itself, as incidents
        if row.code in set(PartitionCode).difference(IncidentKind) and row.status in FOUND_NOW:
            yield replace(row, summary=below(folder, row.summary))


def _worst_first(row: ConsumerImpact) -> tuple[int, int, int, str]:
    """Affected groups, then those of which it cannot be told, each by what is gone, then by what they never read."""
    certainty = {True: 0, None: 1, False: 2}[row.affected]
    return certainty, -(row.records_gone or 0), -(row.records_missed or 0), row.group_id
