"""Tables as frames: pandas by delta-rs, or Spark; only the rows that are asked for are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from replica_audit.errors import UsageError
from replica_audit.formats.replicas.replica_reader import Located
from replica_audit.model import BatchHeader
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


_TYPES = {
    "base_offset": "Int64",
    "last_offset": "Int64",
    "leader_epoch": "Int32",
    "records": "Int64",
    "size_bytes": "Int64",
    "max_timestamp": "datetime64[ms, UTC]",
    "crc": "string",
    "crc_valid": "boolean",
    "compression": "string",
    "transactional": "boolean",
    "control": "boolean",
    "producer_id": "Int64",
    "magic": "Int8",
    "segment": "string",
    "position": "Int64",
    "damage": "string",
}
COMPARED = ("base_offset", "last_offset", "leader_epoch", "records", "crc")


def batch_frame(batches: Iterable[Located]) -> pd.DataFrame:
    """Batches as rows, in order.

    Returns:
        base_offset and last_offset (both inclusive), leader_epoch (-1: the format has none), records (missing where a text does not tell
        them), size_bytes, max_timestamp (UTC; missing where the format has none), crc (8 hexadecimal digits), crc_valid (missing where the
        bytes are not there), compression, transactional, control, producer_id (-1: none), magic, segment (the file's name), position (its
        byte in the file), damage: missing of a batch; else why reading stopped at this position, and the rest of the row is missing.
    """
    rows = [_row(one) for one in batches]
    return pd.DataFrame(rows, columns=list(_TYPES)).astype(_TYPES)


def _row(one: Located) -> dict[str, Any]:
    item, segment = one.item, Path(one.path).name
    if not isinstance(item, BatchHeader):
        return {"segment": segment, "position": item.byte_offset, "damage": f"{item.code}: {item.detail}"}
    return {
        "base_offset": item.base_offset,
        "last_offset": item.last_offset,
        "leader_epoch": item.leader_epoch,
        "records": item.record_count,
        "size_bytes": item.size_bytes,
        "max_timestamp": pd.Timestamp(item.max_timestamp_ms, unit="ms", tz="UTC") if item.max_timestamp_ms >= 0 else pd.NaT,
        "crc": f"{item.crc:08x}",
        "crc_valid": item.crc_valid,
        "compression": item.codec,
        "transactional": item.is_transactional,
        "control": item.is_control,
        "producer_id": item.producer_id,
        "magic": item.magic,
        "segment": segment,
        "position": item.position,
    }


def aligned(leader: pd.DataFrame, follower: pd.DataFrame, place: int, most: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both sides over the same offsets: without batches of one that the other has not been read far enough for.

    Args:
        leader: as of `batch_frame`, read from some batches before a place on.
        follower: likewise.
        place: an offset.
        most: how many rows were read at most.
    """
    sides = (leader, follower)
    begins = [side["base_offset"].min() for side in sides if (side["last_offset"] < place).any()]
    ends = [side["last_offset"].max() for side in sides if len(side) == most]
    low, high = max(begins, default=0), min(ends, default=None)
    kept = [side[(side["base_offset"] >= low) & ((side["base_offset"] <= high) if high is not None else True)] for side in sides]
    return kept[0], kept[1]


def side_by_side(leader: pd.DataFrame, follower: pd.DataFrame, truncated_from: int | None) -> pd.DataFrame:
    """The batches of both sides, those that begin at the same offset in one row.

    Args:
        leader: as of `batch_frame`.
        follower: likewise.
        truncated_from: the offset from which the follower's files are cut; None where nothing is.

    Returns:
        base_offset; is: `same` (offsets, epoch, records and CRC are equal), `differs`, `only leader` or `only follower`; truncated: whether
        the follower will truncate its batch; then leader_… and follower_… last_offset, leader_epoch (without the doubled word), records,
        crc and max_timestamp.
    """
    shown = ["base_offset", "last_offset", "leader_epoch", "records", "crc", "max_timestamp"]
    sides = [_side(one, shown, name) for one, name in ((leader, "leader"), (follower, "follower"))]
    both = sides[0].merge(sides[1], on="base_offset", how="outer", indicator="is").sort_values("base_offset", ignore_index=True)
    differs = pd.Series(False, index=both.index)
    for name in ("last_offset", "epoch", "records", "crc"):
        differs |= (both[f"leader_{name}"] != both[f"follower_{name}"]).fillna(False).astype(bool)
    said = both["is"].astype(str).map({"left_only": "only leader", "right_only": "only follower", "both": "same"})
    both["is"] = said.mask((said == "same") & differs, "differs")
    held = both["is"] != "only leader"
    both.insert(2, "truncated", held & (both["base_offset"] >= truncated_from) if truncated_from is not None else False)
    first = ["base_offset", "is", "truncated"]
    return both[first + [name for name in both.columns if name not in first]]


def _side(batches: pd.DataFrame, shown: list[str], name: str) -> pd.DataFrame:
    of_batches = batches[batches["damage"].isna()][shown]
    renamed = {column: f"{name}_{'epoch' if column == 'leader_epoch' else column}" for column in shown[1:]}
    return of_batches.rename(columns=renamed)
