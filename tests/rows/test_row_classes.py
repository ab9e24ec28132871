"""Of every table: its row class, its Arrow schema, its DDL and docs/tables.md say the same."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pyarrow as pa
import pytest

from replica_audit import rows
from replica_audit.rows import INPUT_ERRORS, OF_PARTITIONS, TABLES, AuditedPartition, Table
from replica_audit.rows.arrow import AUDITED, array_of, schema_of, severity_ranks, struct_of
from replica_audit.rows.columns import KEYS, RunKeys, Width, columns_of
from replica_audit.rows.encoding import as_dict, row_of
from replica_audit.rows.findings import CheckedPartition, FoundFinding
from replica_audit.storage.warehouse.spark_tables import definition
from tests.rows.values import full_row

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")
SQL = {str: "string", bool: "boolean", datetime: "timestamp", date: "date"}
WIDTHS = {Width.INT: "int", Width.BIGINT: "bigint"}


def sql_type(annotation: Any) -> tuple[str, bool]:
    """The type in SQL and whether null is allowed, read from an annotation by this test alone."""
    told: list[Any] = []
    nullable = False
    while get_origin(annotation) is Annotated or type(None) in get_args(annotation):
        if get_origin(annotation) is Annotated:
            told += annotation.__metadata__
            annotation = annotation.__origin__
        else:
            annotation, nullable = get_args(annotation)[0], True
    if annotation is int:
        return next(WIDTHS[one] for one in told if isinstance(one, Width)), nullable
    if get_origin(annotation) is tuple:
        return f"array<{sql_type(get_args(annotation)[0])[0]}>", nullable
    if get_origin(annotation) is Mapping:
        key, value = (sql_type(part)[0] for part in get_args(annotation))
        return f"map<{key},{value}>", nullable
    if annotation in SQL or issubclass(annotation, StrEnum):
        return SQL.get(annotation, "string"), nullable
    fields = get_type_hints(annotation, include_extras=True)
    names = [field.name for field in dataclasses.fields(annotation)]
    return f"struct<{','.join(f'{name}:{sql_type(fields[name])[0]}' for name in names)}>", nullable


def declared(table: Table) -> dict[str, tuple[str, bool]]:
    """Type and nullability by column, from the annotations of the row class."""
    row: Any = table.row
    own = get_type_hints(row, include_extras=True)
    found = {field.name: sql_type(own[field.name]) for field in dataclasses.fields(row)}
    keys: dict[str, tuple[str, bool]] = {column.name: ("string", False) for column in KEYS}
    return keys | ({"run_date": ("date", True)} if table.is_dated else {}) | found


@pytest.fixture(params=TABLES, ids=lambda table: table.name)
def table(request: pytest.FixtureRequest) -> Table:
    found: Table = request.param
    return found


def test_the_class_is_frozen_slotted_and_has_nothing_but_columns(table: Table) -> None:
    row: Any = table.row
    assert row.__dataclass_params__.frozen
    made = full_row(row)
    assert not hasattr(made, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, dataclasses.fields(row)[0].name, "other")


def test_arrow_has_the_columns_of_the_class(table: Table) -> None:
    assert list(declared(table)) == table.names
    for field in schema_of(table):
        assert field.nullable == declared(table)[field.name][1], field.name


def test_the_ddl_has_the_columns_of_the_class(table: Table) -> None:
    ddl = definition(table)
    for name, (kind, nullable) in declared(table).items():
        assert f"{name} {kind}{'' if nullable else ' NOT NULL'} COMMENT" in ddl
    assert ddl.count(" NOT NULL COMMENT ") == sum(not nullable for _kind, nullable in declared(table).values())
    assert "CLUSTER BY" not in ddl, "delta-rs does not write clustered tables"
    assert set(table.widened) <= set(table.constraints)
    for name in table.constraints:
        assert f"'delta.constraints.{name}'" in ddl


def test_the_page_has_the_columns_of_the_class(table: Table) -> None:
    part = DOCS.split(f"\n## {table.name}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (never)? ?\| (.*) \|$", part, re.MULTILINE)
    found = {name: (kind.replace(", ", ",").replace(": ", ":"), never != "never") for name, kind, never, _comment in rows}
    assert found == declared(table)
    assert all(comment for *_others, comment in rows), "every column is explained"
    assert set(re.findall(r"^- `(\w+)`:", part, re.MULTILINE)) == set(table.constraints)


def test_a_full_row_comes_back(table: Table) -> None:
    row: Any = table.row
    made = full_row(row)
    own = {one.name for one in dataclasses.fields(row)}
    kind = pa.struct([field for field in schema_of(table) if field.name in own])
    array: Any = array_of(row, [made], kind)
    (back,) = array.to_pylist()
    assert row_of(row, back) == made
    assert row_of(row, as_dict(made)) == made
    assert {name: dict(value) if isinstance(kind.field(name).type, pa.MapType) else value for name, value in back.items()} == as_dict(made)


def test_the_rows_of_a_partition_are_those_of_the_tables() -> None:
    annotations = get_type_hints(AuditedPartition)
    classes = {name: get_args(annotation)[0] for name, annotation in annotations.items() if name != "cluster_id"}
    of_tables = {one.name: one.row for one in (*OF_PARTITIONS, INPUT_ERRORS)}
    assert classes == {**of_tables, "found": FoundFinding, "checked": CheckedPartition}
    assert list(annotations) == ["cluster_id", *AUDITED]


def test_no_two_row_classes_have_a_name() -> None:
    modules = [importlib.import_module(f"{rows.__name__}.{one.name}") for one in pkgutil.iter_modules(rows.__path__)]
    own = [name for module in modules for name, kind in vars(module).items() if getattr(kind, "__module__", "") == module.__name__]
    assert [name for name, times in Counter(own).items() if times > 1 and name[0].isupper()] == []


def test_a_severity_has_its_rank_the_loudest_lowest() -> None:
    ranks = {"critical": 0, "error": 1, "warning": 2, "none": 3}
    ranked = [one for one in TABLES if "severity" in one.names]
    assert len(ranked) == 4
    for one in ranked:
        kind: Any = one.row
        made = full_row(kind)
        assert {name: dataclasses.replace(made, severity=name, severity_rank=7).severity_rank for name in ranks} == ranks, one.name
    assert severity_ranks(pa.array([*ranks, "unheard-of"])).to_pylist() == [*ranks.values(), -1]


def test_a_number_has_to_say_how_wide_it_is() -> None:
    unknown: Any = dataclasses.make_dataclass("Unknown", [("offset", int)])
    with pytest.raises(TypeError, match="not a column type"):
        struct_of(unknown)


def test_the_runs_keys_come_first() -> None:
    assert {tuple(one.columns[: len(KEYS)]) for one in TABLES} == {columns_of(RunKeys)}
