"""One gathered row of a partition → every row that the audit says about it."""

from __future__ import annotations

from dataclasses import replace

from replica_audit.formats.values import Row
from replica_audit.partition.healthy import healthy_rows, proven_healthy
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.protocol.comparison.compare_mode import CompareMode
from replica_audit.rows.audited import AuditedPartition
from replica_audit.stages.partitions import audit_of, known_partition, partition_audit
from replica_audit.stages.producer_files import producer_file_problems
from replica_audit.stages.records import keys_of_few
from replica_audit.stages.valid_rows import sifted


def judged(row: Row, cluster: ClusterFacts) -> AuditedPartition:
    """Audit one partition; what is proven healthy is not compared pair by pair.

    Args:
        row: what is known of it, as `known_partition` takes it.
        cluster: the facts of its cluster.
    """
    known = known_partition(row)
    healthy = proven_healthy(known, cluster)
    made = None if healthy is None else healthy_rows(healthy, every_row=cluster.every_row)
    if made is not None:
        return sifted(made)
    audit = audit_of(known, cluster)
    if audit.compares_keys and cluster.compare is not CompareMode.RECORDS:
        audit = partition_audit(row | {"keys": keys_of_few(row, audit)}, cluster)
    made = audit.row()
    told = list(producer_file_problems(audit))
    return sifted(replace(made, input_errors=[*made.input_errors, *told]) if told else made)
