"""A complete run: its rows of `audit_runs`, and its rows of every other table as Arrow columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_
from pathlib import PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from replica_audit.report.facts.question import whole_run
from replica_audit.rows import Table
from replica_audit.rows.arrow import schema_of
from replica_audit.rows.columns import hints_of
from replica_audit.rows.runs import AuditRun
from replica_audit.storage.warehouse.arrow_tables import ArrowTables, RowT

# what a column was called when nothing but checkpointed high watermarks proved that offsets were committed; and when what is truncated
# was not told from what is lost
_STOOD_FOR = {
    "removed_committed": "removed_below_high_watermark",
    "lost_committed": "lost_below_high_watermark",
    "lost_offsets": "removed_offsets",
    "lost_records": "removed_records",
    "records_lost": "removed_records",
}


class PastRun:
    """One complete run, of a warehouse or of this process."""

    def __init__(self, tables: ArrowTables, run_id: str | None) -> None:
        """Find the run: the one of this id, or the latest that is complete.

        Raises:
            UsageError: there is none, it is not complete, or its tables do not hold the rows that it wrote.
        """
        self.tables = tables
        self.run_id, _runs = whole_run(tables, run_id=run_id)
        rows = tables.rows("audit_runs", AuditRun, run_id=self.run_id)
        self.runs = sorted(rows, key=lambda row: (_place(row), row.path or "", row.cluster_id))

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved configuration of the run."""
        return self.runs[0].settings

    def read(self, table: Table, names: Sequence[str], where: ds.Expression | None = None) -> pa.Table:
        """Columns of the run's rows of a table; of an older run one that it lacks is what then stood for it, or null."""
        older = {name: _STOOD_FOR[name] for name in names if name in _STOOD_FOR and _is_alike(schema_of(table), name, _STOOD_FOR[name])}
        wanted = [*names, *(name for name in sorted(set(older.values())) if name not in names)]
        found = self.tables.of_table(table, wanted, where, run_id=self.run_id)
        for name, stood_for in older.items():
            filled: Any = pc.coalesce(found[name], found[stood_for])
            found = found.set_column(found.schema.get_field_index(name), name, filled)
        return found.select(list(names))

    def whole(self, table: Table, row: type[RowT], chosen: pa.Table, keys: Sequence[str]) -> dict[tuple[Any, ...], RowT]:
        """The whole rows of which some columns were read to choose them, in their order, by these keys.

        Args:
            table: theirs.
            row: their class.
            chosen: has the columns that identify a row.
            keys: the names of these columns.
        """
        if not len(chosen):
            return {}
        is_like = reduce(and_, (ds.field(name).isin(pc.unique(chosen[name])) for name in keys))
        found = self.read(table, list(dict.fromkeys([*hints_of(row), *keys])), is_like)
        places = {key: place for place, key in enumerate(_tuples(found, keys))}
        wanted = [key for key in dict.fromkeys(_tuples(chosen, keys)) if key in places]
        return dict(
            zip(wanted, self.tables.typed(table.name, found.take(pa.array([places[key] for key in wanted], pa.int64())), row), strict=True)
        )

    def counts(self, table: Table, names: Sequence[str], where: ds.Expression | None = None) -> Counter[tuple[Any, ...]]:
        """How often each combination of values of the columns occurs."""
        return counted(self.read(table, names, where), names)


def _tuples(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in names), strict=True)


def _is_alike(schema: pa.Schema, name: str, other: str) -> bool:
    return other in schema.names and schema.field(name).type == schema.field(other).type


def _place(row: AuditRun) -> int:
    """Which of the inputs holds the cluster's root; an input may be a relative path or a file: URI."""
    root = PurePath(row.path or "").parts
    for place, given in enumerate(row.inputs or ()):
        parts = PurePath(given.removeprefix("file:")).parts
        if any(root[at : at + len(parts)] == parts for at in range(len(root) - len(parts) + 1)):
            return place
    return len(row.inputs or ())


def counted(rows: pa.Table, names: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """How often each combination of values of the columns occurs."""
    found = rows.group_by(list(names)).aggregate([([], "count_all")]).to_pylist()
    return Counter({tuple(row[name] for name in names): row["count_all"] for row in found})


def in_order(rows: pa.Table, keys: Sequence[tuple[str, str]]) -> Any:
    """The places of the rows in order, null last."""
    return pc.sort_indices(rows, sort_keys=keys)  # type: ignore[arg-type]
