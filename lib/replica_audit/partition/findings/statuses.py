"""What a finding is against the run before: new, persisting, resolved or unconfirmed."""

from __future__ import annotations

from dataclasses import replace

from replica_audit.partition.findings.acknowledging import acknowledging
from replica_audit.protocol.verdict.acknowledgement import Acknowledgements, Status, is_resolved
from replica_audit.rows.findings import CheckedPartition, FoundFinding, RunFinding


def history_row(
    cluster_id: str,
    found: FoundFinding | None,
    earlier: RunFinding | None,
    check: CheckedPartition | None,
    run_id: str,
    acknowledged: Acknowledgements | None = None,
) -> RunFinding:
    """A row of `findings`.

    Args:
        cluster_id: whose finding it is.
        found: the finding as this run has it; None if it does not.
        earlier: the row of the run before, open then; None if it has none. One of the two is there.
        check: what this run found in order in the partition; None if it did not see it.
        run_id: of this run.
        acknowledged: what somebody knows of in the cluster, which an earlier row that stays open is compared with again.

    Returns:
        What this run found as new or persisting; else the earlier row, as resolved if this run compared the same and found it clean, as
        unconfirmed if not: it then stays open.
    """
    if found is not None:
        first = run_id if earlier is None else earlier.first_seen_run_id
        status = Status.NEW if earlier is None else Status.PERSISTING
        return RunFinding.of(
            found, run_id=run_id, cluster_id=cluster_id, first_seen_run_id=first, last_seen_run_id=run_id, status=str(status)
        )
    if earlier is None:
        raise ValueError("neither this run nor the previous one has the finding")
    is_over = check is not None and is_resolved(earlier, check)
    if is_over:
        return replace(earlier, run_id=run_id, status=str(Status.RESOLVED), acknowledgement=None)
    return acknowledging(replace(earlier, run_id=run_id, status=str(Status.UNCONFIRMED)), acknowledged or Acknowledgements())
