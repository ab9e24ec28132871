"""Segments that the cleaner had merged into the one before them, and that a copy of a running broker's files holds all the same.

Sources: Cleaner.cleanSegments and UnifiedLog.replaceSegments, 3.9 to 4.3: a group of segments becomes one with the base offset of the
first; the new file is renamed, then the old ones are, and deleted a minute later. The active segment is in no group.
"""

from __future__ import annotations

from collections.abc import Sequence

from replica_audit.model import Segment


def replaced_segments(segments: Sequence[Segment]) -> frozenset[int]:
    """The base offsets of segments that a cleaned one before them covers, where that explains every overlap of a log.

    Args:
        segments: ascending by base offset, `.swap` files already in place.

    Returns:
        None of them where no segment begins below the end of the one before it, or the newest does: that one is never cleaned.
    """
    replaced: set[int] = set()
    end = 0
    for segment in segments:
        if segment.base_offset < end:
            replaced.add(segment.base_offset)
        else:
            end = segment.next_offset
    newest = max((segment.base_offset for segment in segments), default=0)
    return frozenset() if newest in replaced else frozenset(replaced)
