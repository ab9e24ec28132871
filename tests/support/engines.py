"""The tables of a warehouse that Spark wrote, held against those that this process makes of the same inputs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.rows import FINDINGS, INPUT_ERRORS, OF_PARTITIONS
from replica_audit.storage.warehouse.reader import WarehouseTables

# of a run that is kept alone
_OF_A_RUN = {"run_id", "run_date", "first_seen_run_id", "last_seen_run_id"}


def differing_tables(warehouse: Path, inputs: Sequence[str], settings: Settings) -> list[str]:
    """The tables of a warehouse with one run whose rows are not those of `triage`, row by row and column by column, in any order."""
    kept = WarehouseTables(str(warehouse))
    made = triage(inputs, settings, tell=lambda _line: None).tables
    tables = [*OF_PARTITIONS, FINDINGS, INPUT_ERRORS]
    rows = {table.name: (_counted(kept.arrow(table.name)), _counted(made.arrow(table.name))) for table in tables}
    assert sum(found.total() for found, _made in rows.values()) > 0
    return [name for name, (found, expected) in rows.items() if found != expected]


def _counted(table: pa.Table | None) -> Counter[str]:
    rows: list[dict[str, Any]] = table.to_pylist() if table is not None else []
    return Counter(
        json.dumps({name: row[name] for name in sorted(row) if name not in _OF_A_RUN}, default=str, sort_keys=True) for row in rows
    )
