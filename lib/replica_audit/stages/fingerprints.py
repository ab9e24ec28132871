"""How everything about a partition looks → its fingerprint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from replica_audit.model import Appearance
from replica_audit.partition.known.fingerprint import ClusterIdentity, fingerprint
from replica_audit.partition.known.looks import commits_identity
from replica_audit.tables.values import Row


def list_fingerprint(row: Row, clusters: Mapping[str, ClusterIdentity]) -> Iterator[Row]:
    """The fingerprint of one partition as a row of the shape FINGERPRINTS.

    Args:
        row: cluster_id, topic, partition, `looks` (of the shape LOOK, with their brokers), and `commits`, null where there are none.
        clusters: by cluster id.
    """
    looks = [(one["broker_id"], _look(one["look"])) for one in row["looks"]]
    made = fingerprint(looks, commits_identity(row["commits"] or ()), clusters[row["cluster_id"]])
    yield {
        "cluster_id": row["cluster_id"],
        "topic": row["topic"],
        "partition": row["partition"],
        "fingerprint": made.exact,
        "quiet_fingerprint": made.quiet,
    }


def _look(row: Row) -> Appearance:
    return Appearance(**{**row, "times_ms": tuple(row["times_ms"])})
