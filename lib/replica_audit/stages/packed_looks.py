"""How everything of a source looks, as a few rows: a listing hands on a million looks, and most are compared and forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pyarrow as pa

from replica_audit.formats.shapes import LOOK, LOOKED
from replica_audit.formats.values import Row
from replica_audit.model import PartitionLook
from replica_audit.rows.arrow import INT, STRING, struct
from replica_audit.rows.packed_rows import by_pack, pack_of, packed
from replica_audit.stages.inventory import Listing, list_source
from replica_audit.stages.packed_claims import with_packed_claims
from replica_audit.stages.valid_rows import REFUSED, encoded_apart, refuse_with_problem

_AT_ONCE = 1 << 16  # looks that are columns at a time
_ROW = pa.schema(list(struct(topic=STRING, partition=INT, look=LOOK)))


def list_with_looks(source: Row, listing: Listing) -> Iterator[Row]:
    """The rows of one source, as of `list_source`, and among them packs of looks, and of claims where replicas are read later."""
    seen: list[PartitionLook] = []
    yield from with_packed_claims(list_source(source, listing, seen.append), listing)
    for first in range(0, len(seen), _AT_ONCE):
        yield from _packs(source, seen[first : first + _AT_ONCE])


def _packs(source: Row, looks: Sequence[PartitionLook]) -> Iterator[Row]:
    keys = {"cluster_id": source["cluster_id"], "broker_id": source["broker_id"], "is_audited": True}
    try:
        rows = _batch(looks)
    except REFUSED:
        made = [{**keys, "topic": one.topic, "partition": one.partition, "look": one.look._asdict()} for one in looks]
        fit, refused = encoded_apart(made, _ROW, refuse_with_problem)
        yield from refused
        look: Any = fit["look"]
        rows = pa.RecordBatch.from_arrays([fit["topic"], fit["partition"], *look.flatten()], schema=LOOKED)
    topics, partitions = (cast("list[Any]", rows[name].to_pylist()) for name in ("topic", "partition"))
    packs = [pack_of(source["cluster_id"], topic, partition) for topic, partition in zip(topics, partitions, strict=True)]
    for pack, some in by_pack(rows, packs):
        replicas, captured = (some.num_rows - some[name].null_count for name in ("directory", "captured_at_ms"))
        yield {**keys, "looks": {"pack": pack, "replicas": replicas, "captured": captured, "rows": packed(some)}}


def _batch(looks: Sequence[PartitionLook]) -> pa.RecordBatch:
    topics, partitions, seen = zip(*looks, strict=True)
    columns = (topics, partitions, *zip(*seen, strict=True))
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in zip(columns, LOOKED, strict=True)], schema=LOOKED)
