"""Arrow schemas as Spark's, and rows as Spark's frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from replica_audit.files.opened import confine_only, confined

MapsBatches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema; timestamps carry a time zone."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def frame_of(spark: SparkSession, rows: Sequence[Sequence[object]], schema: pa.Schema) -> DataFrame:
    """A few rows, made on the driver, as a frame of a schema."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return frame_of_table(spark, pa.Table.from_arrays(arrays, schema=schema))


def frame_of_table(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A table, made on the driver, as a frame.

    From Arrow where Spark takes it: of rows as Python values it makes a frame by starting Python workers, which are others than those of a
    stage.
    """
    schema = spark_schema(table.schema)
    if spark.version.startswith("3."):
        return spark.createDataFrame([tuple(row.values()) for row in table.to_pylist(maps_as_pydicts="strict")], schema)
    return spark.createDataFrame(table, schema)


def arrow_of(frame: DataFrame) -> pa.Table:
    """The rows of a frame, here."""
    if hasattr(frame, "toArrow"):  # from Spark 4.0 on
        return frame.toArrow()
    schema = to_arrow_schema(frame.schema)
    columns = zip(*frame.collect(), strict=True)
    arrays = [pa.array(map(_in_arrow, column), field.type) for column, field in zip(columns, schema, strict=False)]
    return pa.Table.from_arrays(arrays, schema=schema) if arrays else schema.empty_table()


def _in_arrow(value: Any) -> Any:
    """A value of a row as Arrow takes it: a map as pairs."""
    if isinstance(value, Row):
        return {name: _in_arrow(one) for name, one in value.asDict().items()}
    if isinstance(value, dict):
        return [(key, _in_arrow(one)) for key, one in value.items()]
    return [_in_arrow(one) for one in value] if isinstance(value, list) else value


def map_files(frame: DataFrame, function: MapsBatches, schema: pa.Schema) -> DataFrame:
    """Map a function that opens files of the input; the tasks are confined to the folders that this process is confined to."""
    return frame.mapInArrow(partial(_confined, function=function, folders=confined()), spark_schema(schema))


def _confined(batches: Iterator[pa.RecordBatch], function: MapsBatches, folders: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    confine_only(folders)
    return function(batches)
