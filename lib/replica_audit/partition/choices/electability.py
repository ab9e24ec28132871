"""Who could be made the leader, and how: columns of `what_if_leaders`, and its rows of replicas of which there is no log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import count

from replica_audit.model import PartitionMetadata
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.partition_findings import election_type
from replica_audit.rows.what_if import WhatIfLeader

_RUNS = {"up": True, "paused": True, "down": False, "stopped": False}


def begin_row(
    broker: int,
    metadata: PartitionMetadata,
    replicas: Mapping[int, Replica],
    stopped_cleanly: Mapping[int, bool],
    cluster: ClusterFacts,
) -> Callable[..., WhatIfLeader]:
    """A row of `what_if_leaders` with how a broker could be made the leader, but for what that would lose.

    Args:
        broker: its id.
        metadata: what is known last of the partition.
        replicas: those with a log, by broker.
        stopped_cleanly: whether the copy of each replica has the marker of a clean shutdown.
        cluster: whether its brokers run.
    """
    replica = replicas.get(broker)
    runs = replica.alive if replica is not None and replica.alive is not None else _RUNS.get(cluster.broker_states.get(broker, ""))
    if runs is None and cluster.fenced.get(broker):
        runs = False
    crashed = not runs and stopped_cleanly.get(broker) is False
    election = election_type(metadata, broker, crashed=crashed)
    return partial(
        WhatIfLeader,
        topic=metadata.topic,
        partition=metadata.partition,
        candidate_id=broker,
        in_elr=broker in metadata.elr,
        election=None if election is None else str(election),
        broker_up=runs,
        stopped_cleanly=stopped_cleanly.get(broker),
    )


def without_set_aside(rows: Iterable[WhatIfLeader], aside: Collection[int]) -> list[WhatIfLeader]:
    """The rows of candidates without those whose brokers set their logs aside at the start, ranked anew."""
    left = [row for row in rows if row.candidate_id not in aside]
    ranks = count(1)
    return [replace(row, rank=None if row.rank is None else next(ranks)) for row in left]


def without_log(
    shown: Collection[int],
    metadata: PartitionMetadata,
    replicas: Mapping[int, Replica],
    stopped_cleanly: Mapping[int, bool],
    cluster: ClusterFacts,
    aside: Collection[int],
) -> Iterator[WhatIfLeader]:
    """If nobody leads, a row for each replica of which there is no log: what electing it loses is not known.

    `shown` are the brokers that have a row already, `aside` those that set their log aside when they start; the rest as of `begin_row`.
    """
    for broker in [broker for broker in metadata.replicas if metadata.no_leader and broker not in shown]:
        missing = "its log is not in the input" if broker not in stopped_cleanly else "it has no log of this topic that can be read"
        missing = "its broker sets its log aside when it starts" if broker in aside else missing
        row = begin_row(broker, metadata, replicas, stopped_cleanly, cluster)
        yield row(
            rank=None,
            is_leader=False,
            in_isr=broker in metadata.isr,
            last_epoch=None,
            log_end_offset=None,
            lost_offsets=None,
            lost_records=None,
            lost_bytes=None,
            lost_below_high_watermark=None,
            lost_committed=None,
            lost_committed_offsets=None,
            followers_cut=None,
            followers_restarted=None,
            followers_failing=None,
            followers_diverged=None,
            already_lost_offsets=None,
            reason=f"what its election would lose is unknown: {missing}",
            unread_replicas=None,
        )
