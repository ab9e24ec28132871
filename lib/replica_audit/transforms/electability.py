"""Who could be made the leader, and how, added to the rows of `what_if_leaders`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from replica_audit.model import PartitionMetadata
from replica_audit.protocol.partition_findings import election_type
from replica_audit.protocol.replica import Replica
from replica_audit.transforms.clusters import ClusterFacts
from replica_audit.transforms.rows import Row

_RUNS = {"up": True, "paused": True, "down": False, "stopped": False}


def with_electability(
    choices: Iterable[Row],
    metadata: PartitionMetadata,
    replicas: Mapping[int, Replica],
    stopped_cleanly: Mapping[int, bool],
    cluster: ClusterFacts,
) -> Iterator[Row]:
    """Rows of `what_if_leaders`, then, if nobody leads, one for each replica of which there is no log: what electing it loses is not known.

    Args:
        choices: what `leader_rows` gives.
        metadata: what is known last of the partition.
        replicas: those with a log, by broker.
        stopped_cleanly: whether the copy of each replica has the marker of a clean shutdown.
        cluster: whether its brokers run.
    """
    shown = set()
    for choice in choices:
        shown.add(choice["candidate_id"])
        yield choice | _electability(choice["candidate_id"], metadata, replicas, stopped_cleanly, cluster)
    for broker in [broker for broker in metadata.replicas if metadata.no_leader and broker not in shown]:
        missing = "its log is not in the input" if broker not in stopped_cleanly else "it has no log of this topic that can be read"
        yield {
            "topic": metadata.topic,
            "partition": metadata.partition,
            "candidate_id": broker,
            "is_leader": False,
            "in_isr": broker in metadata.isr,
            "reason": f"what electing it loses cannot be told: {missing}",
            **_electability(broker, metadata, replicas, stopped_cleanly, cluster),
        }


def _electability(
    broker: int,
    metadata: PartitionMetadata,
    replicas: Mapping[int, Replica],
    stopped_cleanly: Mapping[int, bool],
    cluster: ClusterFacts,
) -> Row:
    replica = replicas.get(broker)
    runs = replica.alive if replica is not None and replica.alive is not None else _RUNS.get(cluster.broker_states.get(broker, ""))
    if runs is None and cluster.fenced.get(broker):
        runs = False
    election = election_type(metadata, broker)
    return {
        "in_elr": broker in metadata.elr,
        "election": None if election is None else str(election),
        "broker_up": runs,
        "stopped_cleanly": stopped_cleanly.get(broker),
    }
