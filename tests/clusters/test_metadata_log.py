"""What real controllers wrote: the metadata log of every snapshot against the metadata file that was captured beside it, every record
against Kafka's own decoder, and elections against what was done to the cluster.

The sample in this repository always; every scenario of `../shared/clusters` where that folder stands beside the project.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from replica_audit.formats.metadata import metadata_log
from replica_audit.formats.metadata.metadata_log import MetadataLog
from replica_audit.formats.metadata.metadata_records import decode
from replica_audit.formats.segment.records import Record, read_records
from replica_audit.model import Election
from replica_audit.protocol.cluster.metadata_image import (
    NO_LEADER_CHANGE,
    BrokerFenced,
    BrokerRegistered,
    BrokerStops,
    ConfigSet,
    FeatureSet,
    PartitionChanged,
    PartitionSet,
    TopicCreated,
    TopicRemoved,
)
from tests.clusters.test_scenarios import EVERY_ROW, ROOT, SAMPLE, SCENARIOS, SHARED, _moves, _said
from tests.formats import kafka_files as kf
from tests.formats import metadata_files as mf
from tests.support import in_process
from tests.support.shares import by_day

Row = dict[str, Any]
LOG_DIRS = "broker-*/*/__cluster_metadata-0"
FILES = [
    *SAMPLE.glob("*/cluster-metadata.json"),
    *SHARED.glob("*/*/cluster-metadata.json"),
    *SHARED.glob("corrupted/*/*/cluster-metadata.json"),
]
ROOTS = sorted(file.parent for file in FILES if next(file.parent.glob(LOG_DIRS), None))
TEXTS = sorted(SHARED.glob("*/cluster-metadata-records.txt"))
WITH_LOGS = [case for case in SCENARIOS if case[0] in ROOTS]
LATER_THAN_THE_FILE = SHARED / "clean-in-sync" / "stopped"

# By the timelines in the scenarios' READMEs: the topic, and the leaders that followed when the only ISR member had been killed, by epoch.
UNCLEAN: dict[str, tuple[str, dict[int, int]]] = {
    "committed-loss": ("billing", {2: 2}),
    "compacted-divergence": ("profile", {6: 2}),
    "compacted-key-loss": ("settings", {6: 2}),
    "kafka-3.9.1-committed-loss": ("billing", {2: 2}),
    "kafka-3.9.1-kip279-fast-failover": ("orders", {2: 2, 4: 1}),
    "kafka-3.9.1-kip279-two-rounds": ("orders", {2: 2, 4: 1, 6: 2}),
    "kafka-3.9.1-multi-round": ("ledger", {2: 2, 4: 1, 6: 2, 8: 1, 10: 2, 12: 1}),
    "kip279-elr-off": ("orders", {2: 2, 4: 1}),
    "kip279-fast-failover": ("orders", {2: 2, 4: 1}),
    "kip279-two-rounds": ("orders", {2: 2, 4: 1, 6: 2}),
    "leader-trimmed": ("audit", {2: 2, 4: 1}),
    "multi-round": ("ledger", {2: 2, 4: 1, 6: 2, 8: 1, 10: 2, 12: 1}),
    "random-histories": ("mix", {2: 2, 4: 3, 6: 1, 8: 2, 10: 3, 12: 1, 14: 3, 16: 2}),
    "tampered-diverged-clean-shutdown": ("ledger", {2: 2, 4: 1}),
    "tampered-diverged-unclean-shutdown": ("ledger", {2: 2, 4: 1}),
    "three-way": ("stock", {2: 3, 4: 2, 6: 1}),
    "txn-loss": ("transfers", {2: 2}),
}
# Nobody was elected uncleanly: rolling restarts, clean failovers, an election out of the ELR.
CLEAN = ("clean-in-sync", "disk-full-torn-batch", "elr-election", "kafka-3.9.1-stale-tail", "mixed-leaders", "stale-tail")
OTHERWISE = ("jbod-and-leftovers",)  # its steps tell of one topic only; every unclean election in it has a record with the state


def _name(path: Path) -> str:
    return "/".join(path.relative_to(ROOT.parent).parts[-2:])


def _scenario(root: Path) -> str:
    return root.name if root.parent == SAMPLE else root.parent.name


@cache
def copies(root: Path) -> list[MetadataLog]:
    """Every broker's copy of the metadata log, the longest one last."""
    return sorted((metadata_log.read(folder) for folder in root.glob(LOG_DIRS)), key=lambda copy: (copy.log_epoch, copy.log_end_offset))


@cache
def elections(root: Path) -> dict[tuple[str, int], tuple[Election, ...]]:
    return {(one.topic, one.partition): one.elections for one in copies(root)[-1].partitions}


# --- the file beside the brokers ---


@pytest.mark.clusters
@pytest.mark.parametrize("root", [root for root in ROOTS if root != LATER_THAN_THE_FILE], ids=_name)
def test_the_log_says_what_the_file_says(root):
    document = json.loads((root / "cluster-metadata.json").read_text(encoding="utf-8"))
    copy = copies(root)[-1]
    in_log = {
        (one.topic, one.partition): (
            one.topic_id,
            one.leader,
            one.leader_epoch,
            one.replicas,
            sorted(one.isr),
            sorted(one.elr),
            one.compacted,
        )
        for one in copy.partitions
    }
    in_file = {
        (topic["topic"], one["partition"]): (
            topic["topic_id"],
            one["leader"],
            one["leader_epoch"],
            tuple(one["replicas"]),
            sorted(one["isr"]),
            sorted(one.get("elr") or ()),
            "compact" in topic["configs"].get("cleanup.policy", ""),
        )
        for topic in document["topics"]
        for one in topic["partitions"]
    }
    assert in_log == in_file
    assert in_file
    assert copy.metadata_version == document["features"]["metadata.version"]
    fenced = {one.broker_id: one.fenced for one in copy.brokers}
    assert fenced == {broker["id"]: broker["state"] == "down" for broker in document["brokers"]}
    assert not [problem for one in copies(root) for problem in one.problems]


@pytest.mark.clusters
@pytest.mark.parametrize("root", [root for root in ROOTS if root == LATER_THAN_THE_FILE], ids=_name)
def test_a_log_that_went_on_after_the_file_was_written(root):
    """All brokers were stopped in order, and the files copied a few seconds after the metadata had been."""
    document = json.loads((root / "cluster-metadata.json").read_text(encoding="utf-8"))
    captured_at_ms = datetime.fromisoformat(document["captured_at"]).timestamp() * 1000
    in_file = {(topic["topic"], one["partition"]): one for topic in document["topics"] for one in topic["partitions"]}
    copy = copies(root)[-1]
    assert copy.last_timestamp_ms
    assert copy.last_timestamp_ms > captured_at_ms
    for partition in copy.partitions:
        before = in_file[partition.topic, partition.partition]
        then = [election for election in partition.elections if election.timestamp_ms <= captured_at_ms]
        assert (then[-1].leader_epoch, then[-1].leader_id) == (before["leader_epoch"], before["leader"]), "the file's time is in the log"
        assert partition.leader_epoch > before["leader_epoch"]
        assert partition.leader == -1, "every broker has left"
    assert {one.fenced for one in copy.brokers} == {True}


@pytest.mark.clusters
@pytest.mark.parametrize("root", ROOTS, ids=_name)
def test_shorter_copies_tell_the_beginning_of_the_same_story(root):
    whole = elections(root)
    for copy in copies(root):
        for partition in copy.partitions:
            # a topic that was removed later is in the shorter copy alone, one that was created again has another id there
            if (partition.topic, partition.partition) in whole:
                assert partition.elections == whole[partition.topic, partition.partition][: len(partition.elections)]


# --- Kafka's own decoder ---


@cache
def told(text: Path) -> dict[int, tuple[int, Row]]:
    """By offset: timestamp and record, as DumpLogSegments printed them."""
    lines = [re.fullmatch(r"\| offset: (\d+) CreateTime: (\d+) .*? payload: (\{.*\})", line) for line in text.read_text().splitlines()]
    assert all(lines), "every line is a record"
    return {int(line[1]): (int(line[2]), json.loads(line[3])) for line in lines if line}


@cache
def held(scenario: Path) -> dict[int, list[Record]]:
    """The records of every copy of the log, by offset."""
    found: dict[int, list[Record]] = defaultdict(list)
    for path in sorted(scenario.glob(f"after/{LOG_DIRS}/*.log")):
        for batch, records in (item for item in read_records(path) if isinstance(item, tuple)):
            for record in () if batch.is_control else records:
                found[record.offset].append(record)
    return found


def _ids(data: Row, name: str) -> tuple[int, ...] | None:
    return None if data.get(name) is None else tuple(data[name])


def expected(kind: str, data: Row) -> object:
    """What a record says, by the JSON that Kafka printed: defaults are left out there."""
    match kind:
        case "TOPIC_RECORD":
            return TopicCreated(data["name"], data["topicId"])
        case "REMOVE_TOPIC_RECORD":
            return TopicRemoved(data["topicId"])
        case "PARTITION_RECORD":
            return PartitionSet(
                partition=data["partitionId"],
                topic_id=data["topicId"],
                replicas=tuple(data["replicas"]),
                isr=tuple(data["isr"]),
                leader=data["leader"],
                leader_epoch=data["leaderEpoch"],
                partition_epoch=data["partitionEpoch"],
                recovering=data.get("leaderRecoveryState", 0) == 1,
                elr=_ids(data, "eligibleLeaderReplicas") or (),
                last_known_elr=_ids(data, "lastKnownElr") or (),
                removing=tuple(data["removingReplicas"]),
                adding=tuple(data["addingReplicas"]),
            )
        case "PARTITION_CHANGE_RECORD":
            return PartitionChanged(
                partition=data["partitionId"],
                topic_id=data["topicId"],
                isr=_ids(data, "isr"),
                leader=data.get("leader", NO_LEADER_CHANGE),
                replicas=_ids(data, "replicas"),
                recovering={1: True, 0: False, None: None}[data.get("leaderRecoveryState")],
                elr=_ids(data, "eligibleLeaderReplicas"),
                last_known_elr=_ids(data, "lastKnownElr"),
                removing=_ids(data, "removingReplicas"),
                adding=_ids(data, "addingReplicas"),
            )
        case "REGISTER_BROKER_RECORD":
            stopping, log_dirs = data.get("inControlledShutdown", False), tuple(data.get("logDirs") or ())
            return BrokerRegistered(data["brokerId"], data["fenced"], stopping, data["brokerEpoch"], log_dirs)
        case "BROKER_REGISTRATION_CHANGE_RECORD":
            fenced = {-1: False, 1: True, 0: None}[data.get("fenced", 0)]
            stops = BrokerStops(data["brokerId"]) if data.get("inControlledShutdown") == 1 else None
            return stops if fenced is None else BrokerFenced(data["brokerId"], fenced)
        case "FEATURE_LEVEL_RECORD":
            return FeatureSet(data["name"], data["featureLevel"])
        case "CONFIG_RECORD":
            return ConfigSet(data["resourceType"], data["resourceName"], data["name"], data["value"])
    raise AssertionError(f"{kind} is not compared")


@pytest.mark.clusters
@pytest.mark.parametrize("text", TEXTS, ids=_name)
def test_every_record_is_what_kafkas_own_decoder_printed(text):
    records, printed = held(text.parent), told(text)
    assert printed.keys() <= records.keys()
    wrong = []
    for offset, (timestamp, record) in printed.items():
        for found in records[offset]:
            assert found.value is not None
            assert found.timestamp_ms == timestamp
            if decode(found.value) != expected(record["type"], record["data"]):
                wrong.append((offset, record, decode(found.value)))
    assert not wrong
    assert len(printed) > 30


@pytest.mark.clusters
@pytest.mark.parametrize("text", TEXTS, ids=_name)
def test_the_encoder_of_these_tests_writes_the_controllers_bytes(text):
    records = held(text.parent)
    for offset, (_timestamp, record) in told(text).items():
        assert {found.value for found in records[offset]} == {mf.record(record["type"], record["version"], **record["data"])}


# --- elections ---


@pytest.mark.clusters
@pytest.mark.parametrize("text", TEXTS, ids=_name)
def test_an_election_that_begins_a_recovery_is_unclean(text):
    after = text.parent / "after"
    marked = {offset for offset, (_, record) in told(text).items() if record["data"].get("leaderRecoveryState") == 1}
    found = [election for made in elections(after).values() for election in made if election.kind == "unclean"]
    assert marked <= {election.metadata_offset for election in found}
    for election in found:
        if election.metadata_offset not in marked:  # the state is 1 already: one before it in the same partition set it
            (before,) = [made for made in elections(after).values() if election in made]
            assert any(one.metadata_offset in marked for one in before if one.metadata_offset < election.metadata_offset)
    if text.parent.name in OTHERWISE:
        assert marked == {election.metadata_offset for election in found}


@pytest.mark.clusters
@pytest.mark.parametrize("root", [root for root in ROOTS if _scenario(root) in {*UNCLEAN, *CLEAN} and root.name != "before"], ids=_name)
def test_unclean_elections_are_those_that_were_caused(root):
    scenario = _scenario(root)
    found: dict[tuple[str, int], dict[int, int]] = {
        partition: uncleanly
        for partition, made in elections(root).items()
        if (uncleanly := {one.leader_epoch: one.leader_id for one in made if one.kind == "unclean"})
    }
    topic, leaders = UNCLEAN.get(scenario, ("", {}))
    assert {name for name, _ in found} == ({topic} if topic else set()), "internal topics are never elected uncleanly"
    assert found == {partition: leaders for partition in elections(root) if partition[0] == topic}


@pytest.mark.clusters
@pytest.mark.parametrize("observed", sorted(text.parent / "observed.json" for text in TEXTS), ids=_name)
def test_elections_are_in_the_order_of_what_was_done(observed):
    """Each step "T: leader is broker N" tells leader and epoch of every partition, and came after the election, as the next one did not."""
    steps, after = json.loads(observed.read_text(encoding="utf-8"))["timeline"], observed.parent / "after"
    for step in steps:
        named = re.fullmatch(r"(\S+): leader is broker (\d+)", step["what"])
        if not named:
            continue
        moment = datetime.strptime(step["t"], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC).timestamp() * 1000
        for partition, epoch in step["leader_epochs"].items():
            made = elections(after)[named[1], int(partition)]
            at = next(i for i, election in enumerate(made) if election.leader_epoch == epoch)
            assert made[at].leader_id == int(named[2])
            assert made[at].timestamp_ms <= moment
            assert at + 1 == len(made) or made[at + 1].timestamp_ms >= moment


@pytest.mark.clusters
@pytest.mark.parametrize("root", ROOTS, ids=_name)
def test_all_elections_have_one_order(root):
    """By the offset of the metadata log: no two share one, and the controller's clock agrees."""
    every = sorted((one for made in elections(root).values() for one in made), key=lambda one: one.metadata_offset)
    assert len({one.metadata_offset for one in every}) == len(every)
    assert [one.timestamp_ms for one in every] == sorted(one.timestamp_ms for one in every)
    for made in elections(root).values():
        assert [one.leader_epoch for one in made] == list(range(len(made))), "no epoch is left out"
        assert [one.metadata_offset for one in made] == sorted(one.metadata_offset for one in made)
        assert made[0].kind == "created"


# --- the audit with the log alone ---


@pytest.mark.clusters
@pytest.mark.parametrize("root", by_day(ROOTS), ids=_name)
def test_verdicts_are_the_same_with_the_log_as_with_the_file(root):
    columns = (
        "topic",
        "partition",
        "follower_id",
        "leader_id",
        "verdict",
        "reason",
        "truncation_offset",
        "restart_offset",
        "fetcher_fails",
    )

    def verdicts(*, metadata: bool) -> list[tuple[Any, ...]]:
        return [tuple(row.get(name) for name in columns) for row in in_process.audit(root, metadata=metadata)["replica_verdicts"]]

    with_the_log = verdicts(metadata=False)
    assert with_the_log == verdicts(metadata=True)
    assert with_the_log


@pytest.mark.clusters
@pytest.mark.parametrize("case", by_day(WITH_LOGS), ids=lambda case: _name(case[0]))
def test_cuts_are_what_the_brokers_did_with_the_log_alone(case):
    root, said = case
    points = in_process.audit(root, settings=EVERY_ROW, metadata=False)["truncation_points"]
    rows = {(row["topic"], row["partition"], row["follower_id"]): row for row in points if row["applies"]}
    wrong, compared = [], 0
    for replica in json.loads(said.read_text(encoding="utf-8"))["replicas"]:
        if _moves(replica):
            continue
        compared += 1
        row, right = rows[replica["topic"], replica["partition"], replica["replica"]], _said(replica)
        got = {key: row[key] for key in right if key != "rounds"}
        got["rounds"] = [part["truncate_to"] for part in row["rounds"] if part["truncate_to"] is not None]
        if got != right:
            wrong.append((row["topic"], row["partition"], row["follower_id"], got, right))
    assert not wrong
    assert compared


@pytest.mark.clusters
@pytest.mark.parametrize("root", by_day(ROOTS), ids=_name)
def test_leaders_are_read_not_inferred(root):
    for row in in_process.audit(root, metadata=False)["replica_verdicts"]:
        leads = next(one for one in copies(root)[-1].partitions if (one.topic, one.partition) == (row["topic"], row["partition"])).leader
        assert row["leader_source"] == ("metadata-log" if leads >= 0 else "inferred"), "where the log says that nobody leads"
        assert leads in (row["leader_id"], -1)


SINGLE = [case for case in WITH_LOGS if [*UNCLEAN.get(_scenario(case[0]), ("", {}))[1]] == [2]]


@pytest.mark.clusters
@pytest.mark.parametrize("case", SINGLE, ids=lambda case: _name(case[0]))
def test_what_an_unclean_election_gave_up_is_what_the_brokers_then_cut(case):
    """The old leader, killed and alone in holding it, truncated to where the new epoch starts."""
    root, said = case
    topic, leaders = UNCLEAN[_scenario(root)]
    replicas = {(one["topic"], one["partition"], one["replica"]): one for one in json.loads(said.read_text(encoding="utf-8"))["replicas"]}
    rows = [row for row in in_process.audit(root, metadata=False)["leader_epochs"] if row["election"] == "unclean"]
    assert rows
    for row in rows:
        assert (row["topic"], row["leader_epoch"], row["leader_id"]) == (topic, 2, leaders[2])
        (old,) = row["given_up_held_by"]
        replica = replicas[topic, row["partition"], old]
        assert [cut["offset"] for cut in replica["fetcher_truncations"]] == [row["start_offset"]]
        assert row["given_up_offsets"] == replica["log_end_offset_before"] - row["start_offset"]


# --- copies that tell different things, and what only looks like one ---


def _cluster(root: Path, *brokers: int, topic: str = "orders", topic_id: str = mf.TOPIC_ID) -> list[Path]:
    """Brokers that each hold one partition of a topic. Returns where each would have its metadata log."""
    for broker in brokers:
        kf.log_dir(root / f"broker-{broker}" / "data", f"{topic}-0", broker_id=broker)
        (root / f"broker-{broker}" / "data" / f"{topic}-0" / "partition.metadata").write_bytes(kf.partition_metadata(topic_id))
    return [root / f"broker-{broker}" / "data" / "__cluster_metadata-0" for broker in brokers]


def test_a_topic_that_was_removed_does_not_come_back_out_of_an_older_copy(tmp_path):
    """Broker 1 was down when the topic was deleted; nobody holds a replica of it any more."""
    made = [mf.topic("gone", mf.OTHER_ID), mf.partition(0, mf.OTHER_ID), mf.topic("orders"), mf.partition()]
    for i, folder in enumerate(_cluster(tmp_path, 1, 2, 3)):
        mf.log(folder, made, *([[mf.record("REMOVE_TOPIC_RECORD", topicId=mf.OTHER_ID)]] if i else []))
    tables = in_process.audit(tmp_path)
    assert {row["topic"] for row in tables["replica_verdicts"]} == {"orders"}
    assert {row["verdict"] for row in tables["replica_verdicts"]} == {"identical"}


def test_a_broker_believes_the_copy_that_reaches_farthest(tmp_path):
    """metadata.log.dir was moved; the old directory is still there."""
    current, _ = _cluster(tmp_path, 1, 2)
    moved = tmp_path / "broker-1" / "metadata" / "__cluster_metadata-0"
    created = [mf.topic("orders"), mf.partition(replicas=[1, 2])]
    for longer, shorter in ((current, moved), (moved, current)):
        mf.log(longer, created, [mf.change(leader=2, isr=[2])])
        mf.log(shorter, created)
        roles = {row["broker_id"]: row for row in in_process.audit(tmp_path)["replica_roles"]}
        assert (roles[1]["known_leader_id"], roles[1]["known_leader_epoch"]) == (2, 1)


def test_the_copy_of_a_controller_is_as_good_as_a_brokers(tmp_path):
    _cluster(tmp_path, 1, 2)
    mf.log(tmp_path / "broker-100" / "metadata" / "__cluster_metadata-0", [mf.topic("orders"), mf.partition(replicas=[1, 2], leader=2)])
    tables = in_process.audit(tmp_path)
    assert [(row["leader_id"], row["leader_source"], row["verdict"]) for row in tables["replica_verdicts"]] == [
        (2, "metadata-log", "identical")
    ]
    assert not tables["problems"]


def test_text_of_the_metadata_log_is_no_copy_that_could_not_be_read(tmp_path):
    """kafka-dump-log prints that log, too. Nobody promised to understand it, but nothing is wrong with it."""
    _cluster(tmp_path, 1, 2)
    batch = (
        "baseOffset: 0 lastOffset: 0 count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 "
        "partitionLeaderEpoch: 1 isTransactional: false isControl: true deleteHorizonMs: OptionalLong.empty position: 0 "
        "CreateTime: 1700000000000 size: 91 magic: 2 compresscodec: none crc: 1234 isvalid: true"
    )
    name = "/var/lib/kafka/data/__cluster_metadata-0/00000000000000000000.log"
    (tmp_path / "broker-1" / "metadata.txt").write_text(f"Dumping {name}\nLog starting offset: 0\n{batch}\n")
    tables = in_process.audit(tmp_path)
    assert "cannot-read" not in [problem["code"] for problem in [*tables["problems"], *tables["input_errors"]]]
    assert [row["verdict"] for row in tables["replica_verdicts"]] == ["identical"]


def test_the_real_scenarios_are_there_where_the_folder_is():
    """Guards the parametrisation above: an empty list of cases would pass."""
    assert not {*UNCLEAN} & {*CLEAN}
    assert len([root for root in ROOTS if root.parent == SAMPLE]) >= 6
    if SHARED.is_dir():
        assert len(TEXTS) >= 24
        assert {text.parent.name for text in TEXTS} == {*UNCLEAN, *CLEAN, *OTHERWISE}
        assert len(ROOTS) >= 6 + 48
