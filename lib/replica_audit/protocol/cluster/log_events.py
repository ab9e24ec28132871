"""What a line of a broker's log says about one replica, as a value.

Sources: the messages of AbstractFetcherThread, ReplicaFetcherThread, AbstractFetcherManager, Partition, UnifiedLog (Log until 2.8),
LogManager and PartitionRegistration from 0.8 to 4.2.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def millis_of(time: str) -> int | None:
    """Milliseconds since 1970 of the time of an event, taken as UTC; None for what is none."""
    with suppress(ValueError):
        moment = datetime.strptime(time, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    return None


class EventKind(StrEnum):
    """What a line of a server.log says about one replica.

    `fetcher_added` and `fetcher_removed` tell of a change of role where state.change.logger has a file of its own. `epoch_response` is any
    line that tells the leader's answer and orders nothing by itself. `below_high_watermark` and `high_watermark_fell` are lines about one
    truncation that removes committed records, `truncation_refused` is that a broker exits rather than truncate (unclean elections are
    disabled; until 1.0), and `unclean_election` is the controller's line, which names the elected leader.
    """

    FETCHER_TRUNCATION = "fetcher_truncation"
    HIGH_WATERMARK_TRUNCATION = "high_watermark_truncation"
    MORE_ROUNDS = "more_rounds"
    EPOCH_RESPONSE = "epoch_response"
    OUT_OF_RANGE_RESET = "out_of_range_reset"
    FULL_TRUNCATION = "full_truncation"
    LOG_TRUNCATION = "log_truncation"
    NO_EFFECT = "no_effect"
    BELOW_HIGH_WATERMARK = "below_high_watermark"
    HIGH_WATERMARK_FELL = "high_watermark_fell"
    TRUNCATION_REFUSED = "truncation_refused"
    UNCLEAN_ELECTION = "unclean_election"
    FETCHER_FAILED = "fetcher_failed"
    UNCLEAN_RECOVERY = "unclean_recovery"
    BECAME_LEADER = "became_leader"
    BECAME_FOLLOWER = "became_follower"
    FETCHER_ADDED = "fetcher_added"
    FETCHER_REMOVED = "fetcher_removed"
    LOADED = "loaded"
    RECOVERY_TRUNCATION = "recovery_truncation"


class LogEvent(NamedTuple):
    """What one line says of one replica; None where it does not say.

    `offset` is the one that the line is about: truncated to, started from, or fetched from. `log_end_offset` is where the log ended before
    it, exclusive; `high_watermark` the one before it. `time` is the line's own, `YYYY-MM-DD HH:MM:SS,mmm` in a zone that it does not have,
    or empty: the layout has no date. `line` counts from 1, `byte_offset` from 0 in the uncompressed text. `log_dir` is the log directory of
    a line that the log itself wrote: a replica that is being moved has two. `text` is the beginning of the line. `newest_first`: its file
    has the newest line first. `time_ms`: the same time as milliseconds since 1970, UTC, where the log tells its zone.
    """

    broker_id: int | None
    topic: str
    partition: int
    kind: EventKind
    time: str
    line: int
    byte_offset: int
    leader_id: int | None = None
    offset: int | None = None
    complete: bool | None = None
    answered_epoch: int | None = None
    answered_end_offset: int | None = None
    leader_epoch: int | None = None
    log_end_offset: int | None = None
    log_dir: str | None = None
    high_watermark: int | None = None
    text: str = ""
    path: str = ""
    newest_first: bool = False
    time_ms: int | None = None
