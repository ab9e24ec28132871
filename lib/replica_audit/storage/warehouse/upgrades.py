"""Tables that an older version made, changed in place so that they are as this one makes them. Columns come with the first rows."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from replica_audit.errors import UsageError
from replica_audit.rows import Table
from replica_audit.storage.warehouse.foreign_sql import CONSTRAINT
from replica_audit.storage.warehouse.java_errors import is_conflict

CHANGE_FEED = "delta.enableChangeDataFeed"
_TRIES = 30  # of a change that other audits' commits come before
Properties = Mapping[str, str]


def upgrade(spark: SparkSession, identifier: str, table: Table, kept: Properties, again: Callable[[], Properties]) -> bool:
    """Change a table where it differs; whether it did.

    Args:
        spark: a session with Delta.
        identifier: the table's name in SQL.
        table: what it should be.
        kept: its properties.
        again: gives its properties as they are now; another audit may change it at the same time.

    Raises:
        UsageError: it cannot be changed.
    """
    is_changed, tries_left = False, _TRIES
    while True:
        try:
            for statement in _changes(table, kept):
                spark.sql(f"ALTER TABLE {identifier} {statement}")
                is_changed = True
        except Exception as error:
            tries_left -= 1
            if tries_left and is_conflict(error):
                time.sleep(random.uniform(0.1, 1.0))  # noqa: S311
                kept = again()
                continue
            if not isinstance(error, AnalysisException):
                raise
            why = " ".join(str(error).split())[:300]
            raise UsageError(f"table {table.name} of an older version cannot be changed: {why}") from None
        return is_changed


def _changes(table: Table, kept: Properties) -> Iterator[str]:
    """What is to be altered. Whoever switched the change feed off wants it so."""
    for name in table.widened:
        check = table.constraints[name]
        was = kept.get(f"{CONSTRAINT}{name}", check)
        if "".join(was.split()) != "".join(check.split()):  # Delta writes an added constraint with blanks of its own
            yield f"DROP CONSTRAINT IF EXISTS {name}"
            yield f"ADD CONSTRAINT {name} CHECK ({check})"
    if table.has_change_feed and CHANGE_FEED not in kept:
        yield f"SET TBLPROPERTIES ('{CHANGE_FEED}' = 'true')"
