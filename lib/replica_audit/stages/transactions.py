"""The partitions of `__transaction_state` → what their coordinators say of each transactional id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from replica_audit.formats.coordinators.transactions import transaction_states
from replica_audit.formats.values import Row, transaction_row
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.rows.encoding import as_dict
from replica_audit.stages.partitions import partition_audit

PRODUCER_IDS = ("producer_id", "previous_producer_id", "next_producer_id")  # of a transactional id, -1 for none


def list_transactions(row: Row, clusters: Mapping[str, ClusterFacts]) -> Iterator[Row]:
    """The states in one partition of `__transaction_state`, from its leader or, without it, from the longest readable replica."""
    cluster = row["cluster_id"]
    replica = partition_audit(row, clusters[cluster]).best_replica
    if replica is None:
        return
    found, problems = transaction_states(replica.files_in_log, replica.log.log_end_offset if replica.log else None)
    for problem in problems:
        yield {"cluster_id": cluster, "broker_id": replica.broker_id, "problem": as_dict(problem)}
    for state in found:
        yield {"cluster_id": cluster, "transaction": transaction_row(state)}


class TransactionsOfPartitions:
    """What rows of `list_transactions` say of each partition of a cluster."""

    def __init__(self, rows: Iterable[Row]) -> None:
        """Take the rows of one cluster that hold a `transaction`."""
        self._of_partition: dict[tuple[str, int], list[Row]] = defaultdict(list)
        self._of_producer: dict[int, list[Row]] = defaultdict(list)
        for row in rows:
            for producer in {row["transaction"][name] for name in PRODUCER_IDS if row["transaction"][name] >= 0}:
                self._of_producer[producer].append(row["transaction"])
            for place in {(one["topic"], one["partition"]) for one in row["transaction"]["partitions"]}:
                self._of_partition[place].append(row["transaction"])

    def of(self, row: Row) -> list[Row]:
        """Those of a gathered partition, as rows of the shape TRANSACTION_STATE."""
        told = list(self._of_partition.get((row["topic"], row["partition"]), ()))
        for producer in _with_open_transactions(row) if self._of_producer else ():
            told += self._of_producer.get(producer, ())
        return list({one["transactional_id"]: one for one in told}.values())


def _with_open_transactions(row: Row) -> set[int]:
    """The producers that have a transaction open at the end of a segment; it may be ended in a later one."""
    scans = (of_broker["segment"]["producers"] for of_broker in row["segments"])
    return {span["producer_id"] for producers in scans if producers for span in producers["spans"] if span["open_first_offset"] >= 0}
