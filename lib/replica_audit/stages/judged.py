"""What was read of partitions → every row that the audit says about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from replica_audit.model import ScannedSegment
from replica_audit.partition.healthy import Healthy, confirmed, proven_healthy
from replica_audit.partition.healthy_rows import healthy_rows
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.rows import AuditedPartition
from replica_audit.stages.items import read_records
from replica_audit.stages.partitions import audit_of, read_again
from replica_audit.stages.producer_files import problems_of_producers, producer_file_problems
from replica_audit.stages.records import keys_of_few
from replica_audit.stages.valid_rows import sifted


def judged(partitions: Iterable[tuple[KnownPartition, ClusterFacts]]) -> Iterator[AuditedPartition]:
    """Audit partitions in their order, each with the facts of its cluster; rows of healthy neighbours are made together."""
    waiting: list[Healthy] = []
    for known, cluster in partitions:
        one = proven(known, cluster, every_row=cluster.every_row)
        if waiting and (one is None or waiting[0].of.cluster is not cluster):
            yield _rows_of_healthy(waiting)
            waiting = []
        if one is None:
            yield compared(known, cluster)
        else:
            waiting.append(one)
    if waiting:
        yield _rows_of_healthy(waiting)


def _rows_of_healthy(healthy: Sequence[Healthy]) -> AuditedPartition:
    """Make every row about healthy partitions of one cluster."""
    return sifted(healthy_rows(healthy, every_row=healthy[0].of.cluster.every_row))


def compared(known: KnownPartition, cluster: ClusterFacts) -> AuditedPartition:
    """Audit one partition pair by pair.

    Args:
        known: what was read of it.
        cluster: the facts of its cluster.
    """
    audit = audit_of(known, cluster)
    if audit.compares_keys and cluster.compare is not CompareMode.RECORDS:
        audit = audit_of(replace(known, records=read_records(keys_of_few(audit))), cluster)
    made = audit.row()
    told = list(producer_file_problems(audit))
    return sifted(replace(made, input_errors=[*made.input_errors, *told]) if told else made)


def proven(known: KnownPartition, cluster: ClusterFacts, *, every_row: bool) -> Healthy | None:
    """A partition that is proven healthy, as of `confirmed`; None: it has to be compared."""
    one = proven_healthy(known, cluster)
    return None if one is None else confirmed(one, read_again, _agrees, every_row=every_row)


def _agrees(loaded: Loaded, scans: Sequence[ScannedSegment]) -> bool:
    return not any(problems_of_producers(loaded, scans))
