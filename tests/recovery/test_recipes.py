"""Plans of inputs that once made a plan delete, start or elect what it must not: by hand on real clusters."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from replica_audit import cli
from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.past.recovery import recovery_facts
from replica_audit.past.run import PastRun
from replica_audit.recovery.document import render_plan
from replica_audit.recovery.plan import plan_of
from replica_audit.recovery.steps import (
    AskForInput,
    Copy,
    CorrectFile,
    Elect,
    EndTransaction,
    GroupPolicy,
    KeepCopy,
    NameTopic,
    Plan,
    ResetGroup,
    SetAside,
    Stage,
    StartBroker,
    StopBroker,
    TakeOut,
)
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.starts import BrokerStart, ReplicaStart
from replica_audit.rows.what_if import WhatIfLeader

DATA = Path(__file__).resolve().parents[1] / "data"
LOSS = DATA / "sample" / "committed-loss"
CLUSTERS = Path(__file__).resolve().parents[3] / "shared" / "clusters"
needs_clusters = pytest.mark.skipif(not CLUSTERS.is_dir(), reason="clusters are not here")


def planned(root: Path) -> Plan:
    run = PastRun(triage([str(root)], Settings(), tell=lambda event: None, run_id="now").tables, "now")
    (facts,) = recovery_facts(run)
    return plan_of(facts, GroupPolicy.RE_READ)


def copied(source: Path, target: Path) -> Path:
    root = shutil.copytree(source, target)
    for path in (root, *root.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    for path in root.glob("broker-*/server.log"):
        path.unlink()  # what the brokers did since
    return root


def outcomes(root: Path, **settings: Any) -> tuple[dict[int, str], dict[tuple[str, int, int], set[str]], Plan]:
    """The outcome of each broker's start, the reasons of each replica that is not safe, and the plan."""
    tables = triage([str(root)], Settings(**settings), tell=lambda event: None, run_id="now").tables
    of_brokers = {one.broker_id: one.outcome for one in tables.rows("broker_starts", BrokerStart)}
    rows = [one for one in tables.rows("replica_starts", ReplicaStart) if one.because]
    (facts,) = recovery_facts(PastRun(tables, "now"))
    return (
        of_brokers,
        {(one.topic, one.partition, one.broker_id): set(map(str, one.because)) for one in rows},
        plan_of(facts, GroupPolicy.RE_READ),
    )


def _partitions(root: Path, topic: str) -> list[dict[str, Any]]:
    document = json.loads((root / "cluster-metadata.json").read_text())
    return next(one["partitions"] for one in document["topics"] if one["topic"] == topic)


def flipped(path: Path, at: int) -> None:
    held = bytearray(path.read_bytes())
    held[at] ^= 0xFF
    path.write_bytes(bytes(held))


def stages(plan: Plan) -> list[Stage]:
    return [step.stage for step in plan.steps]


def of(plan: Plan, kind: type) -> list[object]:
    return [action for step in plan.steps for action in step.actions if isinstance(action, kind)]


def _twice(root: Path) -> None:
    shutil.copytree(root / "broker-1", root / "broker-1.bak")


def _no_segments(root: Path) -> None:
    for path in (root / "broker-1").rglob("*-[0-9]/*.log"):
        path.unlink()


def _no_metadata(root: Path) -> None:
    (root / "cluster-metadata.json").unlink()
    for path in root.glob("broker-*/*/__cluster_metadata-0"):
        shutil.rmtree(path)


def _nobodys(root: Path) -> None:
    for path in (root / "broker-1").rglob("meta.properties"):
        path.unlink()


def _garbled(root: Path) -> None:
    for path in (root / "broker-1").rglob("replication-offset-checkpoint"):
        path.write_text("none\n")


@pytest.mark.parametrize(
    ("spoil", "wanted"),
    [
        pytest.param(_twice, "broker-1.bak", id="a folder copied twice"),
        pytest.param(_no_segments, "copied again", id="no segments"),
        pytest.param(_no_metadata, "cluster-metadata.json", id="the leader is a guess"),
        pytest.param(_nobodys, "meta.properties", id="whose folder it is nobody knows"),
        pytest.param(_garbled, "replication-offset-checkpoint", id="a checkpoint of offsets is garbled"),
    ],
)
def test_what_only_the_copy_shows_is_asked_for_and_nothing_is_done(tmp_path: Path, spoil: object, wanted: str) -> None:
    root = copied(LOSS, tmp_path / "cluster")
    assert StartBroker(1) in of(planned(root), StartBroker)
    assert callable(spoil)
    spoil(root)
    plan = planned(root)
    assert Stage.ASK in stages(plan)
    asked = next(step for step in plan.steps if step.stage is Stage.ASK)
    assert wanted in " ".join(asked.reasons)
    assert not of(plan, StartBroker) and not of(plan, TakeOut) and not of(plan, Elect)


@needs_clusters
@pytest.mark.clusters
def test_a_crashed_broker_that_leads_and_truncates_is_started_once_after_the_copies() -> None:
    plan = planned(CLUSTERS / "jbod-and-leftovers" / "before")
    assert stages(plan) == [Stage.COPY, Stage.START, Stage.START]
    assert [action.broker for action in of(plan, StartBroker) if isinstance(action, StartBroker)] == [2, 3]
    assert {action.is_clean for action in of(plan, Elect) if isinstance(action, Elect)} == {False}, "it crashed: the ELR does not count"
    assert "truncates 15 records, 15 of them committed, copied in step 1" in plan.steps[1].title


@needs_clusters
@pytest.mark.clusters
def test_a_diverged_replica_of_a_stopped_broker_is_copied_and_moved_away_before_the_start() -> None:
    plan = planned(CLUSTERS / "kafka-1.1.1-two-rounds" / "before")
    assert stages(plan) == [Stage.COPY, Stage.START]
    assert of(plan, SetAside) == [SetAside(("ledger2", number, 1)) for number in range(3)]
    text = render_plan(plan)
    assert 'kafka-topics.sh --zookeeper "$ZOOKEEPER" --describe   # ledger2-0, ledger2-1, ledger2-2: `Leader` is not 1' in text
    assert "kafka-reassign-partitions.sh" not in text
    assert "kafka-leader-election.sh --" not in text


@needs_clusters
@pytest.mark.clusters
def test_what_a_trimmed_leader_makes_a_follower_remove_is_said() -> None:
    plan = planned(CLUSTERS / "leader-trimmed" / "before")
    said = " ".join(reason for step in plan.steps for reason in step.reasons)
    assert "`audit-4`: broker 2 empties its log and starts at 30, which removes 12 records." in said
    assert stages(plan) == [Stage.COPY, Stage.START]
    after = planned(CLUSTERS / "leader-trimmed" / "after")
    assert TakeOut(("audit", 1, 2)) in of(after, TakeOut), "its fetcher fails forever"


@needs_clusters
@pytest.mark.clusters
def test_a_torn_end_after_a_clean_stop_is_recovered_before_the_start(tmp_path: Path) -> None:
    root = copied(CLUSTERS / "clean-in-sync" / "stopped", tmp_path / "cluster")
    segment = max((root / "broker-2" / "data-0" / "c-none-0").glob("*.log"))
    held = segment.read_bytes()
    segment.write_bytes(held + held[: 12 + 20])
    plan = planned(root)
    assert CorrectFile(("c-none", 0, 2)) in of(plan, CorrectFile)
    assert any("rm .kafka_cleanshutdown" in line for step in plan.steps for line in step.commands)


@pytest.mark.parametrize("is_other_topic", [False, True])
def test_a_log_without_topic_id_gets_that_of_a_replica_with_the_same_records(tmp_path: Path, is_other_topic: bool) -> None:
    root = copied(LOSS, tmp_path / "cluster")
    own, other = (root / f"broker-{broker}" / "data-0" / "billing-0" for broker in (1, 2))
    (own / "partition.metadata").unlink()
    if is_other_topic:  # nothing shows that these records are of the topic that has the id
        shutil.rmtree(own)
        shutil.copytree(own.with_name("billing-1"), own)
        (own / "partition.metadata").unlink()
        (own / "leader-epoch-checkpoint").write_text("0\n0\n")
        for path in own.glob("*.log"):
            path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 3 * 3])
    _brokers, because, plan = outcomes(root)
    assert {"becomes-stray", "may-become-stray"} & because["billing", 0, 1]
    named = NameTopic(("billing", 0, 1)) in of(plan, NameTopic)
    assert named is not is_other_topic
    assert (StartBroker(1) in of(plan, StartBroker)) is named
    written = [file.content for file in plan.files if file.name.endswith("partition.metadata")]
    assert written == ([(other / "partition.metadata").read_text()] if named else [])


@pytest.mark.parametrize("anybody_has_one", [True, False])
def test_a_leader_that_runs_without_its_topic_id_is_not_restarted_without_the_file(tmp_path: Path, anybody_has_one: bool) -> None:
    root = copied(LOSS.with_name("clean-in-sync"), tmp_path / "cluster")
    told = json.loads((root / "cluster-metadata.json").read_text())
    topic, leader = next((one["topic"], one["partitions"][0]["leader"]) for one in told["topics"] if not one["topic"].startswith("__"))
    for path in root.glob(f"broker-{leader if anybody_has_one else '*'}/data-0/{topic}-0/partition.metadata"):
        path.unlink()
    _brokers, because, plan = outcomes(root)
    assert because[topic, 0, leader] == {"becomes-stray"}
    assert (NameTopic((topic, 0, leader)) in of(plan, NameTopic)) is anybody_has_one
    assert ({leader} <= {one.broker for one in of(plan, StopBroker) if isinstance(one, StopBroker)}) is anybody_has_one
    refused = [one for one in plan.refusals if one.what == f"restart broker {leader} because of"]
    assert [one.of for one in refused] == ([] if anybody_has_one else [((topic, 0),)])
    assert not any("is stopped, and stays so" in one.what for one in plan.presumptions), "nobody is asked to stop it before the copy"


def test_a_log_without_topic_id_of_a_partition_without_a_leader_is_judged_once_it_has_one(tmp_path: Path) -> None:
    root = copied(LOSS.with_name("clean-in-sync"), tmp_path / "cluster")
    lacks = next(root.glob("broker-1/data-0/[a-z]*-0/partition.metadata"))
    topic = lacks.parent.name.removesuffix("-0")
    lacks.unlink()
    for path in root.rglob("__cluster_metadata-0"):
        shutil.rmtree(path)
    told = json.loads((root / "cluster-metadata.json").read_text())
    told["brokers"] = [{"id": broker, "state": "down"} for broker in (1, 2, 3)]
    for one in (one for of in told["topics"] if of["topic"] == topic for one in of["partitions"]):
        one |= {"leader": -1, "isr": [1], "elr": []}
    (root / "cluster-metadata.json").write_text(json.dumps(told))
    plan = planned(root)
    assert of(plan, NameTopic) == [NameTopic((topic, 0, 1))]
    (asked,) = [one for one in of(plan, AskForInput) if isinstance(one, AskForInput) and (topic, 0, 1) in one.replicas]
    assert "after the step that writes its partition.metadata" in asked.wanted
    assert StartBroker(1) not in of(plan, StartBroker), "its log is not set aside meanwhile"


@pytest.mark.parametrize("is_old", [False, True])
def test_a_server_log_of_before_the_records_silences_nothing(tmp_path: Path, is_old: bool) -> None:
    """The brokers did truncate, and their logs tell it; the same lines of two years before the records tell nothing of them."""
    root = copied(LOSS, tmp_path / "cluster")
    for path in LOSS.glob("broker-*/server.log"):
        text = path.read_text(encoding="utf-8")
        told = re.sub(r"^\[20\d\d-", "[2019-", text, flags=re.MULTILINE) if is_old else text
        (root / path.relative_to(LOSS)).write_text(told, encoding="utf-8")
    of_brokers, because, plan = outcomes(root)
    assert of_brokers[1] == ("copy-first" if is_old else "safe")
    assert because == ({("billing", number, 1): {"truncates"} for number in range(3)} if is_old else {})
    assert of(plan, StartBroker) == ([StartBroker(1)] if is_old else [])
    kind = Copy if is_old else KeepCopy
    assert of(plan, kind) == [kind(tuple(("billing", number, 1) for number in range(3)))]
    assert plan.steps[0].title.startswith("Copy" if is_old else "Save the records that only the audited copy of broker 1 holds")
    assert cli.main(["triage", "--input", str(root)]) == 1, "committed records are gone, or will be"


def test_text_without_metadata_is_a_guess_that_nothing_is_done_on(tmp_path: Path) -> None:
    root = copied(DATA / "dump-log" / "multi-round", tmp_path / "cluster")
    for path in root.glob("broker-1/*/*.txt"):  # broker 2 lags
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        (root / "broker-2" / path.relative_to(root / "broker-1")).write_text("".join(lines[:-2]), encoding="utf-8")
    of_brokers, because, plan = outcomes(root)
    assert of_brokers == {1: "safe", 2: "unknown"}
    assert because == {("ledger", number, 2): {"leader-guessed"} for number in range(2)}
    assert not of(plan, StartBroker)
    assert all("cluster-metadata.json" in one.wanted for one in of(plan, AskForInput) if isinstance(one, AskForInput))
    assert cli.main(["triage", "--input", str(root)]) == 3


@pytest.mark.parametrize("name", ["kafka-1.1.1-kip279-scenario-1-all", "leader-trimmed", "multi-round"])
def test_what_a_guessed_leader_would_remove_is_copied_and_no_broker_started(name: str) -> None:
    of_brokers, because, plan = outcomes(DATA / "dump-log" / name)
    assert of_brokers[2] == "unknown"
    assert all(reasons & {"leader-guessed", "not-compared"} for reasons in because.values())
    assert stages(plan) == [Stage.COPY, Stage.ASK]


def test_nothing_is_done_in_a_partition_whose_leader_was_copied_short(tmp_path: Path) -> None:
    root = copied(LOSS, tmp_path / "cluster")
    (segment,) = (root / "broker-2").rglob("billing-0/*.log")
    segment.write_bytes(segment.read_bytes()[:133])  # its first batch
    of_brokers, because, plan = outcomes(root)
    assert of_brokers[1] == "unknown"
    assert because["billing", 0, 1] == {"not-compared"}
    asked = [one for one in of(plan, AskForInput) if isinstance(one, AskForInput)]
    (one,) = asked
    assert one.wanted.startswith("the directory of `billing-0` on broker 2, copied again; do not stop it for that")
    assert not of(plan, StartBroker) and not of(plan, Elect) and not of(plan, TakeOut)
    reset = {one.key for one in of(plan, ResetGroup) if isinstance(one, ResetGroup)}
    assert reset == {("billing", 1), ("billing", 2)}, "where the leader's log ends in billing-0 is not known"
    assert any(one.what.startswith("reset group") and ("billing", 0) in one.of for one in plan.refusals)
    assert "Steps below do without it" in render_plan(plan)


def test_nobody_is_sent_to_steps_that_are_not_there(tmp_path: Path) -> None:
    root = copied(LOSS, tmp_path / "cluster")
    shutil.rmtree(root / "broker-2")
    plan = planned(root)
    assert max(stages(plan)) == Stage.ASK
    assert "Steps below" not in render_plan(plan)


def test_a_copy_below_its_own_high_watermark_is_asked_for(tmp_path: Path) -> None:
    root = copied(DATA / "offline" / "nobody-leads", tmp_path / "cluster")
    (segment,) = (root / "broker-2").rglob("jb-1/00000000000000000024.log")
    segment.write_bytes(b"")
    of_brokers, because, plan = outcomes(root)
    assert of_brokers[2] == "unknown"
    assert "short-copy" in because["jb", 1, 2]
    assert ("jb", 1, 2) in {replica for one in of(plan, AskForInput) if isinstance(one, AskForInput) for replica in one.replicas}
    assert StartBroker(2) not in of(plan, StartBroker)
    assert cli.main(["triage", "--input", str(root)]) in (1, 3)


@pytest.mark.parametrize(("gone", "started"), [([1], [2, 3]), ([1, 2], [3])])
def test_where_anybody_may_lead_the_least_loss_without_brokers_that_are_gone_starts_first(
    tmp_path: Path, gone: list[int], started: list[int]
) -> None:
    """Everyone is stopped, and unclean elections are allowed: whoever starts first leads."""
    root = copied(DATA / "sample" / "three-way", tmp_path / "cluster")
    for log in root.glob("broker-*/data-0/__cluster_metadata-0"):
        shutil.rmtree(log)
    path = root / "cluster-metadata.json"
    metadata = json.loads(path.read_text(encoding="utf-8"))
    for broker in metadata["brokers"]:
        broker["state"] = "down"
    for one in (one for topic in metadata["topics"] for one in topic["partitions"]):
        one.update(leader=-1, isr=[1], elr=[])
    path.write_text(json.dumps(metadata), encoding="utf-8")
    run = PastRun(triage([str(root)], Settings(), tell=lambda event: None, run_id="now").tables, "now")
    (facts,) = recovery_facts(run, gone=gone)
    plan = plan_of(facts, GroupPolicy.RE_READ)
    assert [one for one in of(plan, StartBroker) if isinstance(one, StartBroker) and not one.empty] == list(map(StartBroker, started))


def test_nobody_is_elected_for_a_log_that_its_broker_sets_aside(tmp_path: Path) -> None:
    """It would lead with an empty log, and the others would truncate theirs."""
    root = copied(DATA / "offline" / "nobody-leads", tmp_path / "cluster")
    assert "election.enable is true, so the controller elects whichever replica starts first" in render_plan(outcomes(root)[2])
    done = triage((str(root),), Settings(), tell=lambda _event: None)
    assert {one.candidate_id for one in done.tables.rows("what_if_leaders", WhatIfLeader) if one.rank == 1} == {2}
    (root / "broker-2" / "data-0" / "jb-1" / "partition.metadata").unlink()
    done = triage((str(root),), Settings(), tell=lambda _event: None)
    ranks = {(one.partition, one.candidate_id): one.rank for one in done.tables.rows("what_if_leaders", WhatIfLeader)}
    assert ranks == {(1, 3): 1, (1, 2): None, (4, 2): 1, (4, 3): 2}
    of_brokers, _because, plan = outcomes(root)
    assert of_brokers[2] == "repair-first"
    assert StartBroker(2) not in of(plan, StartBroker)


def test_a_byte_that_changed_before_a_crash_is_truncated_by_recovery_and_all_of_it_counts(tmp_path: Path) -> None:
    """It crashed: recovery ends the log at the batch, offset 16, and the leader's cut is at 10. Of 10..29 nobody else holds any."""
    root = copied(LOSS, tmp_path / "cluster")
    (segment,) = (root / "broker-1").rglob("billing-0/*.log")
    flipped(segment, 710)
    of_brokers, because, plan = outcomes(root)
    assert (of_brokers[1], because["billing", 0, 1]) == ("copy-first", {"truncates", "recovery-truncates"})
    assert stages(plan)[:2] == [Stage.COPY, Stage.START]
    assert "truncates at least 22 records" in plan.steps[1].title, "of billing-0 nobody knows how many"
    assert not of(plan, TakeOut), "it follows as soon as it has recovered"


def test_what_only_recovery_takes_of_a_follower_is_copied_and_not_rebuilt(tmp_path: Path) -> None:
    """And the damage takes away its own evidence only: what hangs in the other partitions is ended."""
    root = copied(DATA / "transactions" / "before", tmp_path / "cluster")
    whole = {one for one in of(planned(root), EndTransaction) if isinstance(one, EndTransaction)}
    segment = root / "broker-1" / "data-0" / "transfers-0" / "00000000000000000000.log"
    flipped(segment, segment.stat().st_size // 3)
    of_brokers, because, plan = outcomes(root)
    assert (of_brokers[1], because["transfers", 0, 1]) == ("copy-first", {"recovery-truncates"})
    assert ("transfers", 0, 1) in {replica for one in of(plan, Copy) if isinstance(one, Copy) for replica in one.replicas}
    assert StartBroker(1) in of(plan, StartBroker)
    assert not of(plan, TakeOut)
    ended = {one for one in of(plan, EndTransaction) if isinstance(one, EndTransaction)}
    assert ended == {one for one in whole if one.key != ("transfers", 0)}, "only the follower's log proved that these hang"
    assert sorted(one.saved_from or 0 for one in ended) == [0, 0, 2, 2], "two of them once their records were copied"


def test_a_log_that_recovery_empties_is_copied_and_started(tmp_path: Path) -> None:
    """Its first batch is damaged: the copy is whole, and another copy would say the same."""
    root = copied(DATA / "transactions" / "before", tmp_path / "cluster")
    flipped(root / "broker-1" / "data-0" / "transfers-0" / "00000000000000000000.log", 70)
    of_brokers, because, plan = outcomes(root)
    assert (of_brokers[1], because["transfers", 0, 1]) == ("copy-first", {"recovery-truncates"})
    assert not of(plan, AskForInput)
    assert StartBroker(1) in of(plan, StartBroker)


@pytest.mark.parametrize("place", ["data-0/backup", "."])
def test_a_replica_that_only_the_copy_has_twice_is_asked_for_and_not_rebuilt(tmp_path: Path, place: str) -> None:
    """Its broker runs: with two it would have refused to start."""
    root = copied(DATA / "sample" / "clean-in-sync", tmp_path / "cluster")
    replica = next(
        path.parent for path in sorted(root.glob("broker-2/data-0/*-0/partition.metadata")) if not path.parts[-2].startswith("_")
    )
    shutil.copytree(replica, root / "broker-2" / place / replica.name)
    of_brokers, because, plan = outcomes(root)
    assert of_brokers == {1: "safe", 2: "unknown", 3: "safe"}
    assert set().union(*because.values()) == {"not-read"}
    assert {type(action) for step in plan.steps for action in step.actions} == {Copy, AskForInput}


@pytest.mark.parametrize("content", [b"<html>503</html>" * 99, bytes(999)])
def test_a_running_replica_whose_copy_holds_no_batch_is_asked_for(tmp_path: Path, content: bytes) -> None:
    root = copied(DATA / "sample" / "clean-in-sync", tmp_path / "cluster")
    leads = {one["partition"]: one["leader"] for one in _partitions(root, "c-none")}
    number = next(
        number for number, leader in leads.items() if leader != 2 and (root / "broker-2" / "data-0" / f"c-none-{number}").is_dir()
    )
    (segment,) = (root / "broker-2" / "data-0" / f"c-none-{number}").glob("*.log")
    segment.write_bytes(content)
    of_brokers, because, plan = outcomes(root)
    assert (of_brokers[2], because) == ("repair-first", {("c-none", number, 2): {"does-not-load"}})
    assert {type(action) for step in plan.steps for action in step.actions} == {Copy, AskForInput}


def test_a_member_of_the_isr_that_was_copied_before_it_was_cut_is_not_rebuilt(tmp_path: Path) -> None:
    """Its broker was started after the copy, and the metadata is of after that: it has been cut, and is in sync again."""
    root = copied(LOSS, tmp_path / "cluster")
    for metadata_log in root.glob("broker-*/data-*/__cluster_metadata-0"):
        shutil.rmtree(metadata_log)
    document = json.loads((root / "cluster-metadata.json").read_text())
    for broker in document["brokers"]:
        broker["state"] = "up"
    for one in (one for topic in document["topics"] for one in topic["partitions"]):
        one["isr"] = one["replicas"]
    (root / "cluster-metadata.json").write_text(json.dumps(document))
    tables = triage([str(root)], Settings(), tell=lambda event: None, run_id="now").tables
    found = {str(one.verdict) for one in tables.rows("replica_verdicts", ReplicaVerdict)}
    assert ("committed_loss" in found, "log_matching_violation" in found) == (True, False), "what it lost is lost"
    assert not of(planned(root), TakeOut)


def test_half_a_batch_after_a_clean_stop_is_recovered_before_its_broker_follows(tmp_path: Path) -> None:
    root = copied(DATA / "offline" / "nobody-leads", tmp_path / "cluster")
    (root / "broker-3" / "data-0" / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}', encoding="utf-8")
    (segment,) = (root / "broker-3").rglob("jb-1/00000000000000000024.log")
    held = segment.read_bytes()
    segment.write_bytes(held + held[:40])
    of_brokers, because, plan = outcomes(root)
    assert (of_brokers[3], because["jb", 1, 3]) == ("repair-first", {"torn-end"})
    assert stages(plan) == [Stage.START, Stage.START]
    assert plan.steps[1].actions[:2] == (CorrectFile(("jb", 1, 3)), StartBroker(3))
    assert "newest .log of jb-1 on broker 3: it does not print `invalid bytes`" in plan.steps[1].checks[0].command
    assert cli.main(["triage", "--input", str(root)]) == 1


def test_a_log_that_its_broker_would_set_aside_is_copied_and_its_broker_not_started(tmp_path: Path) -> None:
    root = copied(LOSS, tmp_path / "cluster")
    for path in root.rglob("billing-0/partition.metadata"):  # nobody says which id it has
        path.unlink()
    of_brokers, because, plan = outcomes(root)
    assert (of_brokers[1], because["billing", 0, 1] >= {"becomes-stray"}) == ("repair-first", True)
    assert ("billing", 0, 1) in {replica for one in of(plan, Copy) if isinstance(one, Copy) for replica in one.replicas}
    assert not of(plan, StartBroker)
    assert any(one.what == "start broker 1 because of" and one.of == (("billing", 0),) for one in plan.refusals)


@needs_clusters
@pytest.mark.clusters
def test_keys_are_not_compared_by_offsets(tmp_path: Path) -> None:
    root = copied(CLUSTERS / "compacted-key-loss" / "after", tmp_path / "cluster")
    of_brokers, because, plan = outcomes(root, compare="epochs")
    assert of_brokers[1] == "unknown"
    assert because["settings", 0, 1] == {"not-compared"}
    assert not of(plan, TakeOut), "a compacted partition is rebuilt by its records only"
    wanted = [one.wanted for one in of(plan, AskForInput) if isinstance(one, AskForInput)]
    assert any("--compare records" in one for one in wanted)
    _brokers, _because, compared = outcomes(root)
    assert {TakeOut(("settings", 0, 1)), TakeOut(("settings", 1, 1))} == set(of(compared, TakeOut))


@needs_clusters
@pytest.mark.clusters
def test_a_replica_that_holds_what_its_leader_lacks_is_not_deleted(tmp_path: Path) -> None:
    """A batch is missing in the middle of the leader's log; both followers have it."""
    root = copied(DATA / "sample" / "clean-in-sync", tmp_path / "cluster")
    (segment,) = (root / "broker-1").rglob("epochs-0/*.log")
    held = segment.read_bytes()
    sizes: list[int] = []
    while sum(sizes) < len(held):
        sizes.append(12 + int.from_bytes(held[sum(sizes) + 8 : sum(sizes) + 12]))
    at = len(sizes) // 2
    segment.write_bytes(held[: sum(sizes[:at])] + held[sum(sizes[: at + 1]) :])
    _of_brokers, because, plan = outcomes(root)
    assert because == {("epochs", 0, broker): {"stays-diverged"} for broker in (2, 3)}
    assert not of(plan, TakeOut) and not of(plan, SetAside)
    (kept,) = [one for one in of(plan, Copy) if isinstance(one, Copy)]
    assert set(kept.replicas) == {("epochs", 0, broker) for broker in (1, 2, 3)}
    assert sum(one.what == "rebuild" and "leader 1 that misses offsets" in one.why for one in plan.refusals) == 2


def test_what_a_truncation_leaves_short_of_keys_is_rebuilt() -> None:
    """The brokers did lose these keys: `after`, they are not on broker 1."""
    _brokers, because, plan = outcomes(CLUSTERS / "compacted-key-loss" / "before")
    assert because == {("settings", 0, 1): {"truncates"}, ("settings", 1, 1): {"truncates"}}
    assert stages(plan) == [Stage.COPY, Stage.START]
    assert of(plan, SetAside) == [SetAside(("settings", 0, 1)), SetAside(("settings", 1, 1))]
    _brokers, because, plan = outcomes(CLUSTERS / "compacted-divergence" / "before")
    assert stages(plan) == [Stage.COPY, Stage.START], "compared: it lacks none"
