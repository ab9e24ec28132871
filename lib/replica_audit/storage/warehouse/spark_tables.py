"""Tables that only Spark can change: in a catalog, in a store to which only it has the key, and clustered ones of older versions."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow.dataset as ds
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from replica_audit.engine.arrow import arrow_of, spark_schema
from replica_audit.errors import UsageError
from replica_audit.rows.arrow import schema_of
from replica_audit.rows.columns import Table
from replica_audit.storage.warehouse.arrow_tables import ArrowTables, Equal
from replica_audit.storage.warehouse.commits import TableCommit
from replica_audit.storage.warehouse.faults import is_conflict
from replica_audit.storage.warehouse.reader import CONSTRAINT, WarehouseTables, refuse_foreign_sql
from replica_audit.storage.warehouse.rewrites import CHANGE_FEED


class CatalogTables(ArrowTables):
    """The tables of a schema of Spark's catalog: the catalog says where they are, delta-rs reads them there."""

    def __init__(self, location: str, place: Callable[[str], str | None]) -> None:
        """`place` gives the URI of a table, None if there is no such table."""
        super().__init__(location)
        self._place = place
        self._places: dict[str, str] = {}

    def dataset(self, table: str, equal: Equal | None = None, names: Sequence[str] | None = None) -> ds.Dataset | None:
        """The table where the catalog has it."""
        place = self._places.get(table) or self._place(table)
        if place is None:
            return None
        self._places[table] = place
        parent, _, name = place.rstrip("/").rpartition("/")
        return WarehouseTables(parent).dataset(name, equal, names)


class SparkTables(ArrowTables):
    """Tables in a store to which only Spark has the key: it reads the wanted columns of the wanted rows, and hands them over as Arrow."""

    def __init__(self, location: str, frame: Callable[[str], DataFrame | None]) -> None:
        """`frame` gives a whole table, None if there is no such table."""
        super().__init__(location)
        self._frame = frame

    def dataset(self, table: str, equal: Equal | None = None, names: Sequence[str] | None = None) -> ds.Dataset | None:
        """What Spark reads of the table."""
        frame = self._chosen(table, equal or {})
        if frame is None:
            return None
        if names is not None:
            frame = frame.select(*(name for name in frame.columns if name in {*names, *(equal or {})}))
        return ds.dataset(arrow_of(frame))

    def has(self, table: str) -> bool:
        """Whether there is such a table; nothing of it is read."""
        return self._frame(table) is not None

    def count(self, table: str, /, **equal: str | int | None) -> int | None:
        """As Spark counts: no row leaves its tasks."""
        frame = self._chosen(table, equal)
        return None if frame is None else frame.count()

    def _chosen(self, table: str, equal: Equal) -> DataFrame | None:
        frame = self._frame(table)
        if frame is None:
            return None
        for name, value in equal.items():
            if name in frame.columns:
                frame = frame.where(F.col(name).isNull() if value is None else F.col(name) == F.lit(value))
        return frame


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
            for statement in pending_changes(table, kept):
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


def pending_changes(table: Table, kept: Properties) -> Iterator[str]:
    """Return what is to be altered. Whoever switched the change feed off wants it so."""
    narrow = [name for name in table.widened if _is_other(kept.get(f"{CONSTRAINT}{name}", ""), table.constraints[name])]
    for name in table.relaxed if narrow else ():
        yield f"ALTER COLUMN {name} DROP NOT NULL"
    for name in narrow:
        yield f"DROP CONSTRAINT IF EXISTS {name}"
        yield f"ADD CONSTRAINT {name} CHECK ({table.constraints[name]})"
    if table.has_change_feed and CHANGE_FEED not in kept:
        yield f"SET TBLPROPERTIES ('{CHANGE_FEED}' = 'true')"


def _is_other(was: str, check: str) -> bool:
    """Whether a table has another check; Delta writes an added one with blanks of its own."""
    return was != "" and "".join(was.split()) != "".join(check.split())


@contextmanager
def _definition_taken(place: str) -> Iterator[None]:
    """Refuse a table whose definition contradicts the features of Delta that it names, as one that somebody wrote by hand may.

    Raises:
        UsageError: so it is.
    """
    try:
        yield
    except Py4JJavaError as error:
        thrown = error.java_exception
        if not str(thrown.getClass().getName()).endswith(".DeltaTableFeatureException"):
            raise
        why = " ".join(str(thrown.getMessage()).split())[:300].rstrip(".")
        raise UsageError(f"table {place}: Delta does not take its definition ({why}); give another --warehouse") from None


def properties_of(spark: SparkSession, identifier: str) -> dict[str, str]:
    """Return the properties of a table, as far as Spark shows its definition without SQL of others.

    Raises:
        UsageError: it shows some, or Delta does not take the definition.
    """
    place = identifier.removeprefix("delta.").strip("`")
    with _definition_taken(place):
        known = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {identifier}").collect()}
        refuse_foreign_sql(place, spark.table(identifier).schema.json(), known)
    return known


def write_rows(rows: DataFrame, identifier: str, path: str | None, commit: TableCommit, *, replace: bool) -> None:
    """Append rows to a table, or put them in the place of those of the commit's run; it gets the columns that it lacks.

    Args:
        rows: all of the commit's run.
        identifier: the table's name in SQL.
        path: where it is; None if that is the catalog's business.
        commit: what the commit carries.
        replace: whether the run may have rows already.
    """
    writer = rows.write.format("delta").option("userMetadata", commit.run_id).option("mergeSchema", "true")
    writer = writer.mode("overwrite").option("replaceWhere", f"run_id = '{commit.run_id}'") if replace else writer.mode("append")
    if commit.fence is not None:
        writer = writer.option("txnAppId", commit.application).option("txnVersion", str(commit.fence))
    if path is None:
        writer.saveAsTable(identifier)
    else:
        writer.save(path)


def definition(table: Table) -> str:
    """What stands behind the name in a table's CREATE TABLE statement."""
    types = spark_schema(schema_of(table))
    columns = []
    for column in table.columns:
        null = "" if column.nullable else " NOT NULL"
        columns.append(f"{column.name} {types[column.name].dataType.simpleString()}{null} COMMENT {quoted(column.comment)}")
    # delta-rs reads no deletion vectors
    properties = {f"delta.constraints.{name}": check for name, check in table.constraints.items()} | {
        "delta.enableDeletionVectors": "false"
    }
    properties |= {CHANGE_FEED: "true"} if table.has_change_feed else {}
    return (
        f"({', '.join(columns)}) USING DELTA COMMENT {quoted(table.grain)} "
        f"TBLPROPERTIES ({', '.join(f'{quoted(key)} = {quoted(value)}' for key, value in properties.items())})"
    )


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
