"""Whether a finding of an earlier run is over: only where this run looked at the same thing and found it in order.

A replica that can no longer be read, compared or found proves nothing about it.
"""

from __future__ import annotations

from enum import StrEnum

from replica_audit.protocol.cluster.leadership import INFERRED
from replica_audit.protocol.verdict.partition_findings import FindingAbout, PartitionCode
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.rows.findings import CheckedPartition, RunFinding


class Status(StrEnum):
    """What a finding is against those of earlier runs."""

    NEW = "new"
    PERSISTING = "persisting"
    RESOLVED = "resolved"
    UNCONFIRMED = "unconfirmed"


class MissingCode(StrEnum):
    """What an earlier run had and this one lacks, as acknowledgements name it (`verdict`)."""

    CLUSTER_MISSING = "cluster_missing"
    BROKER_MISSING = "broker_missing"


FOUND_NOW = (str(Status.NEW), str(Status.PERSISTING))


def is_resolved(finding: RunFinding, check: CheckedPartition) -> bool:
    """Whether the run confirms that the finding, which it does not have, is over.

    A pair counts as compared and clean also where both replicas were compared with another leader: each is then a prefix of that log, so
    they agree with each other. A leader that is only inferred confirms nothing that was found under one that was known. What a broker's log
    showed is over once the replica is clean and the line is no longer in the input.
    """
    is_known = check.leader_id >= 0 and check.leader_source != INFERRED
    match finding.code:
        case PartitionCode.OFFLINE_PARTITION:
            return is_known
        case PartitionCode.LEADER_EPOCH_MISSING:
            return is_known and check.leader_has_epoch
        case PartitionCode.HANGING_TRANSACTION:
            return is_known and check.has_no_hanging_transaction
        case PartitionCode.IN_SYNC_OUTSIDE_ISR:
            return is_known and finding.broker_id in check.isr
        case (
            PartitionCode.SEQUENCE_GAP
            | PartitionCode.OFFSETS_MISSING
            | PartitionCode.COMMITTED_RECORDS_GONE
            | PartitionCode.TOPIC_ID_CONFLICT
        ):
            return check.leader_id in check.clean
    if finding.about in (FindingAbout.LEADER, FindingAbout.REPLICA, FindingAbout.BROKER_LOG):
        return finding.broker_id in check.clean
    if not is_known and finding.leader_source not in (None, INFERRED):
        return False
    pair = {finding.broker_id, *([finding.leader_id] if finding.leader_id is not None and finding.leader_id >= 0 else [])}
    followers = pair - {check.leader_id}
    if finding.code == Verdict.CONTENT_MISMATCH and not followers <= set(check.same_batches):
        return False
    if finding.code == Verdict.COMPACTION_DIFFERS and not followers <= set(check.same_records):
        return False
    return pair <= set(check.clean)
