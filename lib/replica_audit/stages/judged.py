"""What was read of one partition → every row that the audit says about it."""

from __future__ import annotations

from dataclasses import replace

from replica_audit.partition.healthy import healthy_rows, proven_healthy
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.rows import AuditedPartition
from replica_audit.stages.items import read_records
from replica_audit.stages.partitions import audit_of, read_again
from replica_audit.stages.producer_files import problems_of_producers, producer_file_problems
from replica_audit.stages.records import keys_of_few
from replica_audit.stages.valid_rows import sifted


def judged(known: KnownPartition, cluster: ClusterFacts) -> AuditedPartition:
    """Audit one partition; what is proven healthy is not compared pair by pair.

    Args:
        known: what was read of it.
        cluster: the facts of its cluster.
    """
    made = proven(known, cluster, every_row=cluster.every_row)
    if made is not None:
        return sifted(made)
    audit = audit_of(known, cluster)
    if audit.compares_keys and cluster.compare is not CompareMode.RECORDS:
        audit = audit_of(replace(known, records=read_records(keys_of_few(audit))), cluster)
    made = audit.row()
    told = list(producer_file_problems(audit))
    return sifted(replace(made, input_errors=[*made.input_errors, *told]) if told else made)


def proven(known: KnownPartition, cluster: ClusterFacts, *, every_row: bool) -> AuditedPartition | None:
    """The rows of a partition that is proven healthy, as of `healthy_rows`; None: it has to be judged."""
    one = proven_healthy(known, cluster)
    if one is None:
        return None
    return healthy_rows(one, read_again, lambda *of: not any(problems_of_producers(*of)), every_row=every_row)
