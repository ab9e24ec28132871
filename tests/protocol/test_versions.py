"""Versions as Apache and vendors write them, and the release of Kafka that they are."""

from __future__ import annotations

import pytest

from replica_audit.protocol.cluster.versions import LAST_IV, kafka_version, lowest, lowest_told, release, shown

CONFLUENT = {
    **{"3.0.1": (0, 10), "3.1.2": (0, 10), "3.2.4": (0, 10), "3.3.3": (0, 11), "4.0.3": (1, 0), "4.1.2": (1, 1)},
    **{"5.0.1": (2, 0), "5.1.4": (2, 1), "5.2.6": (2, 2), "5.3.8": (2, 3), "5.4.11": (2, 4), "5.5.15": (2, 5)},
    **{"6.0.15": (2, 6), "6.1.1": (2, 7), "6.2.0": (2, 8), "7.0.0": (3, 0), "7.4.4": (3, 4), "7.9.0": (3, 9), "8.0.3": (4, 0)},
    **{"8.1.1": (4, 1)},
}


@pytest.mark.parametrize("suffix", ["-ccs", "-ce", "-1-ccs", "-0-ce", "-CCS", "-ccs-SNAPSHOT", "-1-ubi8", "-1.ubi9"])
@pytest.mark.parametrize("version", CONFLUENT)
def test_confluents(version: str, suffix: str) -> None:
    assert release(version + suffix) == CONFLUENT[version]


@pytest.mark.parametrize(
    ("version", "line"),
    [
        # Confluent until 5.2, and images
        *[("0.10.0.1-cp1", (0, 10)), ("0.11.0.0-cp1", (0, 11)), ("1.1.1-cp3", (1, 1)), ("2.0.1-cp8", (2, 0)), ("2.2.0-cp2", (2, 2))],
        *[("confluentinc/cp-kafka:5.5.3", (2, 5)), ("cp-kafka:7.5.3-1-ubi8", (3, 5)), ("Confluent Platform 6.2", (2, 8))],
        *[("registry.example:5000/confluentinc/cp-server:6.1.1", (2, 7)), ("docker.io/apache/kafka:3.9.0", (3, 9))],
        # Cloudera and Hortonworks
        *[("2.5.0.7.1.7.0-551", (2, 5)), ("3.1.1.7.1.8.0-801", (3, 1)), ("2.0.0.3.1.0.0-78", (2, 0)), ("1.0.0.2.6.5.0-292", (1, 0))],
        *[("0.10.1.2.6.4.0-91", (0, 10)), ("0.10.2-kafka-2.2.0", (0, 10)), ("0.11.0-kafka-3.0.0", (0, 11)), ("1.0.1-kafka-3.1.0", (1, 0))],
        *[("2.2.1-kafka-4.1.0", (2, 2)), ("2.2.1-cdh6.3.2", (2, 2)), ("cdh6.3.2", (2, 2)), ("CDH 6.0.1", (1, 0))],
        *[("4.1.0-1.4.1.0.p0.4", (2, 2)), ("3.1.1-1.3.1.1.p0.2", (1, 0)), ("6.3.2-1.cdh6.3.2.p0.1605554", (2, 2))],
        # Amazon, Azure, IBM, Red Hat, Bitnami, Strimzi, Aiven
        *[("2.8.1.amzn-0", (2, 8)), ("2.8.2.tiered", (2, 8)), ("3.6.0.1-tiered", (3, 6)), ("3.7.x", (3, 7)), ("3.7.x.kraft", (3, 7))],
        *[("2.4.1.5.0.5-1", (2, 4)), ("2.1.1.4.1.9.7-2", (2, 1)), ("3.2.3-IBM", (3, 2)), ("2.8.0.redhat-00002", (2, 8))],
        *[
            ("3.6.0-debian-11-r0", (3, 6)),
            ("bitnami/kafka:2.8.1-debian-10-r99", (2, 8)),
            ("3.4.0-strimzi", (3, 4)),
            ("3.4.1-aiven", (3, 4)),
        ],
        *[("quay.io/strimzi/kafka:0.34.0-kafka-3.4.0", (3, 4)), ("0.20.1-kafka-2.6.0", (2, 6)), ("1.0.0-kafka-4.2.0", (4, 2))],
        # with the release of Scala, and as people write it
        *[("2.13-3.4.0", (3, 4)), ("kafka_2.13-2.7.0", (2, 7)), ("2.12-2.4.1", (2, 4)), ("kafka_2.11-0.10.2.1", (0, 10))],
        *[("v3.4.0", (3, 4)), ("Kafka 3.4", (3, 4)), ("Apache Kafka 2.6.3", (2, 6)), (" 2.4.1 ", (2, 4)), ("4.3.0-SNAPSHOT", (4, 3))],
        *[("0.8.2.1", (0, 8)), ("3.9.1-rc2", (3, 9)), ("3.4.0+build5", (3, 4)), ("2.8.1", (2, 8)), ("4.10.0", (4, 10))],
    ],
)
def test_vendors_who_name_apaches_release(version: str, line: tuple[int, int]) -> None:
    assert release(version) == line


@pytest.mark.parametrize(
    "version",
    [
        *[
            None,
            "",
            "unknown",
            "latest",
            "3",
            "-",
            "v",
            "IV2",
            "2019.4.2",
            "11.3.0",
            "25.1",
            "v24.3.1",
            "25.1.1-ccs",
            "3.4.0-ccs",
            "9.0.0-ce",
        ],
        # Confluent's and Cloudera's numbers alike; and Scala's, which were no release of Kafka
        *["5.5.1", "6.2.0", "7.4.0", "8.0.0", "2.13", "2.12.10", "3.10.0", "1.2.0", "0.12.0", "0.34.0", "cdh5.16.2", "0.9.0-kafka-2.0.1"],
        "0.10.0-kafka-2.1.0",
    ],
)
def test_what_is_none_of_kafkas_is_unknown(version: str | None) -> None:
    assert kafka_version(version) is None
    assert release(version) is None


def test_an_inter_broker_protocol() -> None:
    assert kafka_version("2.7-IV1") == (2, 7, 1)
    assert kafka_version("0.11.0-IV2") == (0, 11, 2)
    assert kafka_version("2.7") == (2, 7, LAST_IV)


@pytest.mark.parametrize(
    ("versions", "expected", "told"),
    [
        ([], None, None),
        ([None, "unknown"], None, "unknown"),
        (["2.4.1", None, "0.11.0.3", "1.1.1"], "0.11.0.3", "0.11.0.3"),
        (["2.4-IV1", "2.4-IV0"], "2.4-IV0", "2.4-IV0"),
        (["2.4.1", "5.0.1-ccs", "25.1"], "5.0.1-ccs", "5.0.1-ccs"),
        (["2.10.1", "2.4.10", "2.4.2"], "2.4.2", "2.4.2"),
    ],
)
def test_all_brokers_keep_to_the_lowest_version(versions: list[str | None], expected: str | None, told: str | None) -> None:
    assert lowest(versions) == expected
    assert lowest_told(versions) == told


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("4.2.0", "4.2.0"),
        ("0.11.0.3", "0.11.0.3"),
        ("2.5.0.7.1.7.0-551", "2.5.0.7.1.7.0-551"),
        ("6.1.1-ce", "6.1.1-ce, which is Kafka 2.7"),
        ("0.34.0-kafka-3.4.0", "0.34.0-kafka-3.4.0, which is Kafka 3.4"),
    ],
)
def test_it_is_told_with_the_release_where_that_is_another_number(version: str, said: str) -> None:
    assert shown(version) == said
