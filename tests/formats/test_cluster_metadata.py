"""`cluster-metadata.json`: what is read of it, and errors that name the place."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replica_audit.errors import MetadataError
from replica_audit.formats.metadata.cluster_metadata import ClusterMetadata, parse, partitions
from replica_audit.model import PartitionMetadata

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
INT32_LAST = 2**31 - 1


def whole() -> dict[str, Any]:
    """A document with every key that is read."""
    return {
        "version": 1,
        "cluster_id": "abc",
        "captured_at": "2026-11-21T05:43:41.716Z",
        "kafka_version": "4.2.0",
        "inter_broker_protocol_version": "2.8",
        "features": {"metadata.version": 29},
        "brokers": [{"id": 1, "state": "up"}, {"id": 2, "state": "down"}, {"id": 3}],
        "topics": [
            {
                "topic": "orders",
                "topic_id": "Qp6JWkXMQF-e2A5xW3-mBQ",
                "configs": {"cleanup.policy": "compact,delete"},
                "partitions": [{"partition": 0, "leader": 1, "leader_epoch": 5, "replicas": [1, 2, 3], "isr": [1]}],
            }
        ],
    }


def read(document: object) -> tuple[ClusterMetadata, list[PartitionMetadata]]:
    head, parsed = parse(json.dumps(document).encode())
    return head, list(partitions(parsed))


def refused(content: bytes) -> MetadataError:
    with pytest.raises(MetadataError) as caught:
        list(partitions(parse(content)[1]))
    assert len(caught.value.reason) < 250
    return caught.value


def test_every_key():
    head, found = read(whole())
    assert head == ClusterMetadata(
        cluster_id="abc",
        captured_at_ms=1795239821716,  # 2026-11-21T05:43:41.716Z
        kafka_version="4.2.0",
        inter_broker_protocol="2.8",
        metadata_version=29,
        broker_states={1: "up", 2: "down", 3: "unknown"},
    )
    assert found == [
        PartitionMetadata(
            topic="orders",
            partition=0,
            topic_id="Qp6JWkXMQF-e2A5xW3-mBQ",
            compacted=True,
            leader=1,
            leader_epoch=5,
            replicas=(1, 2, 3),
            isr=(1,),
            source="cluster-metadata",
            known_at_ms=1795239821716,
            delete_retention_ms=86_400_000,
        )
    ]


def test_the_real_files():
    paths = sorted(SAMPLE.glob("*/cluster-metadata.json"))
    assert paths
    for path in paths:
        head, document = parse(path.read_bytes())
        assert head.cluster_id
        found = list(partitions(document))
        assert found
        assert len({(one.topic, one.partition) for one in found}) == len(found)
        assert {broker for one in found for broker in one.replicas} <= set(head.broker_states)
        assert all(set(one.isr) <= set(one.replicas) and (one.leader == -1 or one.leader in one.replicas) for one in found)


def test_unknown_keys_are_ignored_everywhere():
    document = whole()
    for owner in (document, document["brokers"][0], document["topics"][0], document["topics"][0]["partitions"][0], document["features"]):
        owner["something new"] = {"deep": [1, {"deeper": None}]}
    assert read(document) == read(whole())


def test_the_least_that_is_a_file():
    head, found = read({"version": 1})
    assert (head.cluster_id, head.captured_at_ms, head.kafka_version, head.inter_broker_protocol, head.metadata_version) == (None,) * 5
    assert (head.broker_states, found) == ({}, [])


@pytest.mark.parametrize("absent", [{}, None])
def test_missing_and_null_keys_are_unknown_not_false(absent: object):
    partition: dict[str, Any] = {"partition": 4}
    topic: dict[str, Any] = {"topic": "t", "partitions": [partition]}
    if absent is None:
        partition |= dict.fromkeys(("leader", "leader_epoch", "replicas", "isr", "elr"))
        topic |= dict.fromkeys(("topic_id", "configs", "internal"))
    _head, found = read({"version": 1, "topics": [topic]})
    assert found == [
        PartitionMetadata(
            topic="t",
            partition=4,
            topic_id=None,
            compacted=None,
            leader=-1,
            leader_epoch=-1,
            replicas=(),
            isr=(),
            source="cluster-metadata",
        )
    ]


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete,compact"])
def test_compacted(policy: str):
    document = whole()
    document["topics"][0]["configs"] = {"cleanup.policy": policy}
    assert read(document)[1][0].compacted is True


@pytest.mark.parametrize("configs", [{}, {"cleanup.policy": "delete"}, {"cleanup.policy": None}, {"min.compaction.lag.ms": "5"}])
def test_not_compacted(configs: dict[str, object]):
    document = whole()
    document["topics"][0]["configs"] = configs
    assert read(document)[1][0].compacted is False


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({"cleanup.policy": "compact", "delete.retention.ms": "300"}, 300),
        ({"cleanup.policy": "compact"}, 86_400_000),  # Kafka's default is left out
        ({}, None),  # perhaps none was asked for
        ({"cleanup.policy": "compact", "delete.retention.ms": "soon"}, None),
        ({"cleanup.policy": "compact", "delete.retention.ms": "9" * 30}, None),
        ({"cleanup.policy": "compact", "delete.retention.ms": "-1"}, None),
    ],
)
def test_delete_retention(configs: dict[str, object], expected: int | None):
    document = whole()
    document["topics"][0]["configs"] = configs
    assert read(document)[1][0].delete_retention_ms == expected


def test_leader_none_and_epoch_zero_are_values():
    document = whole()
    document["topics"][0]["partitions"][0] |= {"leader": -1, "leader_epoch": 0}
    found = read(document)[1][0]
    assert (found.leader, found.leader_epoch) == (-1, 0)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings_that_shells_write(encoding: str):
    # a redirection in PowerShell writes UTF-16
    head, _document = parse(json.dumps(whole()).encode(encoding))
    assert head.cluster_id == "abc"


# --- wrong types, with their place ---

PLACES: list[tuple[str, tuple[str | int, ...], list[object]]] = [
    ("cluster_id", ("cluster_id",), [1, True, [], {}]),
    ("captured_at", ("captured_at",), [1763703821, 1.5]),
    ("kafka_version", ("kafka_version",), [4.2]),
    ("inter_broker_protocol_version", ("inter_broker_protocol_version",), [2.8]),
    ("features", ("features",), [[], "x", 1]),
    ("features.metadata.version", ("features", "metadata.version"), ["29", 29.0, True]),
    ("brokers", ("brokers",), [{}, "x", 3]),
    ("brokers[1]", ("brokers", 1), [2, "x", [], None]),
    ("brokers[1].id", ("brokers", 1, "id"), ["2", None, True, 2.0, 2**31]),
    ("brokers[2].state", ("brokers", 2, "state"), [1, True, []]),
    ("topics", ("topics",), [{}, "orders"]),
    ("topics[0]", ("topics", 0), ["orders", None, []]),
    ("topics[0].topic", ("topics", 0, "topic"), [None, 5, ["orders"]]),
    ("topics[0].topic_id", ("topics", 0, "topic_id"), [5, {}]),
    ("topics[0].configs", ("topics", 0, "configs"), [[], "cleanup.policy=compact"]),
    ("topics[0].partitions", ("topics", 0, "partitions"), [{}, 3]),
    ("topics[0].partitions[0]", ("topics", 0, "partitions", 0), [0, None, []]),
    ("topics[0].partitions[0].partition", ("topics", 0, "partitions", 0, "partition"), ["0", None, False, 0.0]),
    ("topics[0].partitions[0].leader", ("topics", 0, "partitions", 0, "leader"), ["1", True, 1.0, [1]]),
    ("topics[0].partitions[0].leader_epoch", ("topics", 0, "partitions", 0, "leader_epoch"), ["5", False, 5.5]),
    ("topics[0].partitions[0].replicas", ("topics", 0, "partitions", 0, "replicas"), ["1,2", 1, {}, ["1"], [1, None], [1.0], [[1]]]),
    ("topics[0].partitions[0].isr", ("topics", 0, "partitions", 0, "isr"), [1, ["1"], [{"id": 1}]]),
    # numbers that no partition, broker or epoch can have, and no table holds
    ("topics[0].partitions[0].partition", ("topics", 0, "partitions", 0, "partition"), [-1, 2**31, 10**30]),
    ("topics[0].partitions[0].leader", ("topics", 0, "partitions", 0, "leader"), [2**31, -(2**31) - 1, 10**30]),
    ("topics[0].partitions[0].leader_epoch", ("topics", 0, "partitions", 0, "leader_epoch"), [2**31, -(2**31) - 1, 10**30]),
    ("topics[0].partitions[0].replicas", ("topics", 0, "partitions", 0, "replicas"), [[1, 2**31], [10**30]]),
    ("topics[0].partitions[0].isr", ("topics", 0, "partitions", 0, "isr"), [[2**31]]),
    ("topics[0].partitions[0].replicas", ("topics", 0, "partitions", 0, "replicas"), [[True, 2]]),
    ("topics[0].partitions[0].isr", ("topics", 0, "partitions", 0, "isr"), [[False]]),
    ("topics[0].partitions[0].replicas", ("topics", 0, "partitions", 0, "replicas"), [[1, 1], [1, 2, 1]]),
    ("topics[0].partitions[0].isr", ("topics", 0, "partitions", 0, "isr"), [[-1], [1, -2]]),
    ("topics[0].partitions[0].leader", ("topics", 0, "partitions", 0, "leader"), [-2, -5]),
    ("topics[0].partitions[0].leader_epoch", ("topics", 0, "partitions", 0, "leader_epoch"), [-2]),
    ("brokers[0].id", ("brokers", 0, "id"), [-1]),
    ("brokers[0].state", ("brokers", 0, "state"), ["alive", "UP", "offline", "stopped"]),
]


@pytest.mark.parametrize(
    ("place", "path", "value"),
    [pytest.param(place, path, value, id=f"{place}={value}") for place, path, values in PLACES for value in values],
)
def test_a_wrong_value_is_refused_by_its_place(place: str, path: tuple[str | int, ...], value: object):
    document = whole()
    owner: Any = document
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = value
    assert place in refused(json.dumps(document).encode()).reason


def test_the_place_is_that_of_the_element_that_is_wrong():
    document = whole()
    topic = document["topics"][0]
    document["topics"] += [copy.deepcopy(topic) | {"topic": "a"}, copy.deepcopy(topic) | {"topic": "b"}]
    document["topics"][2]["partitions"] += [{"partition": 1}, {"leader": 3}]
    assert "topics[2].partitions[2].partition is missing" in refused(json.dumps(document).encode()).reason


def test_what_is_given_twice_is_refused_by_its_place():
    """Of two leaders of one partition, either would be a guess."""
    twice = whole()
    twice["brokers"].append({"id": twice["brokers"][0]["id"], "state": "down"})
    assert f"brokers[{len(twice['brokers']) - 1}].id" in refused(json.dumps(twice).encode()).reason
    twice = whole()
    partitions = twice["topics"][0]["partitions"]
    partitions.append(dict(partitions[0]))
    assert f"topics[0].partitions[{len(partitions) - 1}].partition" in refused(json.dumps(twice).encode()).reason
    twice = whole()
    twice["topics"].append(copy.deepcopy(twice["topics"][0]))
    assert f"topics[{len(twice['topics']) - 1}].partitions[0].partition" in refused(json.dumps(twice).encode()).reason


@pytest.mark.parametrize(
    ("brokers", "said"),
    [
        ({"leader": 1, "replicas": [1, 2], "isr": [1, 7]}, "isr has broker 7, which is not among the replicas"),
        ({"leader": 1, "replicas": [2, 3], "isr": [2]}, "leader is 1, which is not among the replicas"),
        ({"leader": 1, "replicas": [1, 2], "isr": [2]}, "leader is 1, which is not in the isr"),
    ],
)
def test_brokers_that_no_controller_writes_are_refused_by_their_place(brokers: dict[str, object], said: str):
    document = whole()
    document["topics"][0]["partitions"][0] |= brokers
    assert refused(json.dumps(document).encode()).reason == f"topics[0].partitions[0].{said}"


@pytest.mark.parametrize(
    ("leader", "replicas", "isr"),
    [
        (-1, [1, 2], [2]),  # nobody leads, and the last ISR stays
        (1, [1, 2], []),  # not known
        (1, [], [1]),
    ],
)
def test_what_is_empty_contradicts_nothing(leader: int, replicas: list[int], isr: list[int]):
    document = whole()
    document["topics"][0]["partitions"][0] |= {"leader": leader, "replicas": replicas, "isr": isr}
    assert next(iter(partitions(document))).isr == tuple(isr)


@pytest.mark.parametrize("document", [[], None, 1, "x", {}, {"version": 2}, {"version": None}, {"version": "1"}, {"Version": 1}])
def test_what_is_no_document_of_version_1(document: object):
    assert "version 1" in refused(json.dumps(document).encode()).reason


# --- not JSON ---


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", 1),
        (b"{", 1),
        (b'{"version": 1,\n "cluster_id": "abc"\n "brokers": []}', 3),
        (b'{"version": 1,\n "topics": [\n  {"topic": "t",}\n ]}', 3),
        (b"{'version': 1}", 1),
        (b'{"version": 1}\n{"version": 1}\n', 2),
        (b"# a comment\n{}", 1),
        (b"<html>\n<body>404</body>", 1),
        (b'{"version": 1, "cluster_id": "torn', 1),
        (b'{"version": 1}\x00\x00\x00', 1),
        (b'{"version": 01}', 1),
    ],
)
def test_not_json_tells_the_line(content: bytes, line: int):
    error = refused(content)
    assert "not JSON" in error.reason
    assert error.line == line


@pytest.mark.parametrize("content", [b"\xff\xfe\xfa", b'{"version": 1, "cluster_id": "\xff"}', b"\x1f\x8b\x08\x00gzipped", bytes(100)])
def test_binary_content(content: bytes):
    error = refused(content)
    assert "not JSON" in error.reason
    assert error.line is not None or error.byte_offset is not None


@pytest.mark.parametrize("depth", [200, 900, 980, 990, 1000, 5_000, 200_000])
def test_deep_nesting(depth: int):
    assert refused(b'{"version": 1, "cluster_id": ' + b"[" * depth + b"]" * depth + b"}").reason
    head, _document = parse(b'{"version": 1, "other": ' + b"[" * 100 + b"]" * 100 + b"}")
    assert head.cluster_id is None


@pytest.mark.parametrize("key", ["other", "cluster_id"])
@pytest.mark.parametrize("digits", [4_300, 4_301, 100_000])
def test_numbers_of_thousands_of_digits(key: str, digits: int):
    content = f'{{"version": 1, "{key}": {"9" * digits}}}'.encode()
    try:
        list(partitions(parse(content)[1]))
    except MetadataError as error:
        assert len(error.reason) < 250


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none(value: str):
    assert "metadata.version" in refused(f'{{"version": 1, "features": {{"metadata.version": {value}}}}}'.encode()).reason


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from([path for _place, path, _values in PLACES])


@settings(max_examples=300)
@given(KEYS, JSON)
def test_any_value_in_any_place_is_read_or_refused(path: tuple[str | int, ...], value: object):
    document = whole()
    owner: Any = document
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = value
    try:
        _head, found = read(document)
    except MetadataError:
        return
    for one in found:
        for number in (one.partition, one.leader, one.leader_epoch, *one.replicas, *one.isr):
            assert type(number) is int
            assert -(2**31) <= number <= INT32_LAST


@pytest.mark.parametrize(("key", "of"), [("brokers", None), ("topics", None), ("partitions", "topics")])
def test_null_is_no_list_that_was_left_out(key: str, of: str | None):
    document = whole()
    (document[of][0] if of else document)[key] = None
    assert refused(json.dumps(document).encode()).reason == (f"{of}[0].{key} is null, not a list" if of else f"{key} is null, not a list")
