"""Tables as frames: pandas by delta-rs, or Spark; only the rows that are asked for are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from replica_audit.errors import UsageError
from replica_audit.past.unstored_rows import whole
from replica_audit.rows import TABLES, Table
from replica_audit.storage.warehouse.arrow_tables import ArrowTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Value = str | int | bool | None
_NAMED = {table.name: table for table in TABLES}
_DTYPES = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}
# by what rows are sorted, as far as a table has it: the order in which a person looks for them
_ORDER = (
    "cluster_id",
    "topic",
    "partition",
    "leader_id",
    "follower_id",
    "broker_id",
    "leader_epoch",
    "protocol",
    "group_id",
    "path",
    "run_id",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSource:
    """Where frames come from: the tables, and the session that makes Spark's the default."""

    tables: ArrowTables
    spark: SparkSession | None = None


def frame(place: FrameSource, name: str, spark: SparkSession | None, equal: dict[str, Value]) -> Any:
    """The rows of a table whose columns equal the given values.

    Args:
        place: where the tables are.
        name: of a table.
        spark: the session that is to read it; None for the place's own, and without one for delta-rs.
        equal: values by column; None is null. They decide which files are opened.

    Returns:
        All columns, with pandas' nullable types: a missing offset is missing, not a float. Times are in UTC. Sorted by cluster, partition
        and replicas. Of Spark: as the table has them, in no order.

    Raises:
        UsageError: there is no such table or column, or it cannot be read.
    """
    table = known_table(name)
    missing = [column for column in equal if column not in table.names]
    if missing:
        raise UsageError(f"table {name} has no column {missing[0]}; it has: {', '.join(table.names)}")
    session = spark or place.spark
    return pandas_frame(place.tables, table, equal) if session is None else _spark_frame(session, place.tables, table, equal)


def known_table(name: str) -> Table:
    """A table by its name.

    Raises:
        UsageError: there is none of this name; the message has their names.
    """
    if name not in _NAMED:
        raise UsageError(f"no table is called {name}; there are: {', '.join(_NAMED)}")
    return _NAMED[name]


def pandas_frame(tables: ArrowTables, table: Table, equal: dict[str, Value]) -> pd.DataFrame:
    """The rows as pandas; a table that the warehouse does not have has none."""
    return to_pandas(whole(tables, table, **equal))


def to_pandas(rows: pa.Table) -> pd.DataFrame:
    """Arrow's rows with nullable types, in the order of `frame`; arrays are lists, structs and maps dictionaries."""
    nested = [field.name for field in rows.schema if pa.types.is_nested(field.type)]
    flat: pd.DataFrame = rows.drop_columns(nested).to_pandas(types_mapper=_DTYPES.get, date_as_object=False)
    # not left to pandas, which makes floats of integers inside of structs as soon as one is missing
    values = {name: pd.Series(rows[name].to_pylist(maps_as_pydicts="strict"), dtype=object) for name in nested}
    made = flat.assign(**values)[rows.column_names]
    order = [name for name in _ORDER if name in made.columns]
    return made.sort_values(order, ignore_index=True) if order else made


def _spark_frame(spark: SparkSession, tables: ArrowTables, table: Table, equal: dict[str, Value]) -> DataFrame:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    from replica_audit.storage.warehouse.tables import DeltaWarehouse

    try:
        rows = DeltaWarehouse(spark, _uri(tables.location)).read(table)
    except AnalysisException as error:
        why = " ".join(str(error).split())[:300]
        raise UsageError(f"warehouse {tables.location}: table {table.name} cannot be read by this Spark session: {why}") from None
    for name, value in equal.items():
        rows = rows.where(F.col(name).isNull() if value is None else F.col(name) == F.lit(value))
    return rows


def _uri(location: str) -> str:
    """A location as Spark finds it, whatever its working directory and default file system are."""
    return location if ":" in location else Path(location).expanduser().absolute().as_uri()
