"""Which release of Kafka a version string means, of Apache's builds and of vendors', who count in other ways.

Sources: Confluent's table "Confluent Platform and Apache Kafka Compatibility" (-ccs is the community build, -ce Confluent Server; until 5.2
brokers called themselves 1.1.1-cp1, Apache's number in front); Cloudera's "Managing Multiple Kafka Versions" (CDK, CDH 6); the names of
image tags. Hortonworks, Cloudera Runtime, Amazon MSK, HDInsight, Red Hat, Bitnami, Strimzi's brokers and Aiven put Apache's number first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

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
