"""When replicas were collected, and the CRCs of their segments last verified, by the tables of a run.

Of collections only: other inputs do not say it, and an audit of them verifies CRCs itself.
"""

from __future__ import annotations

from datetime import datetime
from typing import cast

import pyarrow.compute as pc
import pyarrow.dataset as ds

from replica_audit.past.run import PastRun
from replica_audit.report.facts.run_report import OldestCapture
from replica_audit.rows import REPLICA_LOGS


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
