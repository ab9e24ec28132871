"""What tools print of leaders, and people paste into files: read as claims, with what it lacks left unknown, or refused with its line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replica_audit.errors import MetadataError
from replica_audit.formats.metadata import metadata_files
from replica_audit.formats.metadata.metadata_files import Made, MetadataFile, made_by
from replica_audit.model import PartitionMetadata

ID = "FwQ8J6cySmadJADoS7lKRg"
HEAD_4 = (
    f"Topic: foo\tTopicId: {ID}\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: min.insync.replicas=1,cleanup.policy=compact,delete\n"
)
DESCRIBE_4 = (
    HEAD_4
    + "\tTopic: foo\tPartition: 0\tLeader: 2\tReplicas: 1,2\tIsr: 2\tElr: 1\tLastKnownElr: \n"
    + "\tTopic: foo\tPartition: 1\tLeader: none\tReplicas: 2,1\tIsr: \tElr: 1,2\tLastKnownElr: 2\n"
)
DESCRIBE_3 = (
    f"Topic: foo\tTopicId: {ID}\tPartitionCount: 1\tReplicationFactor: 3\tConfigs: segment.bytes=1073741824\n"
    "\tTopic: foo\tPartition: 0\tLeader: 1001\tReplicas: 1001,1002,1003\tIsr: 1001,1003\n"
)
DESCRIBE_OLD = "Topic:foo\tPartitionCount:1\tReplicationFactor:2\tConfigs:\n\tTopic: foo\tPartition: 0\tLeader: -1\tReplicas: 0,1\tIsr: \n"
KCAT = (
    "Metadata for all topics (from broker 1: sasl_ssl://b1.example:9092/1):\n"
    " 2 brokers:\n  broker 2 at b2.example:9092\n  broker 1 at b1.example:9092 (controller)\n"
    ' 2 topics:\n  topic "foo" with 2 partitions:\n    partition 0, leader 2, replicas: 1,2, isrs: 2\n'
    "    partition 1, leader -1, replicas: 2,1, isrs: 1, Broker: Leader not available\n"
    '  topic "bar" with 1 partitions:\n    partition 0, leader 1, replicas: 1, isrs: 1\n'
)
KCAT_DOCUMENT: dict[str, Any] = {
    "originating_broker": {"id": 1, "name": "b1.example:9092/1"},
    "query": {"topic": "*"},
    "controllerid": 1,
    "brokers": [{"id": 2, "name": "b2.example:9092"}, {"id": 1, "name": "b1.example:9092"}],
    "topics": [
        {
            "topic": "foo",
            "partitions": [{"partition": 0, "leader": 2, "replicas": [{"id": 1}, {"id": 2}], "isrs": [{"id": 2}]}],
        }
    ],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pasted.txt"


def read(path: Path, text: str | bytes) -> MetadataFile:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return metadata_files.read(path)


def claims(path: Path, text: str | bytes) -> dict[tuple[str, int], PartitionMetadata]:
    return {(one.topic, one.partition): one for one in read(path, text).partitions}


def refused(path: Path, text: str) -> MetadataError:
    with pytest.raises(MetadataError) as caught:
        read(path, text)
    return caught.value


# --- kafka-topics ---


def test_a_description_of_4(path: Path) -> None:
    found = claims(path, DESCRIBE_4)
    first, second = found["foo", 0], found["foo", 1]
    assert (first.leader, first.no_leader, first.leader_epoch, first.replicas, first.isr) == (2, False, -1, (1, 2), (2,))
    assert (first.elr, first.last_known_elr, first.topic_id, first.compacted) == ((1,), (), ID, True)
    assert (first.min_insync_replicas, first.unclean_leader_election, first.known_at_ms) == (1, None, None)
    assert (second.leader, second.no_leader, second.isr, second.elr, second.last_known_elr) == (-1, True, (), (1, 2), (2,))


def test_one_of_3(path: Path) -> None:
    (found,) = claims(path, DESCRIBE_3).values()
    assert (found.leader, found.replicas, found.isr, found.topic_id) == (1001, (1001, 1002, 1003), (1001, 1003), ID)
    assert found.compacted is False, "with a topic id all configurations are there that are not the default"


def test_one_of_before_2_8(path: Path) -> None:
    """Neither a topic id nor what the brokers set for all topics: whether the topic is compacted is not known."""
    (found,) = claims(path, DESCRIBE_OLD).values()
    assert (found.leader, found.no_leader, found.topic_id, found.compacted) == (-1, True, None, None)
    (found,) = claims(path, DESCRIBE_OLD.replace("Configs:", "Configs:cleanup.policy=compact")).values()
    assert found.compacted is True


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\t", "    "),
        lambda text: text.replace("\t", " "),
        lambda text: text.replace("\n", "  \r\n"),
        lambda text: "$ kafka-topics.sh --bootstrap-server b1:9092 --describe --topic foo\n" + text + "$ \n",
        lambda text: "[2026-11-27 10:00:00,000] WARN [AdminClient clientId=x] ... (org.apache.kafka)\n\n" + text,
        lambda text: "```\n" + text.replace("\n", "\n\n") + "```\n",
        lambda text: text + text,
        lambda text: text.replace(HEAD_4, ""),
        lambda text: text.replace("\tElr:", "\tOffline: 1\tElr:"),
        lambda text: text.replace("\tElr:", "\tAdding Replicas: 3\tRemoving Replicas: 1\tElr:"),
    ],
)
def test_what_people_paste_around_it(path: Path, change: Any) -> None:
    leaders = {key: (one.leader, one.isr, one.elr) for key, one in claims(path, change(DESCRIBE_4)).items()}
    assert leaders == {("foo", 0): (2, (2,), (1,)), ("foo", 1): (-1, (), (1, 2))}


@pytest.mark.parametrize("break_at", ["Configs:", "cleanup.policy=", "segment.bytes="])
def test_a_line_of_a_topic_that_goes_on(path: Path, break_at: str) -> None:
    configs = "compression.type=producer,cleanup.policy=compact,segment.bytes=104857600"
    text = DESCRIBE_3.replace("segment.bytes=1073741824", configs)
    (found,) = claims(path, text.replace(break_at, f"\n    {break_at}")).values()
    assert (found.compacted, found.leader) == (True, 1001)


@pytest.mark.parametrize("configs", ["", "Configs: segment.bytes=104857600,"])
def test_of_configurations_that_are_cut_what_is_not_there_is_unknown(path: Path, configs: str) -> None:
    (found,) = claims(path, DESCRIBE_3.replace("Configs: segment.bytes=1073741824", configs)).values()
    assert found.compacted is None


def test_a_configuration_with_a_document_in_it(path: Path) -> None:
    constraints = 'confluent.placement.constraints={"version":1,"replicas":[{"count":2,"constraints":{"rack":"west"}}],"observers":[]}'
    text = DESCRIBE_3.replace("segment.bytes", constraints + ",cleanup.policy=compact,segment.bytes")
    (found,) = claims(path, text).values()
    assert (found.compacted, found.isr) == (True, (1001, 1003))


def test_elr_that_is_not_there(path: Path) -> None:
    found = claims(path, DESCRIBE_4.replace("Elr: 1\t", "Elr: N/A\t").replace("LastKnownElr: \n", "LastKnownElr: N/A\n"))
    assert (found["foo", 0].elr, found["foo", 0].last_known_elr) == ((), ())


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (DESCRIBE_4[:-30], 3, "cut"),
        (DESCRIBE_4.rpartition("\tTopic")[0], 1, "has 2 partitions"),
        (DESCRIBE_4.replace("Replicas: 1,2\t", "Replicas: 1,2\n\t"), 3, "wrapped"),
        (DESCRIBE_4.replace("Replicas: 1,2\t", "Replicas: 1,\t"), 2, "cut"),
        (DESCRIBE_4.replace("Replicas: 1,2\t", "Replicas: 1\t"), 2, "replication factor is 2"),
        (DESCRIBE_4.replace("Leader: 2", "Leader: 3"), 2, "leader is 3, which is not among the replicas"),
        (DESCRIBE_4.replace("Leader: 2", "Leader: 1"), 2, "leader is 1, which is not in the isr"),
        (DESCRIBE_4.replace("Leader: 2", "Leader: two"), 2, "not a broker's id"),
        (DESCRIBE_4.replace("Partition: 1", "Partition: 0"), 3, "given twice"),
        (DESCRIBE_4 + DESCRIBE_4.replace("Isr: 2", "Isr: 2,1"), 5, "given twice"),
        (DESCRIBE_4.replace("Replicas: 1,2\t", "Replicas: 2,2\t"), 2, "twice"),
        (DESCRIBE_4.replace("\tTopic: foo\tPartition: 1", "> Topic: foo\tPartition: 1"), 3, "begins with something else"),
        (DESCRIBE_4.replace("Partition: 1", "Partition: 99999999999"), 3, "not a number"),
        (DESCRIBE_3.replace("\tTopic: foo\tPartition", "\tPartition"), 2, "begins with something else"),
        ("\tPartition: 0\tLeader: none\tReplicas: 3\tIsr: \n", 1, "begins with something else"),
    ],
)
def test_a_description_that_is_not_whole_is_refused(path: Path, text: str, line: int, said: str) -> None:
    error = refused(path, text)
    assert (error.line, said in error.reason) == (line, True), error


# --- kcat ---


def test_a_listing_of_kcat(path: Path) -> None:
    file = read(path, KCAT)
    found = {(one.topic, one.partition): (one.leader, one.no_leader, one.replicas, one.isr) for one in file.partitions}
    assert found == {
        ("foo", 0): (2, False, (1, 2), (2,)),
        ("foo", 1): (-1, True, (2, 1), (1,)),
        ("bar", 0): (1, False, (1,), (1,)),
    }
    assert file.head.broker_states == {1: "unknown", 2: "unknown"}
    assert {(one.leader_epoch, one.topic_id, one.compacted, one.delete_retention_ms) for one in file.partitions} == {(-1, None, None, None)}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("before", ["", "$ kcat -b b1:9092 -L -J | jq .\n"])
def test_one_in_json(path: Path, indent: int | None, before: str) -> None:
    file = read(path, before + json.dumps(KCAT_DOCUMENT, indent=indent) + "\n")
    assert file.made is Made.KCAT
    (found,) = file.partitions
    assert (found.topic, found.partition, found.leader, found.replicas, found.isr, found.leader_epoch) == ("foo", 0, 2, (1, 2), (2,), -1)
    assert file.head.broker_states == {1: "unknown", 2: "unknown"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (KCAT.replace(", isrs: 2\n", ", is\n"), "cut or wrapped"),
        (KCAT.rpartition("    partition")[0], "has 1 partitions"),
        (KCAT.rpartition("  topic")[0], "there are 2 topics"),
        (KCAT.replace("  broker 2 at b2.example:9092\n", ""), "there are 2 brokers"),
        (KCAT.replace("replicas: 1,2", "replicas: 1,"), "cut"),
        (KCAT.replace("partition 1,", "partition 0,"), "twice"),
        (json.dumps(KCAT_DOCUMENT)[:-10], "not JSON"),
        (json.dumps(KCAT_DOCUMENT).replace('"leader": 2', '"leader": "2"'), "another type"),
        (json.dumps(KCAT_DOCUMENT).replace('"isrs"', '"in_sync"'), "isrs"),
    ],
)
def test_a_listing_that_is_not_whole_is_refused(path: Path, text: str, said: str) -> None:
    assert said in refused(path, text).reason


# --- what else there is ---


@pytest.mark.parametrize("form", [gzip.compress, lambda text: text.decode().encode("utf-16"), lambda text: b"\xef\xbb\xbf" + text])
@pytest.mark.parametrize("text", [DESCRIBE_4, KCAT, json.dumps(KCAT_DOCUMENT)])
def test_as_files_are_written(path: Path, form: Any, text: str) -> None:
    assert read(path, form(text.encode())).partitions == read(path, text).partitions


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (
            'Querying brokers for log directories information\nReceived log directory information from brokers 1\n{"version":1}\n',
            Made.LOG_DIRS,
        ),
        ('{"version":1,"brokers":[{"broker":1,"logDirs":[{"partitions":[],"error":null,"logDir":"/data"}]}]}\n', Made.LOG_DIRS),
        ("ClusterId:              x\nLeaderId:               3\nLeaderEpoch:            15\n", Made.QUORUM),
        ("NodeId\tLogEndOffset\tLag\tLastFetchTimestamp\n1\t24\t0\t1\n", Made.QUORUM),
        ("NodeId  DirectoryId             LogEndOffset  Lag\n1       Qp6JWkXMQF  24  0\n", Made.QUORUM),
        ("foo:0:260\nfoo:1:\n", Made.OFFSETS),
        ("GROUP  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG\ng  foo  0  1  2  1\n", Made.GROUPS),
        ("Dynamic configs for topic foo are:\n  cleanup.policy=compact\n", Made.CONFIGS),
        ('Current partition replica assignment\n{"version":1,"partitions":[]}\n', Made.REASSIGNMENT),
        ('{"version":1,"partitions":[{"topic":"foo","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}\n', Made.REASSIGNMENT),
    ],
)
def test_what_tells_no_leader_is_known_for_what_it_is(path: Path, text: str, made: Made) -> None:
    assert str(made) in refused(path, text).reason
    assert made_by(path) is made


@pytest.mark.parametrize("text", ["", "The leader of foo is 2.\n", "a: b\n", "{}", "[1]", "\0\0", "12:30:45 started\n"])
def test_other_files_are_none(path: Path, text: str) -> None:
    path.write_text(text)
    assert made_by(path) is None


def test_a_cluster_metadata_document_is_read_as_before(path: Path) -> None:
    document = {"version": 1, "topics": [{"topic": "foo", "partitions": [{"partition": 0, "leader": 2, "leader_epoch": 7}]}]}
    (found,) = read(path, json.dumps(document)).partitions
    assert (found.leader, found.leader_epoch) == (2, 7)


# --- damage ---


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.sampled_from([DESCRIBE_4, DESCRIBE_3, DESCRIBE_OLD, KCAT, json.dumps(KCAT_DOCUMENT), json.dumps(KCAT_DOCUMENT, indent=1)]),
    edits=st.lists(st.tuples(st.integers(0, 700), st.integers(0, 40), st.text(max_size=12)), max_size=3),
)
def test_a_damaged_text_is_read_or_refused(tmp_path: Path, text: str, edits: list[tuple[int, int, str]]) -> None:
    for at, size, other in edits:
        text = text[:at] + other + text[at + size :]
    path = tmp_path / "damaged"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        found = metadata_files.read(path)
    except MetadataError:
        return
    for claim in found.partitions:
        claim.topic.encode()
        assert claim.leader_epoch == -1 or found.made is Made.DOCUMENT
        assert claim.leader in (-1, *claim.replicas)
        assert set(claim.isr) <= set(claim.replicas)


@pytest.mark.parametrize("text", [DESCRIBE_4, DESCRIBE_3, KCAT, json.dumps(KCAT_DOCUMENT)])
def test_a_text_cut_anywhere_claims_nothing_else(path: Path, text: str) -> None:
    """What is cut between two ids of the very last list is the exception that `docs/limits.md` names."""
    whole = claims(path, text)
    for cut in range(len(text)):
        path.write_text(text[:cut])
        try:
            found = {(one.topic, one.partition): one for one in metadata_files.read(path).partitions}
        except MetadataError:
            continue
        last = [key for key, one in found.items() if whole[key] != one]
        assert all(found[key].isr == whole[key].isr[: len(found[key].isr)] for key in last), text[:cut]
        assert len(last) <= 1


def test_half_of_a_character_is_refused(path: Path) -> None:
    assert "no name" in refused(path, json.dumps(KCAT_DOCUMENT).replace('"foo"', '"\\ud800"')).reason.replace("not a name", "no name")
