"""What a table is made of.

Offsets are bigint, epochs, ids and partitions int. `_offset` ends are exclusive (`end`, `log_end_offset`) unless named `last_`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

STRING, INT, BIGINT, BOOLEAN = pa.string(), pa.int32(), pa.int64(), pa.bool_()
TIMESTAMP = pa.timestamp("us", tz="UTC")


class Column(NamedTuple):
    """A column: name, Arrow type, comment, whether null is allowed."""

    name: str
    type: pa.DataType
    comment: str
    nullable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A Delta table. `constraints` maps a name to a CHECK expression; `cluster_by` names the clustering columns.

    `widened` names the constraints that older versions have narrower: in their tables they are replaced.
    """

    name: str
    grain: str
    columns: tuple[Column, ...]
    constraints: dict[str, str]
    cluster_by: tuple[str, ...] = ("cluster_id",)
    widened: tuple[str, ...] = ()

    @property
    def arrow(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return pa.schema([pa.field(c.name, c.type, c.nullable) for c in self.columns])


def shape(columns: Iterable[Column]) -> pa.StructType:
    """Columns as a struct type."""
    return pa.struct([pa.field(c.name, c.type, c.nullable) for c in columns])


def struct(**fields: pa.DataType) -> pa.StructType:
    """A struct type from names and types."""
    return pa.struct(list(fields.items()))


RUN_ID = Column("run_id", STRING, "the run that wrote the row", False)
CLUSTER_ID = Column("cluster_id", STRING, "cluster.id of the audited cluster; a path where it is unknown", False)
KEYS = (RUN_ID, CLUSTER_ID)
PARTITION = (Column("topic", STRING, "topic name", False), Column("partition", INT, "partition number", False))
BROKER = Column("broker_id", INT, "broker that holds the replica", False)
PAIR = (
    *PARTITION,
    Column("leader_id", INT, "broker that leads the partition; -1: unknown", False),
    Column("follower_id", INT, "broker that follows", False),
)
LEADER_SOURCE = Column("leader_source", STRING, "where the leader is known from: cluster-metadata, metadata-log or inferred", False)
PARTITION_CHECK = {"partition_not_negative": "partition >= 0"}
BY_PARTITION = ("cluster_id", "topic", "partition")
