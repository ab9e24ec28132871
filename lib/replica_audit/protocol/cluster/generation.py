"""Which generation of the truncation rule a cluster runs.

The inter-broker protocol decides, not the version of the jars; truncate-on-fetch needs followers of 2.8 besides (KAFKA-10554).
"""

from __future__ import annotations

from typing import NamedTuple

from replica_audit.protocol.cluster.versions import KafkaVersion, kafka_version, release, shown
from replica_audit.protocol.exchange.replay import Protocol


class Generation(NamedTuple):
    """The rule and, in words, what it was derived from."""

    protocol: Protocol
    reason: str


def generation(
    *,
    requested: str | None,
    inter_broker_protocol: str | None,
    metadata_version: int | None,
    broker_version: str | None,
    has_metadata_log: bool = False,
    logged_protocol: str | None = None,
    logged_version: str | None = None,
) -> Generation:
    """Choose the rule.

    Args:
        requested: a `Protocol` value asked for by the user; None or `auto` derives it.
        inter_broker_protocol: `inter.broker.protocol.version`, such as `2.4-IV1`.
        metadata_version: the finalised level of the feature `metadata.version`: its presence alone means KRaft, 3.0 or later.
        broker_version: release of the brokers, such as `4.2.0` or a vendor's `5.5.1-ccs`.
        has_metadata_log: whether the input holds a `__cluster_metadata-0`, which only KRaft writes.
        logged_protocol: the inter-broker protocol by the brokers' own logs, the lowest of several.
        logged_version: the release of the brokers by their own logs, the lowest of several.
    """
    if requested and requested != "auto":
        return Generation(Protocol(requested), "given with --protocol")
    ibp, broker = kafka_version(inter_broker_protocol), kafka_version(broker_version)
    if ibp:
        return Generation(_by_inter_broker_protocol(ibp, broker), f"inter.broker.protocol.version {inter_broker_protocol}")
    if metadata_version is not None:
        return Generation(Protocol.TRUNCATE_ON_FETCH, f"metadata.version level {metadata_version} (KRaft)")
    if has_metadata_log:
        return Generation(Protocol.TRUNCATE_ON_FETCH, "a metadata log is in the input (KRaft)")
    in_log, of_log = kafka_version(logged_protocol), kafka_version(logged_version)
    if in_log:
        reason = f"inter.broker.protocol.version {logged_protocol} (server.log)"
        return Generation(_by_inter_broker_protocol(in_log, broker or of_log), reason)
    if broker:
        return Generation(_by_inter_broker_protocol(broker, broker), f"broker version {shown(broker_version or '')}")
    if of_log:
        return Generation(_by_inter_broker_protocol(of_log, of_log), f"broker version {shown(logged_version or '')} (server.log)")
    told = broker_version or logged_version
    unknown = f"no version known (broker version {told} is none of Apache Kafka's)" if told else "no version known"
    return Generation(Protocol.TRUNCATE_ON_FETCH, f"{unknown}: the rule of 2.8 and later")


def describes_producers(*, broker_version: str | None, metadata_version: int | None, inter_broker_protocol: str | None) -> bool | None:
    """Whether brokers answer DescribeProducers, as those of 3.0 and later do (KIP-664); None if that is not known.

    Args:
        broker_version: release of the brokers, the lowest where they differ.
        metadata_version: as of `generation`.
        inter_broker_protocol: likewise; brokers may be newer than it, never older.
    """
    if metadata_version is not None and metadata_version > 0:
        return True
    version, lower_bound = release(broker_version), release(inter_broker_protocol)
    if lower_bound is not None and lower_bound >= (3, 0):
        return True
    return None if version is None else version >= (3, 0)


def protocol_of_moves(applies: Protocol, broker_version: str | None = None) -> Protocol:
    """The rule by which a future replica truncates (ReplicaAlterLogDirsThread, KIP-113).

    Its leader is in the same process, so the version of the broker decides, not the inter-broker protocol, and there is always an epoch to
    ask for; truncation on fetch is off (LocalLeaderEndPoint.isTruncationOnFetchSupported).

    Args:
        applies: the rule of the cluster's followers, by which to go where the version is not known.
        broker_version: release of the brokers, such as `4.2.0`.
    """
    version = kafka_version(broker_version)
    answers_with_epoch = version >= (2, 0, 0) if version else applies in (Protocol.KIP_279, Protocol.TRUNCATE_ON_FETCH)
    return Protocol.KIP_279 if answers_with_epoch else Protocol.KIP_101


def _by_inter_broker_protocol(ibp: KafkaVersion, broker: KafkaVersion | None) -> Protocol:
    if ibp < (0, 11, 2):
        return Protocol.HIGH_WATERMARK
    if ibp < (2, 0, 0):
        return Protocol.KIP_101
    if ibp < (2, 7, 1) or (broker or ibp) < (2, 8, 0):
        return Protocol.KIP_279
    return Protocol.TRUNCATE_ON_FETCH
