"""How everything about partitions looks → their fingerprints, and what each partition is against an earlier run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa

from replica_audit.garbage import uncollected
from replica_audit.model import Appearance, PartitionKey
from replica_audit.partition.known.fingerprint import ClusterIdentity, Fingerprint, fingerprint, since_last_run
from replica_audit.partition.known.looks import commits_identity
from replica_audit.tables import FINGERPRINTS

_AT_ONCE = 4096  # rows of a batch
Compared = tuple[PartitionKey, Fingerprint | None, Fingerprint | None]  # a partition now, and in the earlier run


def compared(batches: Iterable[pa.RecordBatch], clusters: Mapping[str, ClusterIdentity]) -> Iterator[pa.RecordBatch]:
    """The fingerprints of some partitions.

    Args:
        batches: of the shape SEEN: all that was seen of these partitions, in any order.
        clusters: by cluster id.

    Yields:
        Batches of the shape FINGERPRINTS, one row for each partition. One that is not there now has no fingerprint; an unchanged one has
        the digest that shows it. A partition that only committed offsets name has no row.
    """
    with uncollected():
        found = _compared(batches, clusters)
    rows = iter(found)
    while some := list(islice(rows, _AT_ONCE)):
        yield _encoded(some)


def _compared(batches: Iterable[pa.RecordBatch], clusters: Mapping[str, ClusterIdentity]) -> list[Compared]:
    looks: dict[PartitionKey, list[tuple[int | None, Appearance]]] = defaultdict(list)
    commits: dict[PartitionKey, list[Any]] = defaultdict(list)
    before: dict[PartitionKey, Fingerprint] = {}
    for batch in batches:
        keys = list(zip(*(batch[name].to_pylist() for name in ("cluster_id", "topic", "partition")), strict=True))
        _add_looks(batch, keys, looks)
        for key, commit in _there(batch, keys, "commit"):
            commits[key].append(commit)
        for key, then in _there(batch, keys, "before"):
            before[key] = Fingerprint(exact=then["fingerprint"], quiet=then["quiet_fingerprint"])
    found: list[Compared] = []
    for key, of_one in looks.items():
        then = before.pop(key, None)
        found.append((key, fingerprint(of_one, commits_identity(commits.get(key, ())), clusters[key[0]], then), then))
    return [*found, *((key, None, then) for key, then in before.items())]


def _add_looks(batch: pa.RecordBatch, keys: list[PartitionKey], looks: dict[PartitionKey, list[tuple[int | None, Appearance]]]) -> None:
    """Column by column: a dictionary for each of a million looks takes longer than all that is done with it."""
    rows: Any = batch["look"]
    names, columns = [field.name for field in rows.type], [part.to_pylist() for part in rows.flatten()]
    brokers, known = batch["broker_id"].to_pylist(), rows.is_valid().to_pylist()
    for key, broker, is_there, values in zip(keys, brokers, known, zip(*columns, strict=True), strict=True):
        if is_there:
            made = dict(zip(names, values, strict=True))
            made["times_ms"] = tuple(made["times_ms"])
            looks[key].append((broker, Appearance(**made)))


def _there(batch: pa.RecordBatch, keys: list[PartitionKey], name: str) -> Iterator[tuple[PartitionKey, Any]]:
    """The values of a column that are not null, with the partitions that they are of."""
    column = batch[name]
    if column.null_count < len(column):
        yield from ((key, value) for key, value in zip(keys, column.to_pylist(), strict=True) if value is not None)


def _encoded(rows: list[Compared]) -> pa.RecordBatch:
    keys, now, before = zip(*rows, strict=True)
    clusters, topics, partitions = zip(*keys, strict=True)
    made = {
        "cluster_id": clusters,
        "topic": topics,
        "partition": partitions,
        "fingerprint": [one and one.exact for one in now],
        "quiet_fingerprint": [one and one.quiet for one in now],
        "since_last_run": [str(since_last_run(one, then)) for one, then in zip(now, before, strict=True)],
    }
    return pa.RecordBatch.from_arrays([pa.array(made[field.name], field.type) for field in FINGERPRINTS], schema=FINGERPRINTS)
