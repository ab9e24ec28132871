"""Plans of inputs that once made a plan delete, start or elect what it must not: by hand on real clusters."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.past.recovery import recovery_facts
from replica_audit.past.run import PastRun
from replica_audit.recovery.document import render_plan
from replica_audit.recovery.plan import plan_of
from replica_audit.recovery.steps import CorrectFile, Elect, GroupPolicy, Plan, Stage, StartBroker, TakeOut

LOSS = Path(__file__).resolve().parents[1] / "data" / "sample" / "committed-loss"
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
def test_a_diverged_replica_of_a_stopped_broker_is_copied_started_and_rebuilt_by_the_commands_of_its_version() -> None:
    plan = planned(CLUSTERS / "kafka-1.1.1-two-rounds" / "before")
    assert stages(plan) == [Stage.COPY, Stage.START, Stage.REBUILD, Stage.REBUILD]
    text = render_plan(plan)
    assert "kafka-reassign-partitions.sh --zookeeper" in text
    assert "kafka-reassign-partitions.sh --bootstrap-server" not in text
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
