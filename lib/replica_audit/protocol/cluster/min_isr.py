"""min.insync.replicas as the metadata log sets it, by topic, by broker and as the cluster's default, and what held while a leader led.

Source: LogConfig.fromProps and DynamicBrokerConfig: a topic's own setting wins, then the broker's, then the default of all brokers, then
what server.properties says, which no record tells. With eligible leader replicas (KIP-966) the cluster's default is always set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from replica_audit.model import MinIsrSetting

NAME = "min.insync.replicas"
CLUSTER_DEFAULT = -1


@dataclass(slots=True)
class MinIsrLog:
    """Every setting that was replayed, in order: `of_brokers` (the cluster's default among them) and those of each topic."""

    of_brokers: list[MinIsrSetting] = field(default_factory=list)
    of_topics: dict[str, list[MinIsrSetting]] = field(default_factory=dict)

    def set_topic(self, topic: str, value: str | None, offset: int) -> None:
        """Replay a topic's setting; None removes it."""
        self.of_topics.setdefault(topic, []).append(MinIsrSetting(_number(value), offset))

    def set_broker(self, broker: str, value: str | None, offset: int) -> None:
        """Replay a broker's setting, or the cluster's default where the name is empty."""
        if not broker or broker.isdecimal():
            self.of_brokers.append(MinIsrSetting(_number(value), offset, int(broker) if broker else CLUSTER_DEFAULT))

    def restarted(self, offset: int) -> MinIsrLog:
        """The settings when a snapshot is loaded: all have ended, because it sets again what still holds."""
        ended = {setting.broker for setting in self.of_brokers}
        return MinIsrLog(
            of_brokers=[*self.of_brokers, *(MinIsrSetting(None, offset, broker) for broker in ended)],
            of_topics={topic: [*found, MinIsrSetting(None, offset)] for topic, found in self.of_topics.items()},
        )


def _number(value: str | None) -> int | None:
    return int(value) if value is not None and value.isdecimal() else None


def values_between(
    of_topic: Sequence[MinIsrSetting], of_brokers: Sequence[MinIsrSetting], broker: int, first: int, end: int | None
) -> set[int | None]:
    """What min.insync.replicas was for a topic on a broker, from a metadata offset (inclusive) to another (exclusive; None: the last one).

    None among the values: only server.properties could say, or Kafka's default of 1 held.
    """
    levels = _levels(of_topic, of_brokers, broker)
    changes = {setting.metadata_offset for level in levels for setting in level}
    at = [first, *(offset for offset in changes if first < offset and (end is None or offset < end))]
    return {_in_effect(levels, offset) for offset in at}


def last_value(of_topic: Sequence[MinIsrSetting], of_brokers: Sequence[MinIsrSetting], broker: int) -> int | None:
    """What min.insync.replicas is for a topic on a broker by all that the log says; None: only server.properties could say, or it is 1."""
    levels = _levels(of_topic, of_brokers, broker)
    return _in_effect(levels, max((setting.metadata_offset for level in levels for setting in level), default=0))


def _levels(
    of_topic: Sequence[MinIsrSetting], of_brokers: Sequence[MinIsrSetting], broker: int
) -> tuple[Sequence[MinIsrSetting], Sequence[MinIsrSetting], Sequence[MinIsrSetting]]:
    """The settings that count, the strongest first."""
    own = [setting for setting in of_brokers if setting.broker == broker]
    return of_topic, own, [setting for setting in of_brokers if setting.broker == CLUSTER_DEFAULT]


def _in_effect(levels: Sequence[Sequence[MinIsrSetting]], offset: int) -> int | None:
    for level in levels:
        value = next((setting.value for setting in reversed(level) if setting.metadata_offset <= offset), None)
        if value is not None:
            return value
    return None
