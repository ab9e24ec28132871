"""Rows of `replica_logs` of unchanged replicas, copied from an earlier run, with the times of the new listing.

An unchanged replica that was collected again has another `captured_at`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from replica_audit.formats.shapes import MOVED
from replica_audit.rows import REPLICA_LOGS, Table
from replica_audit.rows.arrow import schema_of
from replica_audit.rows.packed_rows import by_pack, pack_of, packed, unpacked

# the columns that change though nothing happened, and the moments of a look that they show
_MOMENTS = {"captured_at": "captured_at_ms", "crcs_verified_at": "verified_at_ms", "looked_again_at": "looked_at_ms"}
_REPLICA = ["cluster_id", "topic", "partition", "broker_id", "log_dir", "directory"]
_PLACE = "place"
_ROWS_AT_ONCE = 1 << 16
Looks = tuple[str, int | None, pa.RecordBatch]  # of a cluster and a broker, rows of the shape LOOKED


def rows_of_table(table: Table, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows as Spark gives or writes them, as rows of a table, without `run_id`.

    Spark names the items of lists otherwise, and has other units of time.
    """
    columns = list(schema_of(table))[1:]
    return pa.RecordBatch.from_arrays([rows[field.name].cast(field.type) for field in columns], schema=pa.schema(columns))


def packed_logs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of `replica_logs` as rows of the shape MOVED."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(rows_of_table(REPLICA_LOGS, batch))
        if sum(rows.num_rows for rows in pending) >= _ROWS_AT_ONCE:  # of each of hundreds of small files a pack would have a few rows
            yield _packs(pending)
            pending = []
    if pending:
        yield _packs(pending)


def _packs(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    (rows,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    keys = zip(*(rows[name].to_pylist() for name in _REPLICA[:3]), strict=True)
    found = [{"pack": pack, "logs": packed(some)} for pack, some in by_pack(rows, [pack_of(*key) for key in keys])]
    return pa.RecordBatch.from_pylist(found, schema=MOVED)


def with_moments(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of the shape MOVED, all those of some packs, as rows of `replica_logs` without `run_id`.

    A row whose replica the looks do not have, or do not tell a moment of, has null there.
    """
    logs: list[pa.RecordBatch] = []
    looks: list[Looks] = []
    for batch in batches:
        for cluster, broker, seen, log in zip(*(batch[name].to_pylist() for name in MOVED.names[1:]), strict=True):
            if log is not None:
                logs.append(unpacked(log))
            if seen is not None:
                looks.append((cluster, broker, unpacked(seen)))
    if logs:
        yield from _moved(pa.Table.from_batches(logs), _moments_of(looks)).to_batches()


def _moved(rows: pa.Table, moments: pa.Table) -> pa.Table:
    places = pa.array(range(rows.num_rows), pa.int64())
    # lists and structs cannot be joined, so the keys are, and bring the new columns
    keys = rows.select(_REPLICA).append_column(_PLACE, places)
    found = keys.join(moments, keys=_REPLICA, join_type="left outer", use_threads=False).sort_by(_PLACE)
    for name in _MOMENTS:
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), found[name])
    return rows


def _moments_of(looks: Sequence[Looks]) -> pa.Table:
    types = {field.name: field.type for field in schema_of(REPLICA_LOGS)}
    schema = pa.schema([(name, types[name]) for name in (*_REPLICA, *_MOMENTS)])
    found = []
    for cluster, broker, batch in looks:
        rows: Any = batch.filter(batch["directory"].is_valid())
        given = {"cluster_id": pa.repeat(cluster, rows.num_rows), "broker_id": pa.repeat(broker, rows.num_rows)}
        plain = {name: rows[name] for name in _REPLICA if name not in given}
        moments = {name: rows[moment].cast(pa.timestamp("ms", tz="UTC")) for name, moment in _MOMENTS.items()}
        made = {**given, **plain, **moments}
        found.append(pa.RecordBatch.from_arrays([made[field.name].cast(field.type) for field in schema], schema=schema))
    return pa.Table.from_batches(found, schema=schema)
