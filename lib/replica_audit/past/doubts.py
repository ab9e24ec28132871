"""What the tables of a run leave in doubt, and when its replicas were collected and their segments' CRCs last verified."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import cast

import pyarrow.compute as pc
import pyarrow.dataset as ds

from replica_audit.model import UNDEFINED_EPOCH
from replica_audit.model.replicas import NOT_READ_WHOLE
from replica_audit.past.run import PastRun
from replica_audit.protocol.cluster.leadership import INFERRED, InferredBecause
from replica_audit.protocol.verdict.acknowledgement import AckState
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.assessment import Doubts
from replica_audit.report.facts.run_report import OldestCapture
from replica_audit.rows import FINDINGS, INPUT_ERRORS, REPLICA_LOGS, REPLICA_ROLES, REPLICA_VERDICTS
from replica_audit.rows.codes import Severity
from replica_audit.storage.warehouse.arrow_tables import ArrowTables

# tables of older versions may lack a column, so that a condition names only what they all have
_MAY_BE_SET_ASIDE = ds.field("code") == str(PartitionCode.WILL_BECOME_STRAY)
_PARTITION = ["cluster_id", "topic", "partition"]
_WITHOUT_EPOCH = (ds.field("leader_id") >= 0) & (ds.field("leader_epoch") == UNDEFINED_EPOCH)
# of two logs that are the same it does not matter who leads
_IS_BEHIND = (ds.field("severity") == str(Severity.NONE)) & (ds.field("verdict") != str(Verdict.IDENTICAL))
_IS_INFERRED = (ds.field("severity") == str(Severity.NONE)) & (ds.field("leader_source") == INFERRED)


def doubts_of(tables: ArrowTables, run_id: str) -> Doubts:
    """What a run could not read, or knows by a guess only, whether it is complete or not."""
    unread = tables.of_table(INPUT_ERRORS, ("code", "path"), ds.field("code").isin(sorted(NOT_READ_WHOLE)), run_id=run_id)
    codes, paths = ([str(value) for value in unread[name].to_pylist()] for name in ("code", "path"))
    inferred = tables.of_table(REPLICA_VERDICTS, ("inferred_because",), _IS_INFERRED, run_id=run_id)["inferred_because"].to_pylist()
    # that nobody leads, and who can, is a finding of its own
    guessed = sum(because != InferredBecause.NO_LEADER for because in inferred)
    touched = pc.sum(tables.of_table(REPLICA_VERDICTS, ("keys_may_differ",), run_id=run_id)["keys_may_differ"]).as_py()
    told = tables.of_table(FINDINGS, ("is_certain", "acknowledgement"), _MAY_BE_SET_ASIDE, run_id=run_id).to_pylist()
    aside = [row["acknowledgement"] for row in told if row["is_certain"] is False]
    undated = tables.of_table(REPLICA_ROLES, _PARTITION, _WITHOUT_EPOCH, run_id=run_id).group_by(_PARTITION).aggregate([])
    behind = tables.of_table(REPLICA_VERDICTS, _PARTITION, _IS_BEHIND, run_id=run_id) if len(undated) else None
    return Doubts(
        unread=dict(sorted(Counter(codes).items())),
        first_unread=min(paths, default=""),
        guessed_leaders=guessed,
        keys_may_differ=touched or 0,
        undated_leaders=0 if behind is None else len(behind.join(undated, _PARTITION, join_type="inner")),
        unknown_topic_ids=sum(known is None or known["state"] != AckState.ACKNOWLEDGED for known in aside),
    )


def oldest_capture(run: PastRun, cluster_id: str, started_at: datetime) -> OldestCapture | None:
    """The replica of a cluster that was collected first; None if none was.

    Args:
        run: whose tables tell it.
        cluster_id: of the cluster.
        started_at: when the run began.

    Raises:
        UsageError: the table cannot be read.
    """
    is_collected = (ds.field("cluster_id") == cluster_id) & ds.field("captured_at").is_valid()
    found = run.read(REPLICA_LOGS, ["broker_id", "captured_at"], is_collected)
    if not found.num_rows:
        return None
    (oldest,) = found.take(pc.sort_indices(found, [("captured_at", "ascending"), ("broker_id", "ascending")])[:1]).to_pylist()
    return OldestCapture(
        broker_id=oldest["broker_id"], captured_at=oldest["captured_at"], days_before=(started_at - oldest["captured_at"]).days
    )


def oldest_check(run: PastRun, cluster_id: str) -> datetime | None:
    """When that collected segment of a cluster was verified whose last check is the longest ago, UTC; None if none is known.

    Raises:
        UsageError: the table cannot be read.
    """
    found = run.read(REPLICA_LOGS, ["crcs_verified_at"], ds.field("cluster_id") == cluster_id)["crcs_verified_at"]
    return cast("datetime | None", pc.min(found).as_py())


def never_checked(run: PastRun, cluster_id: str) -> int:
    """How many collected replicas of a cluster have a segment that was never verified.

    Raises:
        UsageError: the table cannot be read.
    """
    is_collected = (ds.field("cluster_id") == cluster_id) & ds.field("captured_at").is_valid() & (ds.field("batch_count") > 0)
    return run.read(REPLICA_LOGS, ["crcs_verified_at"], is_collected)["crcs_verified_at"].null_count
