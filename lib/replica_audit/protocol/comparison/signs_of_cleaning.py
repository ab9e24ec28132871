"""Whether logs show that a cleaner was at work, where the input has neither a topic's cleanup.policy nor its cleaner checkpoints.

Sources: Cleaner.cleanInto and MemoryRecords.filterTo (4.2.0). A leader appends batches whole, and offsets follow each other; a follower
appends what its leader has; retention removes whole segments, and a segment is named after its first batch. So only a cleaner leaves a
batch with fewer records than offsets, or offsets that are missing within one epoch and segment. A cut that falls inside a batch leaves a
hole, too (KAFKA-6361), but a later epoch begins behind it. That a log lacks its first offsets could be either; a cut can do it only
in the first batch of all, so it is taken for a cleaner's work.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from replica_audit.model import BatchRun, Segment


def shows_cleaning(segments: Sequence[Segment]) -> bool:
    """Whether the segments of a replica do; they ascend."""
    first = next((segment for segment in segments if segment.runs), None)
    begins_late = first is not None and first.runs[0].first_offset > first.base_offset
    holes = (_is_hole(*both) for segment in segments for both in pairwise(segment.runs))
    return begins_late or lacks_records(segments) or any(holes)


def holds_every_record(runs: Sequence[BatchRun], log_start_offset: int, log_end_offset: int) -> bool:
    """Whether a log has a record for each of its offsets: then no cleaner has taken any from it, nor from what it was fetched from."""
    held = [run for run in runs if run.last_offset >= log_start_offset]
    if any(map(_lacks_records, held)):
        return False
    ends = [log_start_offset, *(run.last_offset + 1 for run in held)]
    return all(run.first_offset <= end for run, end in zip(held, ends, strict=False)) and ends[-1] >= log_end_offset


def lacks_records(segments: Sequence[Segment]) -> bool:
    """Whether a batch of a replica has fewer records than offsets."""
    return any(_lacks_records(run) for segment in segments for run in segment.runs)


def _lacks_records(run: BatchRun) -> bool:
    return run.record_count < run.last_offset - run.first_offset + 1


def _is_hole(run: BatchRun, following: BatchRun) -> bool:
    return run.leader_epoch == following.leader_epoch >= 0 and run.last_offset + 1 < following.first_offset
