"""The partitions of `__consumer_offsets` → the offsets that groups have committed."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.formats.coordinators.group_offsets import committed_offsets
from replica_audit.formats.values import Row, commit_row
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.rows.encoding import as_dict
from replica_audit.stages.partitions import audit_of

KEYS = ("cluster_id", "topic", "partition")


def list_commits(known: KnownPartition, cluster: ClusterFacts) -> Iterator[Row]:
    """The committed offsets of one partition of `__consumer_offsets`, from its leader or, without it, from the longest readable replica."""
    replica = audit_of(known, cluster).best_replica
    if replica is None:
        return
    found, problems = committed_offsets(replica.files_in_log, replica.log.log_end_offset if replica.log else None)
    for problem in problems:
        yield {"cluster_id": known.cluster_id, "broker_id": replica.broker_id, "problem": as_dict(problem)}
    for commit in found:
        yield {"cluster_id": known.cluster_id, "topic": commit.topic, "partition": commit.partition, "commit": commit_row(commit)}
