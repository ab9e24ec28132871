"""Which release of Kafka a version string means, and by which truncation rule and message format its brokers go.

Sources: Confluent's table "Confluent Platform and Apache Kafka Compatibility" (-ccs is the community build, -ce Confluent Server; until 5.2
brokers called themselves 1.1.1-cp1, Apache's number in front); Cloudera's "Managing Multiple Kafka Versions" (CDK, CDH 6); the names of
image tags. Hortonworks, Cloudera Runtime, Amazon MSK, HDInsight, Red Hat, Bitnami, Strimzi's brokers and Aiven put Apache's number first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from replica_audit.rows.codes import Protocol

LAST_IV = 99  # a version without -IVn stands for the last one of its release


class KafkaVersion(NamedTuple):
    """A release line of Apache Kafka; 0.x releases carry their third number in `minor`, as 0.11.0 is one release line.

    `iv` is n of `-IVn` in an inter-broker protocol, else `LAST_IV`.
    """

    major: int
    minor: int
    iv: int = LAST_IV

    @property
    def shown(self) -> str:
        """As people write it, without the -IVn."""
        return f"{self.major}.{self.minor}"


_Line = tuple[int, int]
_LAST_MINOR: Mapping[int, int] = {0: 11, 1: 1, 2: 8, 3: 9, 4: 99}  # of each major release; a later one is not known
_FIRST_OF_0 = 7
_CONFLUENT: Mapping[_Line, _Line] = {
    **{(1, 0): (0, 8), (2, 0): (0, 9), (3, 0): (0, 10), (3, 1): (0, 10), (3, 2): (0, 10), (3, 3): (0, 11), (4, 0): (1, 0), (4, 1): (1, 1)},
    **{(5, minor): (2, minor) for minor in range(6)},
    **{(6, minor): (2, 6 + minor) for minor in range(3)},
    **{(7, minor): (3, minor) for minor in range(10)},
    **{(8, minor): (4, minor) for minor in range(100)},
}
_CDK: Mapping[_Line, _Line] = {
    **{(1, 3): (0, 8), (1, 4): (0, 8), (2, 0): (0, 9), (2, 1): (0, 10), (2, 2): (0, 10), (3, 0): (0, 11), (3, 1): (1, 0)},
    **{(4, 0): (2, 1), (4, 1): (2, 2)},
}
_CDH: Mapping[_Line, _Line] = {(6, 0): (1, 0), (6, 1): (2, 0), (6, 2): (2, 1), (6, 3): (2, 2)}
_AS_STRIMZI = {((0, 9), (2, 0)), ((0, 10), (2, 1))}  # what CDK called its Kafka in its 2.0 and 2.1, and Strimzi its images of 0.9 and 0.10

_IMAGE = re.compile(r"(?P<name>[a-z0-9._/-]*(?::\d+/[a-z0-9._/-]+)?):(?P<tag>.+)")
_SCALA = re.compile(r"(?:kafka_)?2\.(?:9|1\d)(?:\.\d+)?-(?=\d+\.\d)")
_NUMBER = re.compile(r"(?:apache[- ]?)?(?:kafka[ _-]?)?v?(\d{1,3})\.(\d{1,3})(?:\.\d{1,3})?(?:-iv(\d{1,2}))?(?![\d])(.*)")
_OF_CONFLUENT = re.compile(r"[-.](?:ccs|ce|ubi\d)(?![a-z0-9])")
_TWO = re.compile(r"(?:\.\d+)?-kafka-(\d{1,3})\.(\d{1,3})(?![\d])")
_PARCEL_OF_CDK = re.compile(r"-1\.\d+\.\d+\.\d+\.p\d+")
_PARCEL_OF_CDH = re.compile(r"-1\.cdh\d+\.")
_OF_CDH = re.compile(r"cdh ?(\d{1,2})\.(\d{1,2})(?![\d])")


def kafka_version(version: str | None) -> KafkaVersion | None:
    """The release of Apache Kafka that a version string means; None if it is none that is known.

    Args:
        version: of a broker (`4.2.0`, `5.5.1-ccs`, `2.5.0.7.1.7.0-551`), of an image (`0.34.0-kafka-3.4.0`), or an inter-broker protocol
            (`2.4-IV1`). A number that Apache never gave out, as Redpanda's 25.1, and Confluent's without its suffix, is not known: Cloudera
            had the same numbers.
    """
    told = (version or "").strip().lower()
    image = _IMAGE.fullmatch(told)
    is_confluent = told.startswith(("cp-", "confluent")) or bool(image and ("cp-" in image["name"] or "confluent" in image["name"]))
    told = image["tag"] if image else re.sub(r"\A(?:cp-|confluent)[a-z -]*", "", told)
    if of_cdh := _OF_CDH.match(told):
        return _of(_CDH.get((int(of_cdh[1]), int(of_cdh[2]))))
    match = _NUMBER.match(_SCALA.sub("", told, count=1) if _SCALA.match(told) else told)
    if match is None:
        return None
    line, rest = (int(match[1]), int(match[2])), match[4]
    if is_confluent or _OF_CONFLUENT.search(rest):
        return _of(_CONFLUENT.get(line))
    if _PARCEL_OF_CDK.match(rest):
        return _of(_CDK.get(line))
    if _PARCEL_OF_CDH.match(rest):
        return _of(_CDH.get(line))
    if two := _TWO.match(rest):
        behind = (int(two[1]), int(two[2]))
        if (line, behind) in _AS_STRIMZI:
            return None
        line = line if _CDK.get(behind) == line else behind
    return _of(line, int(match[3]) if match[3] else LAST_IV)


def lowest(versions: Iterable[str | None]) -> str | None:
    """The lowest of several brokers' versions, None if none is known: what all of them must keep to."""
    known = [(found, version) for version in versions if version and (found := kafka_version(version))]
    return min(known, key=lambda one: (one[0], [int(part) for part in re.findall("[0-9]+", one[1])]), default=(None, None))[1]


def lowest_told(versions: Iterable[str | None]) -> str | None:
    """The lowest of several brokers' versions, or one that is not known where none is; None if none is told."""
    told = [version for version in versions if version]
    return lowest(told) or min(told, default=None)


def release(version: str | None) -> tuple[int, int] | None:
    """The release line of a version, such as (4, 2); None if it is unknown."""
    found = kafka_version(version)
    return found[:2] if found else None


def shown(version: str) -> str:
    """A version for readers: one of a vendor who counts otherwise with the release of Kafka that it is."""
    found = kafka_version(version)
    is_plain = found is None or re.match(rf"v?{re.escape(found.shown)}(?!\d)", version.strip().lower())
    return version if is_plain or found is None else f"{version}, which is Kafka {found.shown}"


def _of(line: _Line | None, iv: int = LAST_IV) -> KafkaVersion | None:
    if line is None:
        return None
    major, minor = line
    if minor > _LAST_MINOR.get(major, -1) or (major == 0 and minor < _FIRST_OF_0):
        return None
    return KafkaVersion(major, minor, iv)


# Whether brokers use the epoch table of a log whose messages are in a format before v2, which has no epochs.
# Sources: KAFKA-7897 (2.1.1; from 2.2 a broker deletes the file when it loads such a log, Log.initializeLeaderEpochCache and later
# UnifiedLog.maybeCreateLeaderEpochCache), KIP-724 (from an inter-broker protocol of 3.0 on the setting is ignored: every log has a table).
# Without a table a follower truncates to its high watermark (AbstractFetcherThread.truncateToHighWatermark), and a leader answers
# undefined.

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


# Which generation of the truncation rule a cluster runs.
# The inter-broker protocol decides, not the version of the jars; truncate-on-fetch needs followers of 2.8 besides (KAFKA-10554).


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
