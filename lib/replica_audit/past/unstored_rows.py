"""Rows that a run did not store, made again from those that it did: of followers that are the same or lag, what every rule says of them.

An audit without `--detail all` leaves them out for partitions that are proven healthy: nothing is cut, whatever the rule, and the leader
answers each epoch with its own table. The rows are made by the functions that the audit has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from replica_audit.partition.healthy_rows import StoredLog
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.rows import EPOCH_END_OFFSETS, EPOCH_START_OFFSETS, REPLICA_LOGS, REPLICA_VERDICTS, TRUNCATION_POINTS
from replica_audit.rows.arrow import schema_of
from replica_audit.rows.columns import Bigint, Int, OfPair, OfReplica, Table
from replica_audit.rows.encoding import as_dict
from replica_audit.storage.warehouse.arrow_tables import ArrowTables

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_SCHEMAS = {table.name: schema_of(table) for table in (TRUNCATION_POINTS, EPOCH_END_OFFSETS)}
UNSTORED = tuple(_SCHEMAS)
RowT = TypeVar("RowT", bound="DataclassInstance")
Row = dict[str, Any]
_OF_A_PARTITION = ("run_id", "cluster_id", "topic", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log(OfReplica):
    cluster_id: str
    state: str
    log_start_offset: Bigint | None
    log_end_offset: Bigint | None
    broker_ran: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Epoch(OfReplica):
    cluster_id: str
    leader_epoch: Int
    start_offset: Bigint
    in_effect: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair(OfPair):
    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged(_Pair):
    verdict: str
    leader_source: str
    protocol: str


class WithUnstored:
    """Tables that, asked for the rows of one partition in one run, also have those that are not stored."""

    def __init__(self, tables: ArrowTables) -> None:
        """Take what is stored."""
        self._tables = tables
        self.location, self.cut_short = tables.location, tables.cut_short

    def has(self, table: str) -> bool:
        """Whether there is such a table."""
        return self._tables.has(table)

    def rows(self, table: str, kind: type[RowT], /, **equal: str | int | None) -> tuple[RowT, ...]:
        """The rows, in no order."""
        found = self._tables.rows(table, kind, **equal)
        keys = {name: equal[name] for name in _OF_A_PARTITION if name in equal}
        if table not in UNSTORED or not keys.keys() >= {"run_id", "topic", "partition"}:
            return found
        made = unstored_rows(table, str(equal["run_id"]), lambda other, of: self._tables.rows(other, of, **keys))
        return (*found, *self._tables.typed(table, pa.Table.from_pylist(_equal(made, equal), schema=_SCHEMAS[table]), kind))

    def distinct(self, table: str, kind: type[RowT], /, **equal: str | int | None) -> tuple[RowT, ...]:
        """The rows, each value once."""
        return self._tables.distinct(table, kind, **equal)


def whole(tables: ArrowTables, table: Table, /, **equal: Any) -> pa.Table:
    """All columns of the rows whose columns equal the given values, of a run also those that are not stored.

    Raises:
        UsageError: the table cannot be read.
    """
    found = tables.columns(table.name, schema_of(table), **equal)
    if table.name not in UNSTORED or equal.get("run_id") is None:
        return found
    keys = {name: equal[name] for name in _OF_A_PARTITION if name in equal}

    def stored(other: str, kind: type[RowT], /) -> tuple[RowT, ...]:
        rows = tables.arrow(other, **keys)
        return () if rows is None else tables.typed(other, rows, kind)

    made = _equal(unstored_rows(table.name, equal["run_id"], stored), equal)
    return pa.concat_tables([found, pa.Table.from_pylist(made, schema=found.schema)]) if made else found


def _equal(rows: list[Row], equal: Mapping[str, Any]) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in equal.items())]


class Reads(Protocol):
    """Reads the stored rows of a table about the partitions in question, as rows of a kind."""

    def __call__(self, table: str, kind: type[RowT], /) -> Sequence[RowT]:
        """The rows, in no order."""


def unstored_rows(name: str, run_id: str, stored: Reads) -> list[Row]:
    """The rows of one of the tables UNSTORED that a run did not store.

    Args:
        name: of the table.
        run_id: of the run.
        stored: reads what it stored.
    """
    uncut = [one for one in stored(REPLICA_VERDICTS.name, _Judged) if one.verdict in (Verdict.IDENTICAL, Verdict.LAGGING)]
    known = {_pair(one) for one in stored(TRUNCATION_POINTS.name, _Pair)} if uncut else set()
    pairs = [one for one in uncut if _pair(one) not in known]
    if not pairs:
        return []
    entries: defaultdict[Any, list[tuple[int, int]]] = defaultdict(list)
    for one in stored(EPOCH_START_OFFSETS.name, _Epoch):
        if one.in_effect:
            entries[_replica(one, one.broker_id)].append((one.leader_epoch, one.start_offset))
    logs = {
        _replica(one, one.broker_id): StoredLog(
            one.log_start_offset, one.log_end_offset, tuple(sorted(entries[_replica(one, one.broker_id)])), one.broker_ran
        )
        for one in stored(REPLICA_LOGS.name, _Log)
        if one.state == "current" and one.log_start_offset is not None and one.log_end_offset is not None
    }
    made: list[Row] = []
    for pair in pairs:
        leader, follower = (logs.get(_replica(pair, broker)) for broker in (pair.leader_id, pair.follower_id))
        if leader is not None and follower is not None:
            keys = (pair.topic, pair.partition, pair.leader_id, pair.follower_id)
            is_of_epochs = name == EPOCH_END_OFFSETS.name
            rows = follower.lookups(keys, leader) if is_of_epochs else follower.points(keys, pair.leader_source, pair.protocol, leader)
            made += ({"run_id": run_id, "cluster_id": pair.cluster_id} | as_dict(row) for row in rows)
    return made


def _pair(one: _Pair) -> tuple[str, str, int, int, int]:
    return one.cluster_id, one.topic, one.partition, one.leader_id, one.follower_id


def _replica(one: _Log | _Epoch | _Pair, broker: int) -> tuple[str, str, int, int]:
    return one.cluster_id, one.topic, one.partition, broker
