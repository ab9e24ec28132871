"""What is left to know of the audit of a partition once the rows of its tables are in files: counts, findings, and which files."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from replica_audit.rows.columns import BIGINT, STRING, Bigint, struct_of


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A Parquet file with rows of a table, which the table does not have yet.

    `path` is its name below the table's directory; `statistics` is what Delta keeps of its columns, as JSON.
    """

    table: str
    path: str
    rows: Bigint
    size_bytes: Bigint
    modified_at_ms: Bigint
    statistics: str


def outcomes_of(audited: pa.Schema, lists: tuple[str, ...]) -> pa.Schema:
    """The shape of a row: either of a partition, with some lists of its audited row as they are, or of a file.

    `sizes` are the numbers of the partition's rows, in the order of the tables; `verdicts` those of its followers, of which
    `records_unread` are clean though their records were to be compared and could not be.
    """
    columns: list[tuple[str, pa.DataType]] = [("cluster_id", STRING), ("sizes", pa.list_(BIGINT)), ("verdicts", pa.list_(STRING))]
    columns += [("records_unread", BIGINT)]
    columns += [(name, audited.field(name).type) for name in lists]
    return pa.schema([*columns, ("file", struct_of(WrittenFile))])
