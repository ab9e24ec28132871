"""Whether a segment is still what was audited, by the headers of its batches."""

from __future__ import annotations

from collections.abc import Sequence

from replica_audit.formats.replicas.replica_reader import scan_of
from replica_audit.model.salvage import AuditedRun, AuditedSegment


def changed_since(segment: AuditedSegment) -> str | None:
    """Why a segment is not the one that was audited, by the headers of its batches; None if it is.

    Raises:
        OSError: it cannot be read.
    """
    if segment.runs is None or segment.file.source != "raw":
        return None
    found: list[AuditedRun] = []
    for run in scan_of(segment.file, verify_crc=False).runs:
        of_run = AuditedRun(*run[:8])
        if found and found[-1].leader_epoch == of_run.leader_epoch:
            found[-1] = _joined(found[-1], of_run)
        else:
            found.append(of_run)
    if tuple(found) == segment.runs:
        return None
    held = _told(found), _told(segment.runs)
    return f"{segment.file.path} holds {held[0]}, when it was audited it held {held[1]}"


def _joined(run: AuditedRun, following: AuditedRun) -> AuditedRun:
    return AuditedRun(
        run.leader_epoch,
        run.first_offset,
        following.last_offset,
        run.batch_count + following.batch_count,
        run.record_count + following.record_count,
        run.size_bytes + following.size_bytes,
        min(run.min_timestamp_ms, following.min_timestamp_ms),
        max(run.max_timestamp_ms, following.max_timestamp_ms),
    )


def _told(runs: Sequence[AuditedRun]) -> str:
    if not runs:
        return "no batch"
    size = sum(run.size_bytes for run in runs)
    return f"offsets {runs[0].first_offset}..{runs[-1].last_offset} in {size} bytes and epochs up to {runs[-1].leader_epoch}"
