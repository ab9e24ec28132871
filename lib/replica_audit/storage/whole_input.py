"""Problems of an input as a whole, which are known only once its brokers' folders are listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from replica_audit.model import Problem
from replica_audit.storage.missing_brokers import ONE_OF_SEVERAL, lacking
from replica_audit.storage.sources import Found
from replica_audit.transforms.clusters import ClusterFacts, named_brokers


def brokers_not_there(found: Found, facts: Mapping[str, ClusterFacts]) -> Iterator[tuple[str, Problem]]:
    """For each cluster by its id: brokers that its metadata names and the input lacks, unless that is reported already."""
    reported = {cluster for cluster, problem in found.problems if problem.code == ONE_OF_SEVERAL}
    for root in found.roots:
        present = (broker.broker_id for broker in root.brokers)
        problem = lacking(root.metadata_path or root.path, present, named_brokers(root.head, facts[root.cluster_id]))
        if problem is not None and root.cluster_id not in reported:
            yield root.cluster_id, problem


def no_replicas(inputs: Sequence[str], topics: str) -> Problem:
    """That the inputs hold no replica of any topic, or of one that `topics`, a regular expression, matches."""
    chosen = f" of a topic that matches {topics!r}" if topics else ""
    return Problem(
        path=", ".join(inputs),
        kind="input",
        code="no-replicas",
        detail=f"no replica directory{chosen} was found",
        remedy="check --topics and --input" if chosen else "give the directories that hold TOPIC-PARTITION folders with .log files",
    )
