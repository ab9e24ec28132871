"""Rows that older versions kept in tables of their own, as rows of the tables that have them now: the only place that knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from replica_audit.rows import DIFFERENCES, TABLES, TRUNCATION_POINTS
from replica_audit.rows.arrow import nullable_columns
from replica_audit.rows.codes import RuleKind
from replica_audit.rows.records import DifferenceKind

_KINDS = {"compaction_differences": DifferenceKind.KEY, "record_differences": DifferenceKind.RECORD}
_RULES = "what_if_rules"
_FORMER = {DIFFERENCES.name: tuple(_KINDS), TRUNCATION_POINTS.name: (_RULES,)}
_SCHEMAS = {table.name: nullable_columns(table, table.names) for table in TABLES if table.name in _FORMER}
PAIR = ("run_id", "cluster_id", "topic", "partition", "leader_id", "follower_id")


def with_former(name: str, stored: Callable[[str], pa.Table | None]) -> pa.Table | None:
    """All wanted rows of a table, if older versions kept some of them elsewhere; None: it has every row itself.

    Args:
        name: of the table.
        stored: gives the wanted rows of a table as they are stored, by its name.
    """
    former = {one: rows for one in _FORMER.get(name, ()) if (rows := stored(one))}
    if not former:
        return None
    own = stored(name)
    if _RULES in former:
        points = [] if own is None else own.to_pylist()
        return pa.Table.from_pylist(list(_with_rules(points, former[_RULES].to_pylist())), schema=_SCHEMAS[name])
    found = [fitted(rows.append_column("kind", pa.repeat(str(_KINDS[one]), len(rows))), _SCHEMAS[name]) for one, rows in former.items()]
    return pa.concat_tables(found if own is None else [fitted(own, _SCHEMAS[name]), *found])


def _with_rules(points: list[dict[str, Any]], rules: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Truncation points with what their questions cost, and the rejected rules of the same pairs."""
    costs = {(*_pair(rule), rule["rule"]): rule for rule in rules}
    for point in points:
        yield point | _cost(costs.get((*_pair(point), point["protocol"])))
    sources = {_pair(point): point["leader_source"] for point in points}
    for rule in rules:
        if not rule["accepted"] and _pair(rule) in sources:
            of_point = {"leader_source": sources[_pair(rule)], "protocol": rule["rule"], "kind": str(RuleKind.REJECTED), "applies": False}
            yield rule | of_point | _cost(rule) | {"round_trips": None}


def _pair(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in PAIR)


def _cost(rule: dict[str, Any] | None) -> dict[str, Any]:
    if rule is None:
        return {}
    return {"epoch_requests": rule["round_trips"], "request_bytes": rule["request_bytes"], "response_bytes": rule["response_bytes"]}


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with other columns; one that they lack is null."""
    present = set(rows.column_names)
    columns = [rows[field.name].cast(field.type) if field.name in present else pa.nulls(len(rows), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)
