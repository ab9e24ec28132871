"""What is known of a running leader's log from a time after it was copied, and what that proves of a follower that was copied later."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from replica_audit.protocol.epochs.epoch_table import EpochTable


class Look(NamedTuple):
    """A log at a later time, when it still began as its copy does: it reached `log_end_offset` at least, in the epochs of the table."""

    epochs: EpochTable
    log_end_offset: int


class LaterBound(StrEnum):
    """What proves that a follower holds nothing beyond its leader's copy but what the leader's log held soon after, too.

    CURRENT_EPOCH: it is of the epoch that the leader leads in, in which nobody else writes. SECOND_LOOK: `collect` looked at the leader's
    log again, and it reached as far, in the same epochs. LATER_TABLE: so says the leader's epoch table, which was copied after its log.
    """

    CURRENT_EPOCH = "current-epoch"
    SECOND_LOOK = "second-look"
    LATER_TABLE = "later-table"


class Seen(NamedTuple):
    """A follower as far as its leader's copy reaches, exclusive, what bounds the rest, and up to where a later look shows its epochs.

    `held_until`: up to where the follower's log reached then, at least. It is less than `until` where a cleaner has left nothing before.
    """

    until: int
    bound: LaterBound
    shown_until: int
    held_until: int
