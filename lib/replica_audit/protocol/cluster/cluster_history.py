"""What the metadata log tells of the brokers over time: which were registered, fenced or stopping, and how long a silent one is waited for.

Sources: BrokerHeartbeatManager, ClusterControlManager, QuorumController.maybeFenceStaleBroker (metadata, 4.2.0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from replica_audit.model import BrokerEvent, MinIsrSetting
from replica_audit.protocol.cluster.metadata_image import BrokerState

DEFAULT_SESSION_MS = 9000  # broker.session.timeout.ms
# Stale brokers are looked for four times in a session's time (QuorumController, since 4.0): a fence may come that much late.
_LATE_FENCE = 1.25


class Moment(NamedTuple):
    """A record of the metadata log: its offset, the epoch of the controller that wrote it, and when; -1 for a time that is not known."""

    metadata_offset: int
    metadata_epoch: int
    timestamp_ms: int


UNKNOWN = Moment(-1, -1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHistory:
    """The brokers of a cluster, by the copy of its metadata log that reaches farthest.

    `broker_events` and `min_isr` (of brokers, and the cluster's default) in order. `end`: the last batch of that copy. `release` is that
    of the brokers, or a lower bound of it where `release_is_exact` is False; (0, 0): unknown. `session_ms`: an upper bound of
    broker.session.timeout.ms, for so soon a broker was fenced after it had been heard of; None: none was.
    """

    broker_events: Sequence[BrokerEvent] = ()
    min_isr: Sequence[MinIsrSetting] = ()
    end: Moment = UNKNOWN
    release: tuple[int, int] = (0, 0)
    release_is_exact: bool = False
    session_ms: int | None = field(init=False)

    def __post_init__(self) -> None:
        """Look for the shortest time, once for all partitions."""
        object.__setattr__(self, "session_ms", _shortest_silence(self.broker_events))

    def events_of(self, broker: int) -> Iterator[BrokerEvent]:
        """A broker's events, in order."""
        return (event for event in self.broker_events if event.broker_id == broker)

    def states(self, broker: int, first: Moment, end: Moment) -> set[str]:
        """What a broker's registration was after a record, and until another; the records of one batch have one time."""
        found: list[str] = []
        for event in self.events_of(broker):
            if event.metadata_offset <= first.metadata_offset or event.timestamp_ms == first.timestamp_ms >= 0:
                found = [event.state]
            elif event.metadata_offset < end.metadata_offset and event.timestamp_ms != end.timestamp_ms:
                found.append(event.state)
        return set(found)

    def silence(self, broker: int, after: Moment, until: Moment) -> int | None:
        """How long a broker went on to be taken for alive after a record, in milliseconds; None: unknown.

        That is until it was fenced, or `until`. A new controller waits for every broker again, so all must be written by one.
        """
        ends = [
            event
            for event in self.events_of(broker)
            if event.metadata_offset > after.metadata_offset
            and event.timestamp_ms >= after.timestamp_ms
            and event.state not in (BrokerState.UP, BrokerState.STOPPING)
        ]
        ended = min([until, *(Moment(*event[2:]) for event in ends[:1])])
        if after.timestamp_ms < 0 or ended.timestamp_ms < 0 or ended.metadata_epoch != after.metadata_epoch:
            return None
        return ended.timestamp_ms - after.timestamp_ms

    def was_heard_of(self, broker: int, after: Moment, until: Moment) -> bool:
        """Whether a broker was certainly alive after a record: one that had died before would have been fenced sooner than it was."""
        silence = self.silence(broker, after, until)
        return silence is not None and self.session_ms is not None and silence > _LATE_FENCE * self.session_ms

    def was_heard_of_by_default(self, broker: int, after: Moment, until: Moment) -> bool:
        """The same, if broker.session.timeout.ms is not longer than its default."""
        silence = self.silence(broker, after, until)
        return silence is not None and silence > _LATE_FENCE * DEFAULT_SESSION_MS

    def began_to_stop(self, broker: int, after: Moment, until: Moment) -> bool:
        """Whether a broker asked for a controlled shutdown after a record, and not after `until`."""
        return any(
            event.state == BrokerState.STOPPING
            and after.metadata_offset < event.metadata_offset
            and event.timestamp_ms != after.timestamp_ms
            and (event.metadata_offset < until.metadata_offset or event.timestamp_ms == until.timestamp_ms)
            for event in self.events_of(broker)
        )

    def came_back_as_it_was(self, broker: int, after: Moment) -> bool:
        """Whether a broker was fenced after a record and let in again without a start between: it was frozen, or cut off."""
        states = [event.state for event in self.events_of(broker) if event.metadata_offset > after.metadata_offset]
        return any(before == BrokerState.FENCED and then == BrokerState.UP for before, then in pairwise(states))

    def started_again(self, broker: int, after: Moment) -> bool:
        """Whether a broker's process registered after a record."""
        later = (event for event in self.events_of(broker) if event.metadata_offset > after.metadata_offset)
        return any(event.state == BrokerState.STARTING for event in later)


def _shortest_silence(events: Sequence[BrokerEvent]) -> int | None:
    """The fence of a broker that stops in order does not count: it does not wait for the session to end."""
    heard: dict[int, BrokerEvent] = {}
    found = []
    for event in events:
        before = heard.pop(event.broker_id, None)
        if event.state == BrokerState.UP:
            heard[event.broker_id] = event
        elif event.state == BrokerState.FENCED and before is not None and 0 <= before.timestamp_ms <= event.timestamp_ms:
            found.append(event.timestamp_ms - before.timestamp_ms)
    return min(found, default=None)


def release_of(version: tuple[int, int] | None, metadata_version: int | None) -> tuple[tuple[int, int], bool]:
    """The brokers' release and whether it is exact: what is known of it, else the lowest that knows the level of `metadata.version`."""
    if version is not None:
        return version, True
    bound = next((release for level, release in _RELEASES if metadata_version is not None and metadata_version >= level), (0, 0))
    return bound, False


# the first level of metadata.version of a release (MetadataVersion), the newest first; those that matter here
_RELEASES = ((15, (3, 7)), (12, (3, 6)), (1, (3, 0)))
