"""Segments that the cleaner had merged into the one before them, and that a copy of a running broker's files holds all the same.

Sources: Cleaner.cleanSegments and UnifiedLog.replaceSegments, 3.9 to 4.3: a group of segments becomes one with the base offset of the
first; the new file is renamed, then the old ones are, and deleted a minute later. The active segment is in no group: where the newest of a
copy was replaced, the broker began another after the copy had listed the directory.
"""

from __future__ import annotations

from collections.abc import Sequence

from replica_audit.model import Segment


def replaced_segments(segments: Sequence[Segment]) -> frozenset[int]:
    """The base offsets of segments that begin below the end of a segment before them, which replaced them if a cleaner wrote it.

    Args:
        segments: ascending by base offset, `.swap` files already in place.
    """
    replaced: set[int] = set()
    end = 0
    for segment in segments:
        if segment.base_offset < end:
            replaced.add(segment.base_offset)
        else:
            end = segment.next_offset
    return frozenset(replaced)
