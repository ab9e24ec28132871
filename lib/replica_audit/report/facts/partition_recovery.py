"""What somebody has to act upon in one partition: the facts of `recovery_facts`, read for an explanation."""

from __future__ import annotations

from replica_audit.protocol.verdict.confirmation import FOUND_NOW
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import Severity, Verdict
from replica_audit.report.facts.explained_rows import ExplainedRun, Tables
from replica_audit.report.facts.recovery_facts import ActedGroup, ActedTransaction, ActedVerdict, RecoveryFacts
from replica_audit.report.facts.run_report import OfflinePartition


def partition_recovery(tables: Tables, run: ExplainedRun, topic: str, partition: int) -> RecoveryFacts:
    """Read them; a table that is not there has nothing to say.

    Raises:
        UsageError: a table cannot be read.
    """
    keys: dict[str, str | int] = {"run_id": run.run_id, "cluster_id": run.cluster_id, "topic": topic, "partition": partition}
    offline = tables.rows("findings", OfflinePartition, **keys, code=str(PartitionCode.OFFLINE_PARTITION))
    verdicts = [row for row in tables.rows("replica_verdicts", ActedVerdict, **keys) if row.severity != Severity.NONE]
    groups = [row for row in tables.rows("consumer_impacts", ActedGroup, **keys) if row.affected]
    transactions = [row for row in tables.rows("open_transactions", ActedTransaction, **keys) if row.hangs_because is not None]
    return RecoveryFacts(
        run_id=run.run_id,
        cluster_id=run.cluster_id,
        offline=tuple(row for row in offline if row.status in FOUND_NOW),
        verdicts=tuple(sorted((row for row in verdicts if not _is_open(row)), key=lambda row: row.follower_id)),
        groups=tuple(sorted(groups, key=lambda row: row.group_id)),
        transactions=tuple(sorted(transactions, key=lambda row: row.first_offset)),
        inconclusive=sum(map(_is_open, verdicts)),
    )


def _is_open(row: ActedVerdict) -> bool:
    return row.verdict == Verdict.INCONCLUSIVE
