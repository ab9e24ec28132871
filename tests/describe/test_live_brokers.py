"""describe_cluster against real brokers: the truth is what lies on their disks, and what was done to them."""

from __future__ import annotations

import json
import logging
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import NoError
from kafka.protocol.admin import AlterClientQuotasRequest

from replica_audit.cli import main
from replica_audit.formats.metadata import cluster_metadata, metadata_log
from replica_audit.storage.cluster import description, verification
from replica_audit.storage.cluster.connection import Brokers
from replica_audit.storage.cluster.description import describe
from tests.describe.secured import ADMIN_PASSWORD, GUEST_PASSWORD, SECRETS, SecuredLab
from tests.kafka_lab.cluster import wait_until
from tests.kafka_lab.load import Batch, create_topic, delete_records, send
from tests.kafka_lab.snapshot import copy_all
from tests.support import in_process
from tests.support.warehouse import STARTED, write_warehouse

pytestmark = [pytest.mark.live, pytest.mark.slow]
TOPICS = {"grows": [1, 2], "moves": [2, 1], "trimmed": [3, 1], "loses": [2, 3], "eligible": [1, 3]}
PLAINTEXT = {"security_protocol": "PLAINTEXT"}


def commit(client: KafkaAdminClient) -> bool:
    """Commit an offset of the group billing, with its epoch; the coordinator may not be ready at once."""
    errors = client.alter_group_offsets("billing", {TopicPartition("moves", 0): OffsetAndMetadata(7, "", 0)})
    return set(errors.values()) == {NoError}


def listens(port: int) -> bool:
    """Whether something takes connections there."""
    with socket.create_connection(("127.0.0.1", port)):
        return True


def quota(lab: SecuredLab, client_id: str, key: str, value: float) -> None:
    """Set a quota of a client id."""
    entry = AlterClientQuotasRequest.EntryData
    entity, op = entry.EntityData(entity_type="client-id", entity_name=client_id), entry.OpData(key=key, value=value, remove=False)
    with Brokers(lab.bootstrap, PLAINTEXT, 300) as brokers:
        answer = brokers.ask_any(AlterClientQuotasRequest(entries=[entry(entity=[entity], ops=[op])], validate_only=False))
        assert [one.error_code for one in answer.entries] == [0]


@dataclass(frozen=True, slots=True)
class Said:
    """What the command did."""

    code: int
    document: dict[str, Any]
    out: str
    err: str


@dataclass(slots=True)
class Degraded:
    """The laboratory after broker 3 was killed: what was said of it then, its metadata log, audits, and copies without metadata."""

    lab: SecuredLab
    document: dict[str, Any]
    code: int
    log: metadata_log.MetadataLog
    sizes: dict[tuple[int, str, int], int]
    warehouse: Path
    bare: Path


@pytest.fixture(scope="module")
def degraded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Degraded]:
    """Topics whose partition 0 is led by each broker in turn; then broker 3 dies, others lead, and more is written."""
    folder = Path(tmp_path_factory.mktemp("lab"))
    with SecuredLab("4.3", brokers=3, parent=folder) as lab:
        for topic, replicas in TOPICS.items():
            configs = {"min_insync_replicas": 2 if topic == "eligible" else 1, "retention_ms": 86_400_000}
            create_topic(lab, topic, {0: replicas}, unclean_leader_election_enable="true", **configs)
        lab.add_scram_user("admin", ADMIN_PASSWORD)
        send(lab, [Batch(topic, 0, 10, 50) for topic in TOPICS], acks="all")
        wait_until("the group's offset is committed", lambda: lab.ask(commit))
        lab.wait_in_sync(*TOPICS, "__consumer_offsets")  # else what was committed may be on broker 3 alone
        lab.brokers[3].kill()
        lab.wait_for("broker 3 is out of every ISR", TOPICS, lambda one: 3 not in one["isr_nodes"] and one["leader_id"] in (1, 2))
        send(lab, [Batch(topic, 0, 5, 50) for topic in TOPICS if topic != "eligible"], acks=1)
        lab.wait_for("2 is in sync again", ["grows", "moves"], lambda one: len(one["isr_nodes"]) == 2)
        # committed again: a new coordinator answers only up to the high watermark, which may wait for one more write
        wait_until(
            "the group's new coordinator knows its offset",
            lambda: lab.ask(commit) and lab.ask(lambda client: client.list_group_offsets("billing")["billing"]),
        )
        with Brokers(lab.bootstrap, PLAINTEXT, 300) as brokers:
            found = describe(brokers)
        root = copy_all(lab, folder / "copy")
        sizes = {
            (broker, path.parent.name.rpartition("-")[0], int(path.parent.name.rpartition("-")[2])): path.stat().st_size
            for broker in (1, 2)
            for path in (root / f"broker-{broker}/data-0").glob("*-*/*.log")
            if not path.parent.name.startswith("__cluster_metadata")
        }
        warehouse = write_warehouse(folder / "warehouse", root, run_id="then")
        shutil.copytree(root, folder / "bare", ignore=shutil.ignore_patterns("__cluster_metadata-0", "controller"))
        write_warehouse(warehouse, folder / "bare", run_id="inferred", started_at=STARTED - timedelta(days=1))
        yield Degraded(
            lab=lab,
            document=found.document,
            code=3 if found.is_partial else 0,
            log=metadata_log.read(lab.controller.log_dirs[0] / "__cluster_metadata-0"),
            sizes=sizes,
            warehouse=warehouse,
            bare=folder / "bare",
        )


@pytest.fixture
def said(tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Callable[..., Said]:
    """Runs the command; nothing that it says, writes or logs may hold a password."""
    caplog.set_level(logging.DEBUG)

    def run(bootstrap: str, *arguments: object) -> Said:
        output = tmp_path / "said.json"
        output.unlink(missing_ok=True)
        given = ["describe_cluster", "--bootstrap-server", bootstrap, "--output", str(output), *map(str, arguments)]
        code = main(given if "--timeout" in given else [*given, "--timeout", "300"])
        text = output.read_text() if output.exists() else "{}"
        printed = capsys.readouterr()
        for secret in SECRETS:
            assert secret not in text + printed.out + printed.err + caplog.text
        return Said(code, json.loads(text), printed.out, printed.err)

    return run


def partitions(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"{topic['topic']}-{one['partition']}": one for topic in document["topics"] for one in topic["partitions"]}


def test_it_says_what_the_metadata_log_says(degraded: Degraded, tmp_path: Path) -> None:
    path = tmp_path / "cluster-metadata.json"
    path.write_text(json.dumps(degraded.document))
    head, document = cluster_metadata.read(path)
    assert head.cluster_id == degraded.lab.cluster_id
    assert head.metadata_version == degraded.log.metadata_version is not None
    assert head.inter_broker_protocol is None
    assert head.kafka_version == "4.3"
    assert head.broker_states == {1: "up", 2: "up", 3: "down"}
    read = {(one.topic, one.partition): one for one in cluster_metadata.partitions(document)}
    logged = {(one.topic, one.partition): one for one in degraded.log.partitions}
    assert read.keys() == logged.keys() >= {(topic, 0) for topic in TOPICS}
    for key, one in read.items():
        oracle = logged[key]
        names = ("topic_id", "leader", "leader_epoch", "replicas", "isr", "elr")
        assert [getattr(one, name) for name in names] == [getattr(oracle, name) for name in names], key
    assert read["trimmed", 0].leader_epoch > 0
    assert read["eligible", 0].elr == (3,)
    fenced = {one.broker_id: one.fenced for one in degraded.log.brokers}
    assert fenced == {one["id"]: one["fenced"] for one in document["brokers"]} == {1: False, 2: False, 3: True}


def test_it_says_what_was_set_and_what_lies_on_disk(degraded: Degraded) -> None:
    told_topics = {topic["topic"]: topic for topic in degraded.document["topics"]}
    assert told_topics["eligible"]["configs"] == {
        "min.insync.replicas": "2",
        "retention.ms": "86400000",
        "unclean.leader.election.enable": "true",
        "retention.bytes": "123456789",  # the brokers' setting, which is not Kafka's default
    }
    assert told_topics["__consumer_offsets"]["internal"] is True
    assert told_topics["__consumer_offsets"]["configs"]["cleanup.policy"] == "compact"
    brokers = {broker["id"]: broker for broker in degraded.document["brokers"]}
    assert brokers[1]["configs"]["replica.lag.time.max.ms"] == "3000"
    for broker in (1, 2):
        (log_dir,) = brokers[broker]["log_dirs"]
        assert log_dir["path"] == str(degraded.lab.brokers[broker].log_dirs[0])
        told = {(broker, one["topic"], one["partition"]): one["size_bytes"] for one in log_dir["replicas"]}
        assert told == {key: size for key, size in degraded.sizes.items() if key[0] == broker}
    assert brokers[3]["log_dirs"] is None
    assert degraded.document["groups"][0]["group_id"] == "billing"
    assert degraded.document["groups"][0]["offsets"] == [{"topic": "moves", "partition": 0, "offset": 7, "leader_epoch": 0}]
    assert degraded.code == 3
    assert [(one["broker"], one["why"]) for one in degraded.document["missing"]] == [(3, "the cluster has fenced it")]


def test_requests_of_old_brokers_give_the_same(degraded: Degraded) -> None:
    """2.1 had neither DescribeTopicPartitions nor offsets of many groups at once, nor DescribeCluster; but epochs and ISR."""
    with Brokers(degraded.lab.bootstrap, PLAINTEXT | {"api_version": (2, 1)}, 300) as brokers:
        document = describe(brokers).document
    known = ("leader", "leader_epoch", "replicas", "isr")
    now, then = partitions(document), partitions(degraded.document)
    assert {key: [one[name] for name in known] for key, one in now.items()} == {
        key: [one[name] for name in known] for key, one in then.items()
    }
    assert {one["elr"] for one in now.values()} == {None}
    assert document["groups"][0]["offsets"][0]["offset"] == 7
    assert {one["what"] for one in document["missing"]} >= {"ELR of all partitions"}


def test_an_audit_of_copies_takes_the_leaders_from_it(degraded: Degraded) -> None:
    path = degraded.bare / "cluster-metadata.json"
    path.write_text(json.dumps(degraded.document))
    try:
        tables = in_process.audit(degraded.bare)
    finally:
        path.unlink()
    found = {f"{row['topic']}-{row['partition']}": (row["leader_id"], row["leader_source"]) for row in tables["replica_verdicts"]}
    assert found.keys() >= {f"{topic}-0" for topic in TOPICS}
    assert found == {key: (one["leader"], "cluster-metadata") for key, one in partitions(degraded.document).items()}
    assert not tables["problems"]


@pytest.mark.parametrize(("protocol", "mechanism"), [("SASL_PLAINTEXT", "PLAIN"), ("SASL_SSL", "PLAIN"), ("SASL_SSL", "SCRAM-SHA-256")])
def test_logged_in_it_says_the_same(degraded: Degraded, said: Callable[..., Said], tmp_path: Path, protocol: str, mechanism: str) -> None:
    properties = degraded.lab.client_properties(tmp_path, protocol, mechanism, "admin", ADMIN_PASSWORD)
    found = said(degraded.lab.addresses(protocol, 1, 2), "--command-config", properties)
    assert found.document["topics"] == degraded.document["topics"]
    assert found.document["groups"] == degraded.document["groups"]
    assert found.code == 3, "broker 3 is dead"


def test_a_wrong_password_is_told_at_once(degraded: Degraded, said: Callable[..., Said], tmp_path: Path) -> None:
    properties = degraded.lab.client_properties(tmp_path, "SASL_PLAINTEXT", "PLAIN", "admin", "wr0ng-s3cr3t")
    found = said(degraded.lab.addresses("SASL_PLAINTEXT", 1), "--command-config", properties)
    assert (found.code, found.document) == (2, {})
    assert "authentication failed: Invalid username or password" in found.err or "as brokers do after a failed login" in found.err
    plain = said(degraded.lab.addresses("SASL_PLAINTEXT", 1), "--timeout", 30)
    assert plain.code == 2
    assert "security.protocol does not fit the listener" in plain.err


def test_who_may_nothing_is_told_what_is_hidden(degraded: Degraded, said: Callable[..., Said], tmp_path: Path) -> None:
    properties = degraded.lab.client_properties(tmp_path, "SASL_PLAINTEXT", "PLAIN", "guest", GUEST_PASSWORD)
    addresses = degraded.lab.addresses("SASL_PLAINTEXT", 1, 2)
    found = said(addresses, "--command-config", properties)
    assert found.code == 3
    assert found.document["topics"] == []
    whats = {one["what"] for one in found.document["missing"]}
    assert whats >= {"its log directories", "its configuration", "topics and groups that it may not describe and so does not know"}
    assert "missing: its log directories (broker 1): CLUSTER_AUTHORIZATION_FAILED" in found.err
    refused = said(addresses, "--command-config", properties, "--verify", "then", "--warehouse", degraded.warehouse)
    assert refused.code == 3
    assert "TOPIC_AUTHORIZATION_FAILED" in refused.err


def test_many_small_questions_give_the_same(degraded: Degraded, said: Callable[..., Said], monkeypatch: pytest.MonkeyPatch) -> None:
    """As a cluster with more partitions and topics than fit one question is asked."""
    monkeypatch.setattr(description, "_PARTITIONS_AT_ONCE", 2)
    monkeypatch.setattr(description, "_TOPICS_AT_ONCE", 1)
    found = said(degraded.lab.addresses("PLAINTEXT", 1))
    assert found.document["topics"] == degraded.document["topics"]
    monkeypatch.setattr(verification, "PARTITIONS_AT_ONCE", 1)
    monkeypatch.setattr(verification, "_TOPICS_AT_ONCE", 1)
    whole = verified(degraded, said, 1)
    assert whole.code == 0
    assert whole.document["partitions"] == len(partitions(degraded.document))
    assert whole.document["asked"] > len(TOPICS)


def test_a_throttled_client_waits(degraded: Degraded, said: Callable[..., Said], tmp_path: Path) -> None:
    """Answers to a client beyond its quota tell it to pause, and no pause is taken for a broker that is away."""
    quota(degraded.lab, "throttled", "request_percentage", 0.001)
    properties = tmp_path / "client.properties"
    properties.write_text("client.id=throttled\n")
    found = said(degraded.lab.addresses("PLAINTEXT", 1), "--command-config", properties, "--timeout", 300)
    assert found.document["topics"] == degraded.document["topics"]
    assert {one["broker"] for one in found.document["missing"]} == {3}


def test_nobody_and_the_silent_are_passed_over(degraded: Degraded, said: Callable[..., Said]) -> None:
    """A port that nobody listens at, one that takes connections and says nothing, and then a broker."""
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as closed:
        port, gone = silent.getsockname()[1], closed.getsockname()[1]
        closed.close()
        found = said(f"127.0.0.1:{gone},127.0.0.1:{port},{degraded.lab.addresses('PLAINTEXT', 1)}", "--timeout", 10)
        assert partitions(found.document) == partitions(degraded.document)
        nobody = said(f"127.0.0.1:{gone},127.0.0.1:{port}", "--timeout", 1)
    assert nobody.code == 2
    assert f"127.0.0.1:{gone}: connection refused" in nobody.err
    assert f"127.0.0.1:{port}: no answer within 1 s" in nobody.err


def verified(degraded: Degraded, said: Callable[..., Said], *brokers: int, run: str = "then", timeout: float = 300) -> Said:
    options = ("--verify", run, "--warehouse", degraded.warehouse, "--timeout", timeout)
    return said(degraded.lab.addresses("PLAINTEXT", *brokers), *options)


def causes(differences: list[dict[str, Any]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in differences:
        found.setdefault(one["topic"], set()).add(one["cause"])
    return found


@pytest.mark.parametrize("run", ["latest", "inferred"])
def test_verify_agrees_with_the_logs_as_they_are(degraded: Degraded, said: Callable[..., Said], run: str) -> None:
    """Also with those of leaders that an audit without any metadata inferred."""
    found = verified(degraded, said, 1, 2, run=run)
    assert (found.code, found.err) == (0, "")
    assert found.document["run_id"] == ("inferred" if run == "inferred" else "then")
    assert (found.document["differences"], found.document["explained"], found.document["missing"]) == ([], [], [])
    assert found.document["partitions"] == len(partitions(degraded.document))
    assert found.document["asked"] > len(TOPICS)


def test_verify_a_run_of_another_cluster(degraded: Degraded, said: Callable[..., Said], tmp_path: Path) -> None:
    other = Path(__file__).parents[1] / "data/sample"
    warehouse = write_warehouse(tmp_path / "warehouse", next(other.iterdir()), run_id="other")
    found = said(degraded.lab.addresses("PLAINTEXT", 1), "--verify", "other", "--warehouse", warehouse)
    assert found.code == 2
    assert degraded.lab.cluster_id in found.err


def test_a_frozen_broker_makes_the_result_partial(degraded: Degraded, said: Callable[..., Said]) -> None:
    """Frozen for less than a session's time, so that it still leads."""
    lab = degraded.lab
    timeout = round(lab.session_s / 4, 1)
    lab.brokers[2].freeze()
    try:
        described = said(lab.addresses("PLAINTEXT", 1), "--timeout", timeout)
    finally:
        lab.brokers[2].resume()
    assert described.code == 3
    assert described.document["topics"] == degraded.document["topics"]
    states = {one["id"]: one["state"] for one in described.document["brokers"]}
    assert states == {1: "up", 2: None, 3: "down"}
    assert f"(broker 2): no answer within {timeout:g} s" in described.err
    lab.wait_in_sync("grows", "moves")
    lab.brokers[2].freeze()
    try:
        asked = verified(degraded, said, 1, timeout=timeout)
    finally:
        lab.brokers[2].resume()
    lab.wait_in_sync("grows", "moves")
    assert asked.code == 3
    assert f"broker 2, its leader: no answer within {timeout:g} s" in asked.err
    assert causes(asked.document["differences"]) == {}
    assert asked.document["asked"] > 0, "broker 1 was asked all the same"


def test_what_time_makes_is_no_difference_and_what_is_lost_is(degraded: Degraded, said: Callable[..., Said]) -> None:
    lab = degraded.lab
    send(lab, [Batch("grows", 0, 5, 50), Batch("moves", 0, 5, 50)], acks="all")
    delete_records(lab, {("trimmed", 0): 13})
    found = verified(degraded, said, 1, 2)
    assert found.code == 0
    explained = causes(found.document["explained"])
    assert (explained["grows"], explained["trimmed"]) == ({"log-grew"}, {"retention"})
    assert "retention has moved the log start to 13" in {one["why"] for one in found.document["explained"]}
    # broker 3, which knows nothing of the last five records, becomes the leader
    lab.brokers[2].kill()
    lab.wait_for("1 leads", ["moves"], lambda one: one["leader_id"] == 1)
    lab.brokers[3].start()
    lab.wait_for("3 leads", ["loses"], lambda one: one["leader_id"] == 3)
    # it leads before it listens
    wait_until("3 listens", lambda: listens(lab.brokers[3].port))
    found = verified(degraded, said, 1)
    lab.brokers[2].start()
    assert found.code == 1
    assert causes(found.document["differences"]) == {"loses": {"differs"}}
    (lost,) = found.document["differences"]
    assert (lost["leader_then"], lost["leader_now"], lost["requested_epoch"]) == (2, 3, lost["table_epoch"])
    assert (lost["table_end_offset"], lost["answered_end_offset"]) == (15, 10)
    assert "offsets 10 to 14 of it are not in its log" in lost["why"]
    assert causes(found.document["explained"])["moves"] == {"leader-changed"}


def test_topics_that_are_gone_or_were_created_again(degraded: Degraded, said: Callable[..., Said]) -> None:
    lab = degraded.lab
    lab.ask(lambda client: client.delete_topics(["grows", "moves"]))
    create_topic(lab, "moves", {0: [1]})

    def told() -> dict[str, str]:
        """Why topics differ, once the broker that is asked has heard of the new one."""
        found = verified(degraded, said)
        assert found.code == 1
        why = {one["topic"]: one["why"] for one in found.document["differences"]}
        return why if "its id is" in why["moves"] else {}

    why = wait_until("every broker knows the new topic", told)
    assert why["grows"] == "the cluster does not have it any more"
    assert why["moves"].startswith("the topic was deleted and created again")


def test_groups_that_nobody_coordinates_are_told(degraded: Degraded, said: Callable[..., Said]) -> None:
    lab = degraded.lab
    moved = {TopicPartition("__consumer_offsets", number): [2] for number in range(3)}
    lab.ask(lambda client: client.alter_partition_reassignments(moved))
    lab.wait_for("2 alone has the groups", ["__consumer_offsets"], lambda one: one["replica_nodes"] == one["isr_nodes"] == [2])
    lab.brokers[2].kill()
    lab.wait_for("nobody has them", ["__consumer_offsets"], lambda one: one["leader_id"] == -1)
    found = said(lab.addresses("PLAINTEXT", 1))
    assert (found.code, found.document["groups"]) == (3, [])
    assert "missing: groups kept in __consumer_offsets, partition 0, 1, 2: it has no leader" in found.err
    assert "3 without a leader" in found.out
