"""The partitions of `__consumer_offsets` and `__transaction_state` → committed offsets, and the states of transactional ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from replica_audit.formats.coordinators.group_offsets import committed_offsets
from replica_audit.formats.coordinators.transactions import transaction_states
from replica_audit.formats.values import Row, commit_row, transaction_row
from replica_audit.model import TransactionState
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


PRODUCER_IDS = ("producer_id", "previous_producer_id", "next_producer_id")  # of a transactional id, -1 for none


def list_transactions(known: KnownPartition, cluster: ClusterFacts) -> Iterator[Row]:
    """The states in one partition of `__transaction_state`, from its leader or, without it, from the longest readable replica."""
    replica = audit_of(known, cluster).best_replica
    if replica is None:
        return
    found, problems = transaction_states(replica.files_in_log, replica.log.log_end_offset if replica.log else None)
    for problem in problems:
        yield {"cluster_id": known.cluster_id, "broker_id": replica.broker_id, "problem": as_dict(problem)}
    for state in found:
        yield {"cluster_id": known.cluster_id, "transaction": transaction_row(state)}


class TransactionsOfPartitions:
    """What the coordinators of a cluster say of each of its partitions."""

    def __init__(self, states: Iterable[TransactionState]) -> None:
        """Take what they say of each transactional id."""
        self._of_partition: dict[tuple[str, int], list[TransactionState]] = defaultdict(list)
        self._of_producer: dict[int, list[TransactionState]] = defaultdict(list)
        for state in states:
            for producer in {number for name in PRODUCER_IDS if (number := getattr(state, name)) >= 0}:
                self._of_producer[producer].append(state)
            for place in set(state.partitions):
                self._of_partition[place].append(state)

    def of(self, known: KnownPartition) -> tuple[TransactionState, ...]:
        """Those of a partition, by transactional id."""
        if not self._of_producer and not self._of_partition:
            return ()
        told = list(self._of_partition.get((known.topic, known.partition), ()))
        for producer in _with_open_transactions(known):
            told += self._of_producer.get(producer, ())
        found = {one.transactional_id: one for one in told}
        return tuple(found[name] for name in sorted(found))


def _with_open_transactions(known: KnownPartition) -> set[int]:
    """The producers that have a transaction open at the end of a segment; it may be ended in a later one."""
    scans = (scan.segment.producers for _broker, scan in known.segments)
    return {span.producer_id for producers in scans if producers for span in producers.spans if span.open_first_offset >= 0}
