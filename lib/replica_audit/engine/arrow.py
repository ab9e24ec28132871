"""Arrow schemas as Spark's, and rows as Spark's frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from replica_audit.files.opened import confine_only, confined

Mapping = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema; timestamps carry a time zone."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def frame_of(spark: SparkSession, rows: Sequence[Sequence[object]], schema: pa.Schema) -> DataFrame:
    """A few rows, made on the driver, as a frame of a schema.

    From Arrow: of rows as Python values Spark makes a frame by starting Python workers, which are others than those of a stage.
    """
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    table = pa.Table.from_arrays([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)
    return spark.createDataFrame(table, spark_schema(schema))


def map_files(frame: DataFrame, function: Mapping, schema: pa.Schema) -> DataFrame:
    """Map a function that opens files of the input; the tasks are confined to the folders that this process is confined to."""
    return frame.mapInArrow(partial(_confined, function=function, folders=confined()), spark_schema(schema))


def _confined(batches: Iterator[pa.RecordBatch], function: Mapping, folders: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    confine_only(folders)
    return function(batches)
