"""One gathered row of a partition → every row that the audit says about it."""

from __future__ import annotations

from dataclasses import replace

from replica_audit.formats.values import Row
from replica_audit.partition.healthy import healthy_rows, proven_healthy
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.rows import AuditedPartition
from replica_audit.stages.partitions import audit_of, known_partition, partition_audit, read_again
from replica_audit.stages.producer_files import problems_of_producers, producer_file_problems
from replica_audit.stages.records import keys_of_few
from replica_audit.stages.valid_rows import sifted


def judged(row: Row, cluster: ClusterFacts) -> AuditedPartition:
    """Audit one partition; what is proven healthy is not compared pair by pair.

    Args:
        row: what is known of it, as `known_partition` takes it.
        cluster: the facts of its cluster.
    """
    known = known_partition(row)
    made = proven(known, cluster, every_row=cluster.every_row)
    if made is not None:
        return sifted(made)
    audit = audit_of(known, cluster)
    if audit.compares_keys and cluster.compare is not CompareMode.RECORDS:
        audit = partition_audit(row | {"keys": keys_of_few(row, audit)}, cluster)
    made = audit.row()
    told = list(producer_file_problems(audit))
    return sifted(replace(made, input_errors=[*made.input_errors, *told]) if told else made)


def proven(known: KnownPartition, cluster: ClusterFacts, *, every_row: bool) -> AuditedPartition | None:
    """The rows of a partition that is proven healthy, as of `healthy_rows`; None: it has to be judged."""
    one = proven_healthy(known, cluster)
    if one is None:
        return None
    return healthy_rows(one, read_again, lambda *of: not any(problems_of_producers(*of)), every_row=every_row)
