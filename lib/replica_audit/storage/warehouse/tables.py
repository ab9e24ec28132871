"""The tables in Delta: created from their row classes, written so that a run's rows are replaced as a whole, visible when complete.

Files are written by the tasks that make the rows, and committed by this process, without Spark (`commits`), wherever delta-rs can.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from delta.tables import DeltaTable
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from replica_audit.engine.arrow import frame_of_table, spark_schema
from replica_audit.engine.releases import in_threads
from replica_audit.errors import UsageError
from replica_audit.rows import AUDIT_RUNS, FORMER_TABLES, TABLES, Table
from replica_audit.rows.arrow import WrittenFile, schema_of
from replica_audit.rows.encoding import row_of, with_columns_of
from replica_audit.storage.warehouse import damage
from replica_audit.storage.warehouse.arrow_tables import ArrowTables
from replica_audit.storage.warehouse.attempts import microseconds
from replica_audit.storage.warehouse.commits import TableCommit, TableCommits, is_committed_to
from replica_audit.storage.warehouse.faults import is_conflict
from replica_audit.storage.warehouse.place import LOG, is_catalog_name, refuse_planted, warehouse_place
from replica_audit.storage.warehouse.reader import WarehouseTables
from replica_audit.storage.warehouse.spark_tables import CatalogTables, SparkTables, definition, properties_of, quoted, upgrade, write_rows
from replica_audit.storage.warehouse.table_files import WRITTEN, written_rows

WrittenRows = DataFrame | pa.Table | Sequence[WrittenFile]
_TRIES = 30  # of a change that other audits' commits come before
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

    @cached_property
    def _commits(self) -> TableCommits | None:
        """What changes the tables without Spark; None where only Spark can."""
        if warehouse_place(self.location) is not None:
            return TableCommits(self.location)
        if is_committed_to(self.location):
            with suppress(UsageError):  # only Spark has the key
                WarehouseTables(self.location).has(AUDIT_RUNS.name)
                return TableCommits(self.location)
        return None

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
            upgrade(self.spark, self.identifier(table), table, kept, lambda: self._properties(table) or {})
        except UsageError as error:
            raise UsageError(f"warehouse {self.location}: {error}") from None
        if self._commits is not None and self._commits.takes(table):
            self._again(partial(self._commits.add_constraints, table))  # whoever created the table may have been killed before

    def _properties(self, table: Table) -> dict[str, str] | None:
        """The properties of a table; None if it is not there."""
        if self._commits is not None:
            return self._commits.properties(table)
        if not self._exists(table):
            return None
        self.refuse_foreign_sql(table)
        return properties_of(self.spark, self.identifier(table))

    def refuse_foreign_sql(self, table: Table) -> None:
        """Refuse a table that is there if its definition has SQL of others, which a write, an UPDATE, a DELETE and OPTIMIZE may evaluate.

        Raises:
            UsageError: it has, or its definition cannot be read.
        """
        if self._commits is None and not self.in_catalog:
            properties_of(self.spark, self.identifier(table))  # as far as Spark shows it
            return
        place = (self._place(table.name) if self.in_catalog else None) or self.path(table)
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
                if self._commits is not None:
                    self._commits.create(table)
                    self._again(partial(self._commits.add_constraints, table))
                else:
                    self.spark.sql(f"CREATE TABLE IF NOT EXISTS {self.identifier(table)} {definition(table)}")
            except (PySparkException, Py4JJavaError, DeltaError) as error:
                is_meanwhile = is_conflict(error) or isinstance(error, DeltaError)
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
        """The places of some tables, by name, into which tasks may write files for `write_run`; none if one of them cannot have it."""
        commits = self._commits
        if commits is None or not all(commits.takes(table) for table in wanted):
            return {}
        return {table.name: commits.path(table) for table in wanted}

    def write_run(self, table: Table, rows: WrittenRows, run_id: str, *, replace: bool, fence: int | None = None) -> None:
        """Write the rows of a run, in one commit; again and again if commits of other runs come first.

        Args:
            table: to write to.
            rows: all of run `run_id`, with all of the table's columns, in any order; or the files that hold them, of a table of
                `places_of_files`.
            run_id: the run.
            replace: whether the run may have rows already, which are replaced.
            fence: a number that grows with each commit of the run to the table: once Delta has seen one as high, nothing is written.
        """
        commit = TableCommit(run_id=run_id, fence=fence)
        commits = self._commits
        if commits is not None and (not isinstance(rows, DataFrame | pa.Table) or commits.takes(table)):
            files = self._files(table, rows, commits.path(table), run_id)
            known = None if not replace else [rows] if isinstance(rows, pa.Table) else []
            self._again(lambda: commits.write(table, files, commit, replace=known))
            return
        frame = self._frame(table, rows).select(table.names)
        path = None if self.in_catalog else self.path(table)

        def write() -> None:
            self.refuse_foreign_sql(table)
            write_rows(frame, self.identifier(table), path, commit, replace=replace)

        self._again(write)

    def _files(self, table: Table, rows: WrittenRows, place: str, run_id: str) -> Sequence[WrittenFile]:
        """Write the rows of a run into files of a table, which does not have them yet."""
        if not isinstance(rows, DataFrame | pa.Table):
            return rows
        names = [name for name in table.names if name != "run_id"]
        write = partial(written_rows, table=table.name, place=place, run_id=run_id)
        if isinstance(rows, DataFrame):
            told = rows.select(names).mapInArrow(write, spark_schema(WRITTEN)).collect()
            return [row_of(WrittenFile, row.asDict()) for row in told]
        batches = write(iter(rows.select(names).to_batches()))
        return [row_of(WrittenFile, row) for batch in batches for row in batch.to_pylist()]

    def _frame(self, table: Table, rows: WrittenRows) -> DataFrame:
        if isinstance(rows, DataFrame):
            return rows
        if isinstance(rows, pa.Table):
            return frame_of_table(self.spark, rows)
        raise UsageError(f"warehouse {self.location}: table {table.name} takes no files; give another --run-id")

    def _again(self, change: Callable[[], None]) -> None:
        """Make a change; again and again if commits of others come first."""
        for tries_left in reversed(range(_TRIES)):
            try:
                change()
            except Exception as error:
                if not tries_left or not is_conflict(error):
                    raise
                time.sleep(random.uniform(0.1, 1.0))  # noqa: S311
            else:
                return

    def sign(self, run_id: str, attempt: int, moment: datetime) -> int:
        """Let the rows of `audit_runs` of an attempt say when its process last lived; returns how many do. A conflict is raised.

        Raises:
            UsageError: the table has SQL of others in its definition.
        """
        if self._commits is not None and self._commits.takes(AUDIT_RUNS):
            return self._commits.sign(AUDIT_RUNS, run_id, attempt, moment)
        self.refuse_foreign_sql(AUDIT_RUNS)
        when = f"timestamp_micros({microseconds(moment)})"
        which = f"run_id = {quoted(run_id)} AND attempt = {attempt}"
        done = self.spark.sql(f"UPDATE {self.identifier(AUDIT_RUNS)} SET alive_at = {when} WHERE {which}").first()  # noqa: S608
        return int(done["num_affected_rows"]) if done else 0

    def write_all(self, frames: Sequence[tuple[Table, WrittenRows]], run_id: str, *, replace: bool, fence: int | None = None) -> None:
        """`write_run` for several tables, a few at a time."""
        _do_all(self.spark, [partial(self.write_run, table, rows, run_id, replace=replace, fence=fence) for table, rows in frames])

    def rows(self, table: Table, rows: Sequence[dict[str, object]]) -> pa.Table:
        """A few rows made on the driver, with the table's schema; one with an unknown column is refused."""
        rows = [with_columns_of(table, row) for row in rows]
        values = [{field.name: _in_arrow(field.type, row.get(field.name)) for field in schema_of(table)} for row in rows]
        return pa.Table.from_pylist(values, schema=schema_of(table))

    def frame(self, table: Table, rows: Sequence[dict[str, object]]) -> DataFrame:
        """The same as a frame of Spark."""
        return self._frame(table, self.rows(table, rows))


def _do_all(spark: SparkSession, calls: Sequence[Callable[[], None]]) -> None:
    """Make calls, a few at a time, with this thread's tags and group of jobs. Who interrupts this does not wait for those at work."""
    pool = ThreadPoolExecutor(_WRITERS)
    is_waited_for = True
    try:
        as_here = in_threads(spark)
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
