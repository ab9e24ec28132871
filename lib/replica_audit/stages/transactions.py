"""The partitions of `__consumer_offsets` and `__transaction_state` → committed offsets, and the states of transactional ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from replica_audit.formats.coordinators.group_offsets import committed_offsets
from replica_audit.formats.coordinators.transactions import transaction_states
from replica_audit.model import TransactionState
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.stages.fitting import fitting
from replica_audit.stages.items import Item, OpenProducers
from replica_audit.stages.partitions import audit_of

Producer = tuple[str, int]  # cluster and id
Place = tuple[str, int]  # topic and partition


def list_commits(known: KnownPartition, cluster: ClusterFacts) -> Iterator[Item]:
    """The committed offsets of one partition of `__consumer_offsets`, from its leader or, without it, from the longest readable replica."""
    replica = audit_of(known, cluster).best_replica
    if replica is None:
        return
    found, problems = committed_offsets(replica.files_in_log, replica.log.log_end_offset if replica.log else None)
    yield from fitting(Item(known.cluster_id, None, None, replica.broker_id, problem) for problem in problems)
    yield from fitting(Item(known.cluster_id, commit.topic, commit.partition, None, commit) for commit in found)


def list_transactions(known: KnownPartition, cluster: ClusterFacts) -> Iterator[Item]:
    """The states in one partition of `__transaction_state`, from its leader or, without it, from the longest readable replica."""
    replica = audit_of(known, cluster).best_replica
    if replica is None:
        return
    found, problems = transaction_states(replica.files_in_log, replica.log.log_end_offset if replica.log else None)
    yield from fitting(Item(known.cluster_id, None, None, replica.broker_id, problem) for problem in problems)
    yield from fitting(Item(known.cluster_id, None, None, None, state) for state in found)


def writers(items: Iterable[Item]) -> dict[Producer, set[Place]]:
    """By producer the partitions in which it has a transaction open at the end of a segment."""
    found: dict[Producer, set[Place]] = defaultdict(set)
    for item in items:
        if isinstance(item.value, OpenProducers) and item.topic is not None and item.partition is not None:
            for producer in item.value.producer_ids:
                found[item.cluster_id, producer].add((item.topic, item.partition))
    return dict(found)


def to_partitions(item: Item, written: Mapping[Producer, Collection[Place]]) -> Iterator[Item]:
    """The state of a transactional id for each partition of its transaction, and for each in which its producers have one open."""
    state = item.value
    if not isinstance(state, TransactionState):
        return
    places = set(state.partitions)
    for producer in (state.producer_id, state.previous_producer_id, state.next_producer_id):
        if producer >= 0:
            places.update(written.get((item.cluster_id, producer), ()))
    for topic, partition in sorted(places):
        yield item._replace(topic=topic, partition=partition)
