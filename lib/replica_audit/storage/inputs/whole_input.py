"""What is known of an input as a whole once its brokers' folders are listed: its clusters, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from replica_audit.model import Problem
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.storage.inputs.missing_brokers import ONE_OF_SEVERAL, lacking
from replica_audit.storage.inputs.sources import Found, Root
from replica_audit.storage.inputs.two_copies import of_log_directories, of_shared_ids


def problems_of_input(
    found: Found, facts: Mapping[str, ClusterFacts], inputs: Sequence[str], topics: str, *, has_replicas: bool
) -> Iterator[tuple[str | None, Problem]]:
    """What is wrong with an input as a whole, each with its cluster's id, or None.

    It holds no replica; or brokers that a cluster's metadata names are missing, unless that is reported already, or are there twice.
    """
    if not has_replicas:
        yield None, _no_replicas(inputs, topics)
    reported = {cluster for cluster, problem in found.problems if problem.code == ONE_OF_SEVERAL}
    for root in found.roots:
        present = (broker.broker_id for broker in root.brokers)
        problem = lacking(root.metadata_path or root.path, present, facts[root.cluster_id].named)
        if problem is not None and root.cluster_id not in reported:
            yield root.cluster_id, problem
        of_cluster = facts[root.cluster_id]
        for copied in (*of_log_directories(of_cluster.other_copies), *of_shared_ids(of_cluster.shared_ids)):
            yield root.cluster_id, copied


def about_cluster(root: Root, facts: ClusterFacts) -> dict[str, object]:
    """What the row of a cluster in `audit_runs` says of it, besides what is counted in its tables."""
    return {
        "protocol": str(facts.applies),
        "protocol_reason": facts.generation.reason,
        "kafka_version": facts.kafka_version,
        "path": str(root.path),
        "brokers": len({broker.broker_id for broker in root.brokers}),
        "broker_ids": sorted({broker.broker_id for broker in root.brokers}),
        "has_metadata": root.head is not None,
    }


def _no_replicas(inputs: Sequence[str], topics: str) -> Problem:
    """That the inputs hold no replica of any topic, or of one that `topics`, a regular expression, matches."""
    chosen = f" of a topic that matches {topics!r}" if topics else ""
    return Problem(
        path=", ".join(inputs),
        kind="input",
        code="no-replicas",
        detail=f"no replica directory{chosen} was found",
        remedy="check --topics and --input" if chosen else "give the directories that hold TOPIC-PARTITION folders with .log files",
    )
