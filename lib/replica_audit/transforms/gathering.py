"""Everything that is known of a partition, in one row: replicas, segments, what metadata says, and who committed offsets of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from replica_audit.tables.encoding import as_dict
from replica_audit.transforms import consumers
from replica_audit.transforms.clusters import ClusterFacts
from replica_audit.transforms.partitions import PartitionAudit
from replica_audit.transforms.rows import Row

KEYS = ("cluster_id", "topic", "partition")


def list_commits(row: Row, clusters: Mapping[str, ClusterFacts]) -> Iterator[Row]:
    """The committed offsets of one partition of `__consumer_offsets`, from its leader or, without it, from the longest readable replica."""
    cluster = row["cluster_id"]
    replica = PartitionAudit(row, clusters[cluster]).best_replica
    if replica is None:
        return
    found, problems = consumers.committed(replica)
    for problem in problems:
        yield {"cluster_id": cluster, "broker_id": replica.broker_id, "problem": as_dict(problem)}
    for commit in found:
        yield {"cluster_id": cluster, "topic": commit.topic, "partition": commit.partition, "commit": consumers.commit_row(commit)}
