"""Whether brokers use the epoch table of a log whose messages are in a format before v2, which has no epochs.

Sources: KAFKA-7897 (2.1.1; from 2.2 a broker deletes the file when it loads such a log, Log.initializeLeaderEpochCache and later
UnifiedLog.maybeCreateLeaderEpochCache), KIP-724 (from an inter-broker protocol of 3.0 on the setting is ignored: every log has a table).
Without a table a follower truncates to its high watermark (AbstractFetcherThread.truncateToHighWatermark), and a leader answers undefined.
"""

from __future__ import annotations

from dataclasses import dataclass

from replica_audit.protocol.cluster.versions import kafka_version

TOPIC_FORMAT = "message.format.version"
_V2_SINCE, _IGNORED_SINCE, _UNUSED_SINCE, _UNUSED_IN = (0, 11), (3, 0), (2, 2), "2.1.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFormats:
    """Of a cluster: whether its brokers leave tables of such logs alone, and log.message.format.version, None if that is not known."""

    leave_tables_alone: bool = False
    of_brokers: str | None = None

    def has_table(self, of_topic: str | None, newest_magic: int | None) -> bool:
        """Whether a broker uses the epoch table of a log.

        Args:
            of_topic: message.format.version of its topic, None if that is not known.
            newest_magic: of the newest batch in the log, which says it where no setting does; None if there is none.
        """
        told = kafka_version(of_topic or self.of_brokers)
        if not self.leave_tables_alone:
            return True
        return (newest_magic is None or newest_magic >= 2) if told is None else told[:2] >= _V2_SINCE


def message_formats(
    *, broker_version: str | None, inter_broker_protocol: str | None, is_kraft: bool, of_brokers: str | None
) -> MessageFormats:
    """What holds in a cluster.

    Args:
        broker_version: release of the brokers, the lowest where they differ.
        inter_broker_protocol: the setting; that of the brokers' release where it is not known.
        is_kraft: whether the cluster has a metadata.version, which is an inter-broker protocol of 3.0 or later.
        of_brokers: log.message.format.version.
    """
    broker, protocol = kafka_version(broker_version), kafka_version(inter_broker_protocol)
    release, ibp = broker or protocol, protocol or broker
    if is_kraft or release is None or ibp is None or ibp[:2] >= _IGNORED_SINCE:
        return MessageFormats()
    is_mended = release[:2] >= _UNUSED_SINCE or (broker_version or "").startswith(_UNUSED_IN)
    return MessageFormats(leave_tables_alone=is_mended, of_brokers=of_brokers)
