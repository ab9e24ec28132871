"""Arrow schemas as Spark's."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema; timestamps carry a time zone."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)
