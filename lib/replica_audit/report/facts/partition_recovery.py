"""What somebody has to act upon in one partition: the facts of `recovery_facts`, read for an explanation."""

from __future__ import annotations

from replica_audit.protocol.verdict.confirmation import FOUND_NOW
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import Severity, Verdict
from replica_audit.recovery.facts import RecoveryFacts
from replica_audit.report.facts.tables import Tables
from replica_audit.rows.findings import RunFinding
from replica_audit.rows.history import ConsumerImpact
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.runs import AuditRun
from replica_audit.rows.transactions import OpenTransactionRow


def partition_recovery(tables: Tables, run: AuditRun, topic: str, partition: int) -> RecoveryFacts:
    """Read them; a table that is not there has nothing to say.

    Raises:
        UsageError: a table cannot be read.
    """
    keys: dict[str, str | int] = {"run_id": run.run_id, "cluster_id": run.cluster_id, "topic": topic, "partition": partition}
    offline = tables.rows("findings", RunFinding, **keys, code=str(PartitionCode.OFFLINE_PARTITION))
    verdicts = [
        row
        for row in tables.rows("replica_verdicts", ReplicaVerdict, **keys)
        if row.severity != Severity.NONE and row.verdict != Verdict.INCONCLUSIVE
    ]
    groups = [row for row in tables.rows("consumer_impacts", ConsumerImpact, **keys) if row.affected]
    transactions = [row for row in tables.rows("open_transactions", OpenTransactionRow, **keys) if row.hangs_because is not None]
    return RecoveryFacts(
        run_id=run.run_id,
        cluster_id=run.cluster_id,
        offline=tuple(row for row in offline if row.status in FOUND_NOW),
        verdicts=tuple(sorted(verdicts, key=lambda row: row.follower_id)),
        groups=tuple(sorted(groups, key=lambda row: row.group_id)),
        transactions=tuple(sorted(transactions, key=lambda row: row.first_offset)),
    )
