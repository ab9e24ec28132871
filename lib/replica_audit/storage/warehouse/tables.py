"""The tables in Delta: created from their row classes, written so that a run's rows are replaced as a whole, visible when complete."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark import inheritable_thread_target
from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from replica_audit.engine.arrow import spark_schema
from replica_audit.errors import UsageError
from replica_audit.rows import AUDIT_RUNS, FORMER_TABLES, TABLES, Table
from replica_audit.rows.arrow import WrittenFile, schema_of
from replica_audit.rows.encoding import with_columns_of
from replica_audit.storage.warehouse import damage
from replica_audit.storage.warehouse.arrow_tables import ArrowTables, Equal
from replica_audit.storage.warehouse.faults import is_conflict, warehouse_place
from replica_audit.storage.warehouse.place import LOG, is_catalog_name, refuse_planted
from replica_audit.storage.warehouse.reader import CONSTRAINT, WarehouseTables
from replica_audit.storage.warehouse.transactions import TableCommit, Transactions, other_release


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
        return ds.dataset(frame.toArrow())

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


WrittenRows = DataFrame | Sequence[WrittenFile]
_WRITERS = 4
_CREATED_IN_SECONDS = 30.0
_GIVEN_UP_AFTER_SECONDS = 20.0  # less than that: what a killed process has begun is cleared away in time
_BY_NAME = {table.name: table for table in (*TABLES, *FORMER_TABLES)}


class DeltaWarehouse:
    """Where the tables live: a directory or URI, or `catalog.schema`."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        """Name the place; nothing is read or written yet."""
        self.spark = spark
        self.location = location
        self.in_catalog = is_catalog_name(location)
        self._transactions = Transactions(spark)

    def identifier(self, table: Table) -> str:
        """The table's name in SQL."""
        return f"{self.location}.{table.name}" if self.in_catalog else f"delta.`{self.path(table)}`"

    def path(self, table: Table) -> str:
        """Where the table is, unless that is the catalog's business."""
        return f"{self.location.rstrip('/')}/{table.name}"

    def read(self, table: Table) -> DataFrame:
        """The whole table."""
        return self.spark.table(self.identifier(table))

    @cached_property
    def tables(self) -> ArrowTables:
        """The tables as they are read without a query of Spark's; through Spark where only it can open them."""
        if self.in_catalog:
            return CatalogTables(self.location, self._place)
        found = WarehouseTables(self.location)
        if warehouse_place(self.location) is not None:
            return found
        with suppress(UsageError):
            if found.has(AUDIT_RUNS.name):
                return found
        return SparkTables(self.location, lambda name: self.read(_BY_NAME[name]) if self._exists(_BY_NAME[name]) else None)

    def _place(self, name: str) -> str | None:
        """Where the catalog keeps a table."""
        if not self._exists(_BY_NAME[name]):
            return None
        detail = self.spark.sql(f"DESCRIBE DETAIL {self.identifier(_BY_NAME[name])}").first()
        return detail["location"] if detail else None

    def local_folder(self, table: Table) -> Path | None:
        """The folder on this machine in which the catalog keeps a table; None if that is elsewhere, or there is no such table."""
        place = warehouse_place(self._place(table.name) or "://")
        return None if place is None else Path(unquote(str(place.path)))

    def create_missing(self, look: Callable[[ArrowTables], None] | None = None) -> None:
        """Create the tables that are not there yet, and let those of an older version take what this one writes.

        `look` is given the tables before any is changed; those of a store or a catalog once all are there.

        Raises:
            UsageError: the place cannot be written, or holds something else under a table's name, a link or another user's folder, say.
        """
        place = warehouse_place(self.location)
        if place is not None:
            refuse_planted(place.path)
        if look is not None and place is not None and place.path.is_dir():
            look(WarehouseTables(self.location))
        _do_all(self.spark, [partial(self._make_ready, table) for table in TABLES])
        if look is not None and place is None:
            look(self.tables)

    def _make_ready(self, table: Table) -> None:
        kept = self._properties(table)
        if kept is None:
            self._create(table)
            return
        try:
            is_changed = upgrade(self.spark, self.identifier(table), table, kept, lambda: self._properties(table) or {})
        except UsageError as error:
            raise UsageError(f"warehouse {self.location}: {error}") from None
        if is_changed:
            self._properties(table)

    def _properties(self, table: Table) -> dict[str, str] | None:
        """The properties of a table; None if it is not there."""
        if not self.in_catalog:
            with other_release(), _definition_taken(self.path(table)):
                return self._transactions.properties(self.path(table))
        if not self._exists(table):
            return None
        self.refuse_foreign_sql(table)
        return {row["key"]: row["value"] for row in self.spark.sql(f"SHOW TBLPROPERTIES {self.identifier(table)}").collect()}

    def refuse_foreign_sql(self, table: Table) -> None:
        """Refuse a table that is there if its definition has SQL of others, which a write, an UPDATE, a DELETE and OPTIMIZE may evaluate.

        Raises:
            UsageError: it has, or its definition cannot be read.
        """
        place = (self._place(table.name) if self.in_catalog else None) or self.path(table)
        with other_release():
            if self._transactions.refuse_foreign_sql(place):
                return
        parent, _, name = place.rstrip("/").rpartition("/")
        WarehouseTables(parent).refuse_foreign_sql(name)

    def _exists(self, table: Table) -> bool:
        if self.in_catalog:
            return self.spark.catalog.tableExists(self.identifier(table))
        return DeltaTable.isDeltaTable(self.spark, self.path(table))

    def _create(self, table: Table) -> None:
        deadline = time.monotonic() + _CREATED_IN_SECONDS
        while True:
            why = "it holds something that is not a Delta table; give another --warehouse"
            is_meanwhile = False
            try:
                self.spark.sql(f"CREATE TABLE IF NOT EXISTS {self.identifier(table)} {definition(table)}")
            except (CapturedException, Py4JJavaError) as error:
                is_meanwhile = is_conflict(error)
                if not is_meanwhile and not isinstance(error, AnalysisException):
                    raise
                why = f"it cannot be created: {' '.join(str(error).split())[:300]}"
            if self._properties(table) is not None:  # from here on a change of the table is another process's
                return
            is_begun = self._is_begun(table)
            # another audit may be creating it right now, or may have been killed while it did
            if is_begun and damage.clear_begun(self._directory(table), _GIVEN_UP_AFTER_SECONDS):
                continue
            if not (is_meanwhile or is_begun) or time.monotonic() > deadline:
                raise UsageError(f"warehouse {self.location}: table {table.name}: {why}")
            time.sleep(random.uniform(0.1, 0.5))  # noqa: S311

    def _is_begun(self, table: Table) -> bool:
        """Whether a directory has what a table of Delta begins with; in a store a table is there with its first commit."""
        return not self.in_catalog and (self._directory(table) / LOG).is_dir()

    def _directory(self, table: Table) -> Path:
        return Path(self.location.removeprefix("file:"), table.name)

    def places_of_files(self, wanted: Sequence[Table]) -> dict[str, str]:
        """The directories of some tables, by name, into which tasks may write files for `write_run`; none if one of them cannot have it."""
        place = warehouse_place(self.location)
        if place is None:
            return {}
        found = {one.name: str(place.path.absolute() / one.name) for one in wanted}
        with other_release():
            if all(self._takes_files(one, found[one.name]) for one in wanted):
                return found
        return {}

    def _takes_files(self, table: Table, place: str) -> bool:
        columns = spark_schema(schema_of(table))
        return Path(place, "_delta_log").is_dir() and self._transactions.takes_files(self.path(table), columns, table.constraints)

    def write_run(self, table: Table, rows: WrittenRows, run_id: str, *, replace: bool, fence: int | None = None) -> None:
        """Write the rows of a run, in one commit; again and again if commits of other runs come first.

        Args:
            table: to write to.
            rows: all of run `run_id`, with all of the table's columns, in any order; or the files that hold them, of a table of
                `places_of_files`, if nothing is to be replaced.
            run_id: the run.
            replace: whether the run may have rows already, which are replaced; appending costs a fifth of it.
            fence: a number that grows with each commit of the run to the table: once Delta has seen one as high, nothing is written.
        """
        written = rows.select([F.col(column.name) for column in table.columns]) if isinstance(rows, DataFrame) else rows
        for tries_left in reversed(range(_TRIES)):
            try:
                self._write(table, written, TableCommit(run_id=run_id, fence=fence), replace=replace)
            except Exception as error:
                if not tries_left or not is_conflict(error):
                    raise
                time.sleep(random.uniform(0.1, 1.0))  # noqa: S311
            else:
                return

    def _write(self, table: Table, rows: WrittenRows, commit: TableCommit, *, replace: bool) -> None:
        if not isinstance(rows, DataFrame):
            if not self._transactions.add(self.path(table), rows, spark_schema(schema_of(table)), commit):
                raise UsageError(f"warehouse {self.location}: columns of table {table.name} changed meanwhile; give another --run-id")
            return
        if not self.in_catalog:
            path = self.path(table)
            # the number of an attempt at a run is known to the table for good; that of what it writes counts up from when it began
            is_old = table is AUDIT_RUNS
            direct = self._transactions
            with other_release():
                if direct.replace(path, rows, commit) if replace else direct.append(path, rows, commit, is_old):
                    return
        self.refuse_foreign_sql(table)
        # a table that an older version made gets the columns that it lacks
        writer = rows.write.format("delta").option("userMetadata", commit.run_id).option("mergeSchema", "true")
        writer = writer.mode("overwrite").option("replaceWhere", f"run_id = '{commit.run_id}'") if replace else writer.mode("append")
        if commit.fence is not None:
            writer = writer.option("txnAppId", commit.application).option("txnVersion", str(commit.fence))
        if self.in_catalog:
            writer.saveAsTable(self.identifier(table))
        else:
            writer.save(self.path(table))

    def write_all(self, frames: Sequence[tuple[Table, WrittenRows]], run_id: str, *, replace: bool, fence: int | None = None) -> None:
        """`write_run` for several tables, a few at a time."""
        _do_all(self.spark, [partial(self.write_run, table, rows, run_id, replace=replace, fence=fence) for table, rows in frames])

    def frame(self, table: Table, rows: Sequence[dict[str, object]]) -> DataFrame:
        """A few rows made on the driver as a frame of the table's schema; one with an unknown column is refused."""
        rows = [with_columns_of(table, row) for row in rows]
        values = [{field.name: _in_arrow(field.type, row.get(field.name)) for field in schema_of(table)} for row in rows]
        return self.spark.createDataFrame(pa.Table.from_pylist(values, schema=schema_of(table)), spark_schema(schema_of(table)))


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


def _do_all(spark: SparkSession, calls: Sequence[Callable[[], None]]) -> None:
    """Make calls, a few at a time, with this thread's tags and group of jobs. Who interrupts this does not wait for those at work."""
    pool = ThreadPoolExecutor(_WRITERS)
    is_waited_for = True
    try:
        as_here = inheritable_thread_target(spark)
        for made in [pool.submit(as_here(call)) for call in calls]:
            made.result()
    except KeyboardInterrupt:
        is_waited_for = False
        raise
    finally:
        pool.shutdown(wait=is_waited_for, cancel_futures=not is_waited_for)


def _in_arrow(kind: pa.DataType, value: object) -> object:
    """A column's value as Arrow takes it: a map as pairs."""
    return list(value.items()) if pa.types.is_map(kind) and isinstance(value, dict) else value


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
        f"({', '.join(columns)}) USING DELTA COMMENT {quoted(table.grain)} CLUSTER BY ({', '.join(table.cluster_by)}) "
        f"TBLPROPERTIES ({', '.join(f'{quoted(key)} = {quoted(value)}' for key, value in properties.items())})"
    )


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
