"""The rule that a cluster runs, from the versions that it tells."""

from __future__ import annotations

from typing import Any

import pytest

from replica_audit.protocol.cluster.versions import Generation, generation
from replica_audit.rows.codes import Protocol

HW, KIP_101, KIP_279, ON_FETCH = Protocol


def _derived(
    inter_broker: str | None = None, broker: str | None = None, metadata: int | None = None, asked: str | None = None
) -> Generation:
    return generation(requested=asked, inter_broker_protocol=inter_broker, metadata_version=metadata, broker_version=broker)


@pytest.mark.parametrize(
    ("version", "protocol"),
    [
        ("0.8.2", HW),
        ("0.10.2", HW),
        ("0.10.2-IV0", HW),
        ("0.11.0-IV0", HW),
        ("0.11.0-IV1", HW),
        ("0.11.0-IV2", KIP_101),
        ("0.11.0", KIP_101),
        ("0.11", KIP_101),
        ("1.0", KIP_101),
        ("1.0-IV0", KIP_101),
        ("1.1-IV0", KIP_101),
        ("1.1", KIP_101),
        ("2.0-IV0", KIP_279),
        ("2.0", KIP_279),
        ("2.4-IV1", KIP_279),
        ("2.7-IV0", KIP_279),
    ],
)
@pytest.mark.parametrize("broker", [None, "4.2.0", "2.8.2"])
def test_the_inter_broker_protocol_decides_not_the_jars(version: str, protocol: Protocol, broker: str | None) -> None:
    assert _derived(version, broker).protocol is protocol


@pytest.mark.parametrize(
    ("inter_broker", "broker", "protocol"),
    [
        ("2.7-IV1", "2.8.0", ON_FETCH),
        ("2.7-IV2", "3.9.1", ON_FETCH),
        ("2.7", "2.8.2", ON_FETCH),
        ("2.7", "2.7.2", KIP_279),
        ("2.7-IV1", "2.7.0", KIP_279),
        ("2.7-IV0", "2.8.0", KIP_279),
        ("2.7", None, KIP_279),
        ("2.8", None, ON_FETCH),
        ("2.8-IV0", None, ON_FETCH),
        ("2.8", "2.8.0", ON_FETCH),
        ("3.9-IV0", None, ON_FETCH),
        ("3.9-IV0", "3.9.1", ON_FETCH),
        ("4.0", "4.0.0", ON_FETCH),
    ],
)
def test_truncate_on_fetch_needs_its_protocol_and_a_follower_of_2_8(inter_broker: str, broker: str | None, protocol: Protocol) -> None:
    assert _derived(inter_broker, broker).protocol is protocol


@pytest.mark.parametrize(
    ("broker", "protocol"),
    [
        ("0.10.2.2", HW),
        ("0.11.0.3", KIP_101),
        ("1.1.1", KIP_101),
        ("2.4.1", KIP_279),
        ("2.7.2", KIP_279),
        ("2.8.0", ON_FETCH),
        ("4.2.0", ON_FETCH),
    ],
)
def test_the_broker_version_alone(broker: str, protocol: Protocol) -> None:
    found = _derived(broker=broker)
    assert found.protocol is protocol
    assert broker in found.reason


def test_a_metadata_version_alone_is_kraft_whatever_the_level() -> None:
    assert _derived(metadata=1).protocol is ON_FETCH
    assert _derived(metadata=0, broker="2.4.1").protocol is ON_FETCH, "level 0 is a level, not a missing one"
    assert "metadata.version" in _derived(metadata=25).reason


@pytest.mark.parametrize("garbage", ["", "abc", "IV2", "latest", "-", "v", None])
def test_what_is_no_version_is_as_if_it_were_not_there(garbage: str | None) -> None:
    assert _derived(garbage, garbage).protocol is ON_FETCH
    assert _derived(garbage, garbage).reason.startswith("no version known")
    assert _derived(garbage, "1.1.1").protocol is KIP_101
    assert _derived(garbage, "1.1.1", metadata=20).protocol is ON_FETCH
    assert _derived("1.1", garbage).protocol is KIP_101


@pytest.mark.parametrize("asked", list(Protocol))
def test_what_the_user_asks_for_wins(asked: Protocol) -> None:
    assert _derived("0.10.2", "0.10.2.2", metadata=20, asked=str(asked)) == Generation(asked, "given with --protocol")


@pytest.mark.parametrize("asked", ["auto", "", None])
def test_auto_derives(asked: str | None) -> None:
    assert _derived("2.0", asked=asked).protocol is KIP_279


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="kip-9000"):
        _derived(asked="kip-9000")


def _logged(protocol: str | None = None, version: str | None = None, **known: str | int | bool | None) -> Generation:
    given: dict[str, Any] = {"requested": None, "inter_broker_protocol": None, "metadata_version": None, "broker_version": None}
    return generation(**(given | known), logged_protocol=protocol, logged_version=version)


@pytest.mark.parametrize(
    ("found", "expected", "says"),
    [
        (_logged(version="1.1.1"), KIP_101, "broker version 1.1.1 (server.log)"),
        (_logged(version="0.10.2.2"), HW, "broker version 0.10.2.2 (server.log)"),
        (_logged("1.1-IV0", "2.4.1"), KIP_101, "inter.broker.protocol.version 1.1-IV0 (server.log)"),
        (_logged("2.7-IV2", "2.7.1"), KIP_279, "inter.broker.protocol.version 2.7-IV2 (server.log)"),
        (_logged("2.8-IV1", "2.8.0"), ON_FETCH, "inter.broker.protocol.version 2.8-IV1 (server.log)"),
        (_logged("1.1-IV0", broker_version="2.4.1"), KIP_101, "inter.broker.protocol.version 1.1-IV0 (server.log)"),
        (_logged(version="1.1.1", broker_version="2.4.1"), KIP_279, "broker version 2.4.1"),
        (_logged("1.1-IV0", inter_broker_protocol="2.4"), KIP_279, "inter.broker.protocol.version 2.4"),
        (_logged("2.4-IV1", metadata_version=29), ON_FETCH, "metadata.version level 29 (KRaft)"),
        (_logged("2.4-IV1", has_metadata_log=True), ON_FETCH, "a metadata log is in the input (KRaft)"),
    ],
)
def test_what_the_brokers_logged_counts_where_nothing_better_is_known(found: Generation, expected: Protocol, says: str) -> None:
    assert found == Generation(expected, says)


def test_a_vendors_version_is_told_with_the_release_that_it_is() -> None:
    assert _derived(broker="5.5.1-ccs") == Generation(KIP_279, "broker version 5.5.1-ccs, which is Kafka 2.5")
    assert _derived(broker="4.1.2-ccs") == Generation(KIP_101, "broker version 4.1.2-ccs, which is Kafka 1.1")
    assert _derived(broker="4.1.2") == Generation(ON_FETCH, "broker version 4.1.2"), "Apache's own"
    assert _logged(version="5.0.1-ccs") == Generation(KIP_279, "broker version 5.0.1-ccs, which is Kafka 2.0 (server.log)")
    assert _derived("2.7-IV1", "6.1.1-ce").protocol is KIP_279, "2.7 does not truncate on fetch"
    assert _derived("2.7-IV1", "6.2.0-ce").protocol is ON_FETCH


@pytest.mark.parametrize("version", ["25.1", "7.4.0", "v24.3.1", "2019.4.2"])
def test_a_version_that_is_none_of_kafkas_is_said_to_be_unknown(version: str) -> None:
    said = f"no version known (broker version {version} is none of Apache Kafka's): the rule of 2.8 and later"
    assert _derived(broker=version) == _logged(version=version) == Generation(ON_FETCH, said)
    assert _logged(version="1.1.1", broker_version=version).protocol is KIP_101, "what the log says is better than nothing"
    assert _derived(broker=version, metadata=20).reason == "metadata.version level 20 (KRaft)"
