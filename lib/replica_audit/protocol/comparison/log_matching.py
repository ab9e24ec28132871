"""What two logs can never show, whenever they were copied: a difference below an offset that both hold in the same epoch.

Two logs that hold an offset in one epoch hold the same below it (KIP-101, KIP-279): no truncation makes or mends such a difference.
"""

from __future__ import annotations

from replica_audit.protocol.epochs import lineage
from replica_audit.protocol.exchange.replica import Replica


def agree_again(leader: Replica, follower: Replica, difference: lineage.Piece) -> bool:
    """Whether both logs hold a later offset in the same epoch, in the segments in which they differ.

    Of two segments that were copied one after the other the first may be of before a truncation, and the second of after it.

    Args:
        leader: of a partition.
        follower: of the same.
        difference: the first one. Where one of the two logs holds nothing there, it proves nothing.
    """
    if None in (difference.left_epoch, difference.right_epoch):
        return False
    end = min(one.log.segment_end(difference.first_offset) for one in (leader, follower))
    later = lineage.pieces(leader.history, follower.history, difference.end_offset, end)
    return any(piece.left_epoch is not None and 0 <= piece.left_epoch == piece.right_epoch for piece in later)
