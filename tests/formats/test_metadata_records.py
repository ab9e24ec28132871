"""Records of the metadata log, decoded: every type and version that Kafka 4.3.1 knows, and what may stand in their place.

`KAFKAS` are bytes that MetadataRecordSerde of 4.2.0 made of the values beside them; of 4.3.1 for the versions that it added.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.errors import MetadataError
from replica_audit.formats.metadata.metadata_records import ABORT_TRANSACTION, BEGIN_TRANSACTION, END_TRANSACTION, decode
from replica_audit.protocol.cluster.metadata_image import (
    NO_LEADER_CHANGE,
    BrokerFenced,
    BrokerRegistered,
    BrokerStops,
    ConfigSet,
    ElrCleared,
    FeatureSet,
    PartitionChanged,
    PartitionSet,
    TopicCreated,
    TopicRemoved,
)
from tests.formats import metadata_files as mf

T, D = mf.TOPIC_ID, mf.OTHER_ID
_T, _D = "429e895a45cc405f9ed80e715b7fa605", "17043c27a7324a669d2400e84bb94a46"
_END_POINT = {"name": "PLAINTEXT", "host": "h", "port": 9092, "securityProtocol": 0}
_FEATURE = {"name": "metadata.version", "minSupportedVersion": 1, "maxSupportedVersion": 29}
_BROKER = {"brokerId": 7, "incarnationId": D, "brokerEpoch": 12, "endPoints": [_END_POINT], "features": [_FEATURE], "rack": "r1"}
_BROKER_HEX = "000000000000000c020a504c41494e544558540268238400000002116d657461646174612e76657273696f6e0001001d00037231"
_PARTITION: dict[str, Any] = {
    "partitionId": 3,
    "topicId": T,
    "replicas": [1, 2, 300],
    "isr": [2, 300],
    "removingReplicas": [1],
    "addingReplicas": [300],
    "leader": 2,
    "leaderEpoch": 5,
    "partitionEpoch": 9,
    "leaderRecoveryState": 1,
}
_PARTITION_HEX = f"00000003{_T}0400000001000000020000012c03000000020000012c0200000001020000012c000000020000000500000009"
_CHANGE: dict[str, Any] = {
    "partitionId": 3,
    "topicId": T,
    "isr": [2],
    "leader": 2,
    "replicas": [2, 1],
    "removingReplicas": [],
    "addingReplicas": [4],
    "leaderRecoveryState": 1,
}
_CHANGE_HEX = "0005020000000201040000000202090300000002000000010301010405020000000405"

# (kind, version, values, Kafka's bytes, what is decoded)
KAFKAS: list[tuple[str, int, dict[str, Any], str, object]] = [
    (
        "REGISTER_BROKER_RECORD",
        0,
        _BROKER | {"fenced": True},
        f"01000000000007{_D}{_BROKER_HEX}0100",
        BrokerRegistered(7, True, broker_epoch=12),
    ),
    (
        "REGISTER_BROKER_RECORD",
        1,
        _BROKER | {"fenced": False, "inControlledShutdown": True},
        f"01000100000007{_D}{_BROKER_HEX}000100",
        BrokerRegistered(7, False, True, broker_epoch=12),
    ),
    (
        "REGISTER_BROKER_RECORD",
        2,
        _BROKER | {"fenced": True, "inControlledShutdown": True},
        f"0100020000000700{_D}{_BROKER_HEX}010100",
        BrokerRegistered(7, True, True, broker_epoch=12),
    ),
    (
        "REGISTER_BROKER_RECORD",
        3,
        _BROKER | {"fenced": False, "inControlledShutdown": True, "logDirs": [D, T]},
        f"0100030000000700{_D}{_BROKER_HEX}000101002103{_D}{_T}",
        BrokerRegistered(7, False, True, broker_epoch=12, log_dirs=(D, T)),
    ),
    (
        "REGISTER_BROKER_RECORD",
        4,
        _BROKER | {"fenced": False, "inControlledShutdown": False, "logDirs": [D], "cordonedLogDirs": [D]},
        f"0100040000000700{_D}{_BROKER_HEX}000002001102{_D}011102{_D}",
        BrokerRegistered(7, False, broker_epoch=12, log_dirs=(D,)),
    ),
    (
        "REGISTER_BROKER_RECORD",
        3,
        {"brokerId": 3, "incarnationId": "A" * 22, "rack": None},
        "0100030000000300000000000000000000000000000000000000000000000000010100010000",
        BrokerRegistered(3, True, broker_epoch=0),
    ),
    ("UNREGISTER_BROKER_RECORD", 0, {"brokerId": 7, "brokerEpoch": 12}, "01010000000007000000000000000c00", BrokerFenced(7, None)),
    ("TOPIC_RECORD", 0, {"name": "orders", "topicId": T}, f"010200076f7264657273{_T}00", TopicCreated("orders", T)),
    ("REMOVE_TOPIC_RECORD", 0, {"topicId": T}, f"010900{_T}00", TopicRemoved(T)),
    (
        "PARTITION_RECORD",
        0,
        _PARTITION,
        f"010300{_PARTITION_HEX}01000101",
        PartitionSet(3, T, (1, 2, 300), (2, 300), 2, 5, 9, recovering=True, elr=(), last_known_elr=(), removing=(1,), adding=(300,)),
    ),
    (
        "PARTITION_RECORD",
        1,
        _PARTITION | {"directories": [D, T, D]},
        f"010301{_PARTITION_HEX}04{_D}{_T}{_D}01000101",
        PartitionSet(3, T, (1, 2, 300), (2, 300), 2, 5, 9, recovering=True, elr=(), last_known_elr=(), removing=(1,), adding=(300,)),
    ),
    (
        "PARTITION_RECORD",
        2,
        _PARTITION | {"directories": [D, T, D], "eligibleLeaderReplicas": [1], "lastKnownElr": [300]},
        f"010302{_PARTITION_HEX}04{_D}{_T}{_D}03000101010502000000010205020000012c",
        PartitionSet(3, T, (1, 2, 300), (2, 300), 2, 5, 9, recovering=True, elr=(1,), last_known_elr=(300,), removing=(1,), adding=(300,)),
    ),
    (
        "PARTITION_RECORD",
        2,
        {"topicId": T, "replicas": [1], "isr": [], "leader": -1, "leaderEpoch": 0, "partitionEpoch": 0, "directories": [D]},
        f"01030200000000{_T}0200000001010101ffffffff000000000000000002{_D}00",
        PartitionSet(0, T, (1,), (), -1, 0, 0, recovering=False, elr=(), last_known_elr=(), removing=(), adding=()),
    ),
    (
        "PARTITION_CHANGE_RECORD",
        0,
        _CHANGE,
        f"01050000000003{_T}06{_CHANGE_HEX}0101",
        PartitionChanged(3, T, (2,), 2, (2, 1), recovering=True, elr=None, last_known_elr=None, removing=(), adding=(4,)),
    ),
    (
        "PARTITION_CHANGE_RECORD",
        1,
        _CHANGE | {"directories": [T, D]},
        f"01050100000003{_T}07{_CHANGE_HEX}0101082103{_T}{_D}",
        PartitionChanged(3, T, (2,), 2, (2, 1), recovering=True, elr=None, last_known_elr=None, removing=(), adding=(4,)),
    ),
    (
        "PARTITION_CHANGE_RECORD",
        2,
        _CHANGE | {"directories": [T, D], "eligibleLeaderReplicas": [1], "lastKnownElr": []},
        f"01050200000003{_T}09{_CHANGE_HEX}010106050200000001070101082103{_T}{_D}",
        PartitionChanged(3, T, (2,), 2, (2, 1), recovering=True, elr=(1,), last_known_elr=(), removing=(), adding=(4,)),
    ),
    (
        "PARTITION_CHANGE_RECORD",
        2,
        {"partitionId": 3, "topicId": T},
        f"01050200000003{_T}00",
        PartitionChanged(3, T, None, NO_LEADER_CHANGE, None, recovering=None, elr=None, last_known_elr=None, removing=None, adding=None),
    ),
    (
        "PARTITION_CHANGE_RECORD",
        2,
        {"partitionId": 3, "topicId": T, "leader": -1, "isr": []},
        f"01050200000003{_T}020001010104ffffffff",
        PartitionChanged(3, T, (), -1, None, recovering=None, elr=None, last_known_elr=None, removing=None, adding=None),
    ),
    (
        "PARTITION_CHANGE_RECORD",
        2,
        {"partitionId": 3, "topicId": T, "leaderRecoveryState": 0},
        f"01050200000003{_T}01050100",
        PartitionChanged(3, T, None, NO_LEADER_CHANGE, None, recovering=False, elr=None, last_known_elr=None, removing=None, adding=None),
    ),
    (
        "CONFIG_RECORD",
        0,
        {"resourceType": 2, "resourceName": "orders", "name": "cleanup.policy", "value": "compact"},
        "01040002076f72646572730f636c65616e75702e706f6c69637908636f6d7061637400",
        ConfigSet(2, "orders", "cleanup.policy", "compact"),
    ),
    (
        "CONFIG_RECORD",
        0,
        {"resourceType": 4, "resourceName": "", "name": "cleanup.policy", "value": None},
        "01040004010f636c65616e75702e706f6c6963790000",
        ConfigSet(4, "", "cleanup.policy", None),
    ),
    ("FENCE_BROKER_RECORD", 0, {"id": 7, "epoch": 12}, "01070000000007000000000000000c00", BrokerFenced(7, True)),
    ("UNFENCE_BROKER_RECORD", 0, {"id": 7, "epoch": 12}, "01080000000007000000000000000c00", BrokerFenced(7, False)),
    (
        "BROKER_REGISTRATION_CHANGE_RECORD",
        0,
        {"brokerId": 7, "brokerEpoch": 12, "fenced": -1},
        "01110000000007000000000000000c010001ff",
        BrokerFenced(7, False),
    ),
    (
        "BROKER_REGISTRATION_CHANGE_RECORD",
        1,
        {"brokerId": 7, "brokerEpoch": 12, "fenced": 0, "inControlledShutdown": 1},
        "01110100000007000000000000000c01010101",
        BrokerStops(7),
    ),
    (
        "BROKER_REGISTRATION_CHANGE_RECORD",
        2,
        {"brokerId": 7, "brokerEpoch": 12, "fenced": 1, "inControlledShutdown": 1, "logDirs": [D]},
        f"01110200000007000000000000000c03000101010101021102{_D}",
        BrokerFenced(7, True),
    ),
    (
        "BROKER_REGISTRATION_CHANGE_RECORD",
        3,
        {"brokerId": 7, "brokerEpoch": 12, "fenced": 1, "inControlledShutdown": 1, "logDirs": [D], "cordonedLogDirs": [D]},
        f"01110300000007000000000000000c04000101010101021102{_D}031102{_D}",
        BrokerFenced(7, True),
    ),
    (
        "FEATURE_LEVEL_RECORD",
        0,
        {"name": "metadata.version", "featureLevel": 29},
        "010c00116d657461646174612e76657273696f6e001d00",
        FeatureSet("metadata.version", 29),
    ),
    ("CLEAR_ELR_RECORD", 0, {"topicName": "orders"}, "011c00076f726465727300", ElrCleared("orders")),
    ("CLEAR_ELR_RECORD", 0, {"topicName": ""}, "011c000100", ElrCleared("")),
    (
        "BEGIN_TRANSACTION_RECORD",
        0,
        {"name": "Bootstrap records"},
        "01170001001212426f6f747374726170207265636f726473",
        BEGIN_TRANSACTION,
    ),
    ("END_TRANSACTION_RECORD", 0, {}, "01180000", END_TRANSACTION),
    ("ABORT_TRANSACTION_RECORD", 0, {"reason": "new controller"}, "01190001000f0f6e657720636f6e74726f6c6c6572", ABORT_TRANSACTION),
    ("NO_OP_RECORD", 0, {}, "01140000", None),
    (
        "PRODUCER_IDS_RECORD",
        0,
        {"brokerId": 1, "brokerEpoch": 12, "nextProducerId": 1000},
        "010f0000000001000000000000000c00000000000003e800",
        None,
    ),
]
DECODED = {0: 4, 1: 0, 2: 0, 3: 2, 4: 0, 5: 2, 7: 0, 8: 0, 9: 0, 12: 0, 17: 3, 28: 0}  # newest version by api key
IGNORED = (6, 10, 11, 13, 14, 15, 16, 18, 19, 20, 21, 22, 26, 27, 29, 127, 128, 32767)
OF_USE = [case for case in KAFKAS if isinstance(case[4], tuple)]


def _name(case: object) -> str:
    return f"{case[0].removesuffix('_RECORD')}-{case[1]}" if isinstance(case, tuple) else repr(case)


def _has_tags(case: Any) -> bool:
    kind, version, values = case[:3]
    return any(field.tag is not None and field.name in values and field.since <= version for field in mf.DEFINITIONS[kind].fields)


def read(value: bytes) -> object:
    """What is decoded, a refusal as itself."""
    try:
        return decode(value)
    except MetadataError as error:
        assert error.reason
        assert 0 <= (error.byte_offset or 0) <= len(value)
        return error


# --- what Kafka writes ---


@pytest.mark.parametrize("case", KAFKAS, ids=_name)
def test_what_kafka_wrote(case):
    kind, version, values, written, expected = case
    assert mf.record(kind, version, **values).hex() == written, "the encoder of these tests"
    found = decode(bytes.fromhex(written))
    assert found == expected
    assert type(found) is type(expected)


def test_every_version_of_every_decoded_type_was_looked_at():
    seen = {(bytes.fromhex(case[3])[1], case[1]) for case in KAFKAS}
    assert {(key, version) for key, newest in DECODED.items() for version in range(newest + 1)} <= seen
    assert {definition.key: definition.latest for definition in mf.DEFINITIONS.values()}.items() >= DECODED.items()


@pytest.mark.parametrize("key", IGNORED)
def test_records_of_other_kinds_are_passed_over(key):
    assert decode(mf.framed(key, 0, b"")) is None
    assert decode(mf.framed(key, 7, b"\xff" * 40)) is None, "whatever they hold"


@pytest.mark.parametrize("case", [case for case in OF_USE if case[3].endswith("00") and not _has_tags(case)], ids=_name)
def test_tags_that_nobody_knows_yet_are_passed_over(case):
    value = bytes.fromhex(case[3])
    assert decode(value[:-1] + mf.tags({9: b"new", 100: b"", 70_000: b"\xff" * 300})) == case[4]


def test_unknown_tags_beside_known_ones():
    body = bytes(4) + bytes(16) + mf.tags({1: b"\x00\x00\x00\x05", 9: b"new", 1000: b""})
    changed = decode(mf.framed(5, 2, body))
    assert isinstance(changed, PartitionChanged)
    assert changed.leader == 5
    assert (changed.isr, changed.replicas) == (None, None)


@pytest.mark.parametrize("name", ["", "a" * 126, "a" * 127, "a" * 249, "Größe"])
def test_names_of_any_length(name):
    assert decode(mf.topic(name)) == TopicCreated(name, T)


@pytest.mark.parametrize("count", [0, 1, 126, 127, 200, 2**14])
def test_any_number_of_replicas(count):
    ids = list(range(count))
    found = decode(mf.partition(replicas=ids, isr=ids[:2], eligibleLeaderReplicas=ids[2:]))
    assert isinstance(found, PartitionSet)
    assert (found.replicas, found.isr, found.elr) == (tuple(ids), tuple(ids[:2]), tuple(ids[2:]))


@pytest.mark.parametrize("leader", [-1, 0, 1, 2**31 - 1])
def test_leaders_that_are_easily_mistaken(leader):
    """-1 is nobody, 0 a broker; both differ from a record that does not name a leader."""
    found = decode(mf.change(leader=leader))
    assert isinstance(found, PartitionChanged)
    assert found.leader == leader != NO_LEADER_CHANGE


@given(
    replicas=st.lists(st.integers(0, 2**31 - 1), max_size=6),
    isr=st.none() | st.lists(st.integers(0, 2**31 - 1), max_size=6),
    elr=st.none() | st.lists(st.integers(0, 9), max_size=3),
    leader=st.integers(-2, 2**31 - 1),
    recovery=st.sampled_from([-1, 0, 1]),
)
def test_what_was_encoded_is_decoded(replicas, isr, elr, leader, recovery):
    found = decode(mf.change(4, isr=isr, replicas=replicas, eligibleLeaderReplicas=elr, leader=leader, leaderRecoveryState=recovery))
    assert found == PartitionChanged(
        4,
        T,
        None if isr is None else tuple(isr),
        leader,
        tuple(replicas),
        recovering=None if recovery == -1 else recovery == 1,
        elr=None if elr is None else tuple(elr),
        last_known_elr=None,
    )


# --- what is no record ---


@pytest.mark.parametrize("frame", [0, 2, 127, 300])
def test_other_frames_are_refused(frame):
    with pytest.raises(MetadataError, match=f"frame version {frame} is not 1"):
        decode(mf.varint(frame) + mf.topic("t")[1:])


def test_versions_beyond_the_newest_are_refused():
    """Kafka: UnsupportedVersionException. What a later version puts where cannot be known."""
    newest = [(case[0], bytes.fromhex(case[3])) for case in OF_USE if case[1] == mf.DEFINITIONS[case[0]].latest]
    assert {value[1] for _, value in newest} == DECODED.keys()
    beyond = [(kind, mf.framed(value[1], value[2] + 1, value[3:])) for kind, value in newest]
    assert not {kind for kind, value in beyond if not isinstance(read(value), MetadataError)}


def test_a_record_that_is_cut_is_refused():
    cuts = [(case[0], case[1], bytes.fromhex(case[3])[:end]) for case in OF_USE for end in range(len(case[3]) // 2)]
    assert not {(kind, version, len(value)) for kind, version, value in cuts if not isinstance(read(value), MetadataError)}


def test_bytes_behind_a_record_are_refused():
    """Kafka: "Found 1 byte(s) of garbage after ..."; the fields before it cannot be what they seem."""
    longer = [(case[0], case[1], bytes.fromhex(case[3]) + b"\x00") for case in OF_USE]
    assert not {(kind, version) for kind, version, value in longer if not isinstance(read(value), MetadataError)}


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x01\x03", b"\x01\x03\x02", b"\x80" * 20, b"\x01" + b"\xff" * 20])
def test_less_than_a_record_is_refused(value):
    with pytest.raises(MetadataError):
        decode(value)


HUGE = mf.varint(2**35 - 1)  # the longest that Kafka writes has five bytes


@pytest.mark.parametrize(
    "body",
    [
        pytest.param((2, 0, HUGE), id="name"),
        pytest.param((3, 2, bytes(20) + HUGE), id="replicas"),
        pytest.param((3, 2, bytes(20) + b"\x01\x01\x01\x01" + bytes(12) + HUGE), id="directories"),
        pytest.param((3, 2, bytes(20) + b"\x01\x01\x01\x01" + bytes(12) + b"\x01" + HUGE), id="number of tags"),
        pytest.param((5, 2, bytes(20) + b"\x01\x00" + HUGE), id="size of a tag"),
        pytest.param((5, 2, bytes(20) + b"\x01\x00\x05" + HUGE), id="ISR in a tag"),
        pytest.param((0, 3, bytes(29) + HUGE), id="end points"),
        pytest.param((0, 3, bytes(29) + b"\x01" + HUGE), id="features"),
        pytest.param((0, 3, bytes(29) + b"\x01\x01" + HUGE), id="rack"),
    ],
)
def test_an_announced_size_allocates_nothing(body):
    value = mf.framed(*body) + bytes(50)
    tracemalloc.start()
    try:
        with pytest.raises(MetadataError):
            decode(value)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000
