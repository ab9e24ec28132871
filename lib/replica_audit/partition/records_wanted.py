"""Which records of a partition have to be read, so that they can be compared."""

from __future__ import annotations

from replica_audit.partition.audit import PartitionAudit
from replica_audit.partition.pairs.pair import Pair, measure
from replica_audit.partition.pairs.records import RecordsWanted, compared_logs, wanted


def records_wanted(audit: PartitionAudit) -> RecordsWanted | None:
    """What is to be read of an audited partition; None if nothing is."""
    if not audit.compares_keys:
        return None
    pairs = (audit.pair(broker) for broker in sorted(audit.replicas) if broker != audit.leadership.leader_id)
    found = (compared_logs(pair, measure(pair, ()), audit.cluster, audit.metadata) for pair in pairs if isinstance(pair, Pair))
    producers = {(broker, scan.file): scan.segment.producers for broker, scan in audit.known.segments}
    return wanted([logs for logs in found if logs is not None], list(audit.compared.values()), producers)
