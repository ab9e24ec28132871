"""How everything about partitions looks → their fingerprints, and what each partition is against an earlier run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from replica_audit.formats.shapes import FINGERPRINTS, LOOKED
from replica_audit.model import Appearance, PartitionKey
from replica_audit.partition.known.fingerprint import ClusterIdentity, Fingerprint, SinceLastRun, fingerprint, since_last_run
from replica_audit.partition.known.looks import commits_identity
from replica_audit.rows.packed_rows import unpacked
from replica_audit.stages.mapping import uncollected_batches

_AT_ONCE = 4096  # rows of a batch
Look = tuple[int | None, Appearance]  # with its broker


class Compared(NamedTuple):
    """A partition now and against the earlier run.

    `broker_ids`: brokers with a replica of it; None if it is unchanged. `is_collected`: whether any replica of it is from a collection.
    """

    key: PartitionKey
    now: Fingerprint | None
    since_last_run: SinceLastRun
    broker_ids: list[int] | None
    is_collected: bool


def compared(batches: Iterable[pa.RecordBatch], clusters: Mapping[str, ClusterIdentity]) -> Iterator[pa.RecordBatch]:
    """The fingerprints of some partitions.

    Args:
        batches: of the shape SEEN: all that was seen of these partitions, in any order.
        clusters: by cluster id.

    Returns:
        Batches of the shape FINGERPRINTS, one row for each partition. One that is not there now has no fingerprint; an unchanged one has
        the digest that shows it. A partition that only committed offsets name has no row.
    """
    return uncollected_batches(_batches(batches, clusters))


def _batches(batches: Iterable[pa.RecordBatch], clusters: Mapping[str, ClusterIdentity]) -> Iterator[pa.RecordBatch]:
    rows = iter(_compared(batches, clusters))
    while some := list(islice(rows, _AT_ONCE)):
        yield _encoded(some)


def _compared(batches: Iterable[pa.RecordBatch], clusters: Mapping[str, ClusterIdentity]) -> list[Compared]:
    looks: dict[PartitionKey, list[Look]] = defaultdict(list)
    commits: dict[PartitionKey, list[Any]] = defaultdict(list)
    before: dict[PartitionKey, Fingerprint] = {}
    for batch in batches:
        keys = list(zip(*(batch[name].to_pylist() for name in ("cluster_id", "topic", "partition")), strict=True))
        for cluster, broker, pack in zip(*(batch[name].to_pylist() for name in ("cluster_id", "broker_id", "looks")), strict=True):
            if pack is not None:
                _add_looks(cluster, broker, unpacked(pack), looks)
        for key, commit in _there(batch, keys, "commit"):
            commits[key].append(commit)
        for key, then in _there(batch, keys, "before"):
            before[key] = Fingerprint(whole=then["fingerprint"], quiet=then["quiet_fingerprint"])
    found: list[Compared] = []
    no_commits = commits_identity(())
    for key in list(looks):
        of_one = looks.pop(key)  # there may be a million: they go as they are compared
        then = before.pop(key, None)
        committed = commits_identity(commits[key]) if key in commits else no_commits
        now = fingerprint(of_one, committed, clusters[key[0]], then)
        since = since_last_run(now, then)
        is_collected = any(look.captured_at_ms is not None for _broker, look in of_one)
        found.append(Compared(key, now, since, None if since is SinceLastRun.UNCHANGED else _with_replica(of_one), is_collected))
    return [*found, *(Compared(key, None, since_last_run(None, then), [], is_collected=False) for key, then in before.items())]


def _add_looks(cluster: str, broker: int | None, rows: pa.RecordBatch, looks: dict[PartitionKey, list[Look]]) -> None:
    columns: dict[str, list[Any]] = {name: rows[name].to_pylist() for name in LOOKED.names}
    columns["times_ms"] = [tuple(times) for times in columns["times_ms"]]
    topics, partitions = columns.pop("topic"), columns.pop("partition")
    for topic, partition, look in zip(topics, partitions, map(Appearance._make, zip(*columns.values(), strict=True)), strict=True):
        looks[cluster, topic, partition].append((broker, look))


def _there(batch: pa.RecordBatch, keys: list[PartitionKey], name: str) -> Iterator[tuple[PartitionKey, Any]]:
    """The values of a column that are not null, with the partitions that they are of."""
    column = batch[name]
    if column.null_count < len(column):
        yield from ((key, value) for key, value in zip(keys, column.to_pylist(), strict=True) if value is not None)


def _encoded(rows: list[Compared]) -> pa.RecordBatch:
    keys, now, since, brokers, collected = zip(*rows, strict=True)
    clusters, topics, partitions = zip(*keys, strict=True)
    made = {
        "cluster_id": clusters,
        "topic": topics,
        "partition": partitions,
        "fingerprint": [one and one.whole for one in now],
        "quiet_fingerprint": [one and one.quiet for one in now],
        "since_last_run": list(map(str, since)),
        "broker_ids": brokers,
        "is_collected": collected,
    }
    return pa.RecordBatch.from_arrays([pa.array(made[field.name], field.type) for field in FINGERPRINTS], schema=FINGERPRINTS)


def _with_replica(looks: Iterable[Look]) -> list[int]:
    return sorted({broker for broker, look in looks if broker is not None and look.directory is not None})
