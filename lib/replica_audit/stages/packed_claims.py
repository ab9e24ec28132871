"""Claims of metadata as a few rows: each copy of the metadata log has one of every partition, and most nights few of them are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from replica_audit.formats.shapes import CLAIMED, INVENTORY
from replica_audit.formats.values import Row
from replica_audit.rows.packed_rows import packed, unpacked
from replica_audit.stages.inventory import READ_ALWAYS, Keys, Listing
from replica_audit.stages.mapping import uncollected_batches
from replica_audit.stages.valid_rows import encoded_apart, refuse_with_problem

_AT_ONCE = 1 << 13  # claims in a pack


def with_packed_claims(rows: Iterable[Row], listing: Listing) -> Iterator[Row]:
    """The rows of one source, as of `list_source`; where replicas are read later, claims are in packs, those of READ_ALWAYS apart.

    Args:
        rows: of one source.
        listing: what of it was listed.
    """
    claims: list[Row] = []
    for row in rows:
        if listing.replicas is None or row.get("metadata") is None or row["topic"] in READ_ALWAYS:
            yield row
            continue
        claims.append(row)
        if len(claims) == _AT_ONCE:
            yield from _packs(claims)
            claims = []
    if claims:
        yield from _packs(claims)


def _packs(claims: Sequence[Row]) -> Iterator[Row]:
    of_source = {name: claims[0][name] for name in ("cluster_id", "broker_id")}
    rows, refused = encoded_apart(claims, CLAIMED, refuse_with_problem)
    yield from refused
    yield {**of_source, "is_audited": True, "claims": packed(rows)}


def claims_of(batches: Iterable[pa.RecordBatch], replicas: Keys | None) -> Iterator[pa.RecordBatch]:
    """The claims of some partitions.

    Args:
        batches: rows with `cluster_id`, `broker_id` and `claims`, a pack.
        replicas: of which partitions, (cluster id, topic, partition); None for all.

    Returns:
        Batches of the shape INVENTORY.
    """
    return uncollected_batches(_claims_of(batches, replicas))


def _claims_of(batches: Iterable[pa.RecordBatch], replicas: Keys | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for cluster, broker, pack in zip(*(batch[name].to_pylist() for name in ("cluster_id", "broker_id", "claims")), strict=True):
            claims = unpacked(pack)
            if replicas is not None:
                keys = zip(claims["topic"].to_pylist(), claims["partition"].to_pylist(), strict=True)
                claims = claims.filter(pa.array([(cluster, *key) in replicas for key in keys], pa.bool_()))
            if claims.num_rows:
                yield _inventory(cluster, broker, claims)


def _inventory(cluster_id: str, broker_id: int | None, claims: pa.RecordBatch) -> pa.RecordBatch:
    known = {"cluster_id": cluster_id, "broker_id": broker_id, "is_audited": True}
    columns = [
        claims[field.name] if field.name in CLAIMED.names else pa.array([known.get(field.name)] * claims.num_rows, field.type)
        for field in INVENTORY
    ]
    return pa.RecordBatch.from_arrays(columns, schema=INVENTORY)
