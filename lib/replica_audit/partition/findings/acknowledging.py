"""A finding → the acknowledgement that is about it, and its row of `findings` against those of earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from replica_audit.protocol.verdict.acknowledgement import Acknowledgements, AckSubject, Status, is_resolved
from replica_audit.rows.findings import AcknowledgedBy, CheckedPartition, FoundFinding, RunFinding
from replica_audit.rows.records import MissingSequences

Found = TypeVar("Found", FoundFinding, RunFinding)


def acknowledging_all(
    found: list[FoundFinding], acknowledged: Acknowledgements, gaps: Sequence[MissingSequences] = ()
) -> list[FoundFinding]:
    """The same of all findings of a partition; a finding shows only the first of its `gaps`."""
    if not acknowledged.entries:
        return found
    in_gaps = sum(gap.missing_records for gap in gaps if gap.is_certain)
    return [acknowledging(one, acknowledged, at_least=0 if one.lost_records is None else in_gaps) for one in found]


def acknowledging(found: Found, acknowledged: Acknowledgements, *, at_least: int = 0) -> Found:
    """The finding with what the acknowledgements of its cluster, as of today, say of it; it loses `at_least` so many records."""
    decided = acknowledged.decide(_subject(found, at_least)) if acknowledged.entries else None
    if decided is None:
        return found if found.acknowledgement is None else replace(found, acknowledgement=None)
    entry, state = decided
    by = AcknowledgedBy(
        state=str(state),
        reason=entry.reason,
        who=entry.who,
        until=entry.until,
        severity=str(entry.severity),
        at_most_records=entry.at_most_records,
        line=entry.line,
    )
    return replace(found, acknowledgement=by)


def lost_records(found: FoundFinding | RunFinding) -> int:
    """How many records a finding loses: removed and not on the leader, or missing.

    Of a partition without a leader: under the candidate that loses least.

    Where a follower truncates, at least the committed offsets among them count: records may not be counted where batches are compacted.
    """
    if found.lost_records is not None:
        return sum(one.missing_records for one in found.lost_records)
    if found.candidates is not None:
        return min((one.lost_records for one in found.candidates if one.lost_records is not None), default=0)
    lost = found.removed_records if found.records_lost is None else found.records_lost
    return max(lost or 0, found.removed_committed or 0)


def _subject(found: FoundFinding | RunFinding, at_least: int) -> AckSubject:
    return AckSubject(
        code=found.code,
        severity=found.severity,
        topic=found.topic,
        partition=found.partition,
        broker_id=found.broker_id,
        records=max(lost_records(found), at_least),
    )


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
