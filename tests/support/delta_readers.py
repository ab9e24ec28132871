"""Tables of Delta as others read them: with delta-rs, and with DuckDB and the extension of its own; rows that can be compared."""

from __future__ import annotations

import json
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

Rows = Counter[str]


def comparable(found: pa.Table) -> Rows:
    """Rows of an Arrow table, whoever made it."""
    return Counter(json.dumps(row, sort_keys=True, default=_plain) for row in found.to_pylist())


def _plain(value: Any) -> str:
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


def in_delta_rs(place: Path, version: int | None = None) -> pa.Table:
    """A table, as of a version."""
    return DeltaTable(str(place), version=version).to_pyarrow_table()


def delta_extension() -> Path:
    """Where the extension lies that reads Delta tables: nothing is downloaded."""
    package = find_spec("duckdb_extension_delta")
    assert package is not None
    (extension,) = Path(str(package.origin)).parent.rglob("delta.duckdb_extension")
    return extension


def in_duckdb(place: Path, where: str = "true", *values: object) -> pa.Table:
    """A table, read with DuckDB's `delta_scan`, or the rows that a condition with these values chooses."""
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as database:
        database.load_extension(str(delta_extension()))
        database.execute("SET TimeZone = 'UTC'")
        return database.execute(f"SELECT * FROM delta_scan(?) WHERE {where}", [str(place), *values]).to_arrow_table()  # noqa: S608 - a test's own
