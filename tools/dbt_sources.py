"""Prints docs/dbt/sources.yml, the tables as dbt's sources, from their row classes.

`.venv/bin/python tools/dbt_sources.py > docs/dbt/sources.yml`
"""

from __future__ import annotations

import sys
from typing import Any

import yaml
from tables_doc import type_shown

from replica_audit.rows import TABLES, Table
from replica_audit.rows.arrow import type_of

HEAD = """\
# Made from the schemas by tools/dbt_sources.py; a test holds the two together. Copy it among the models of a dbt project, and say with
# `--vars 'replica_audit_schema: SCHEMA'` where the warehouse is.
"""


def main() -> None:
    """Print the file."""
    sys.stdout.write(page())


def page() -> str:
    """The file as text."""
    source = {
        "name": "replica_audit",
        "schema": "{{ var('replica_audit_schema', 'replica_audit') }}",
        "description": "What audits of Kafka's replicas found. A run counts once its rows of audit_runs are complete.",
        "tables": [_described(table) for table in TABLES],
    }
    return HEAD + yaml.safe_dump({"version": 2, "sources": [source]}, sort_keys=False, allow_unicode=True, width=140)


def _described(table: Table) -> dict[str, Any]:
    columns = []
    for column in table.columns:
        described = {"name": column.name, "description": column.comment, "data_type": type_shown(type_of(column.hint))}
        columns.append(described | ({} if column.nullable else {"data_tests": ["not_null"]}))
    return {"name": table.name, "description": table.grain, "columns": columns}


if __name__ == "__main__":
    main()
