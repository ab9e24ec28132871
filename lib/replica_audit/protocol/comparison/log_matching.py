"""What two logs can never show, whenever they were copied: a difference below an offset that both hold in the same epoch.

Two logs that hold an offset in one epoch hold the same below it (KIP-101, KIP-279): no truncation makes or mends such a difference.
"""

from __future__ import annotations

from bisect import bisect_right

from replica_audit.protocol.epochs import lineage
from replica_audit.protocol.epochs.replica_log import LoadedLog
from replica_audit.protocol.exchange.replica import Replica


def agree_again(leader: Replica, follower: Replica, difference: lineage.Piece) -> bool:
    """Whether both logs hold a later offset in the same epoch, in the segments in which they differ.

    Of two segments that were copied one after the other the first may be of before a truncation, and the second of after it.

    Args:
        leader: of a partition.
        follower: of the same.
        difference: the first one; no proof where one of the two holds nothing there.
    """
    if difference.left_epoch is None or difference.right_epoch is None:
        return False
    end = min(_segment_end(one.log, difference.first_offset) for one in (leader, follower))
    later = lineage.pieces(leader.history, follower.history, difference.end_offset, end)
    return any(piece.left_epoch == piece.right_epoch and (piece.left_epoch or 0) >= 0 for piece in later)


def _segment_end(log: LoadedLog, offset: int) -> int:
    """Where the segment that holds an offset ends, exclusive."""
    following = bisect_right(log.segment_bases, offset)
    return log.segment_bases[following] if following < len(log.segment_bases) else log.log_end_offset
