"""Which brokers use the epoch table of a log in a format before v2 (KAFKA-7897, KIP-724)."""

from __future__ import annotations

import pytest

from replica_audit.protocol.cluster.versions import message_formats


@pytest.mark.parametrize(
    ("broker", "ibp", "is_kraft", "alone"),
    [
        ("1.1.1", "1.1-IV0", False, False),
        ("2.0.1", None, False, False),
        ("2.1.0", "2.1", False, False),
        pytest.param("2.1", None, False, False, id="2.1.0 or 2.1.1"),
        ("2.1.1", None, False, True),
        ("2.2.0", "2.2-IV1", False, True),
        pytest.param("5.3.1-ccs", None, False, True, id="Confluent's 2.3"),
        ("2.8.1", "2.7", False, True),
        ("3.4.0", "2.8", False, True),
        ("3.4.0", "3.0-IV1", False, False),
        ("3.4.0", None, False, False),
        (None, "2.4-IV1", False, True),
        (None, None, False, False),
        ("2.8.1", None, True, False),
        ("4.2.0", None, False, False),
    ],
)
def test_brokers_leave_the_table_alone_since_2_1_1_and_until_3_0(broker: str | None, ibp: str | None, is_kraft: bool, alone: bool) -> None:
    found = message_formats(broker_version=broker, inter_broker_protocol=ibp, is_kraft=is_kraft, of_brokers="0.10.2")
    assert found.leave_tables_alone is alone
    assert found.has_table("0.10.2-IV0", 1) is not alone


@pytest.mark.parametrize(
    ("topic", "brokers", "magic", "has"),
    [
        ("0.10.2-IV0", None, 2, False),
        ("0.11.0-IV0", "0.10.2", 1, True),
        ("0.11.0", None, 1, True),
        ("2.3", None, None, True),
        (None, "0.10.2", 2, False),
        (None, "2.3", 1, True),
        (None, None, 1, False),
        (None, None, 0, False),
        (None, None, 2, True),
        (None, None, None, True),
        ("not a version", None, 1, False),
    ],
)
def test_the_topic_says_it_then_the_brokers_then_the_newest_batch(
    topic: str | None, brokers: str | None, magic: int | None, has: bool
) -> None:
    found = message_formats(broker_version="2.3.0", inter_broker_protocol="2.3", is_kraft=False, of_brokers=brokers)
    assert found.has_table(topic, magic) is has
