"""A plan from facts: what is done in which order, what is refused, and that no name obeys in any file."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.commands.outputs import check_folder, write_folder
from replica_audit.errors import OutputError, UsageError
from replica_audit.recovery import plan as recovery_plan
from replica_audit.recovery.commands import rows_csv, table_csv
from replica_audit.recovery.document import render_plan
from replica_audit.recovery.facts import RecoveryFacts
from replica_audit.recovery.names import file_name
from replica_audit.recovery.steps import GroupPolicy, Plan, SetAside, Stage, StartBroker
from replica_audit.report.facts.due_facts import due_of
from replica_audit.report.sections.decisions import decisions
from replica_audit.rows.codes import Cause
from replica_audit.rows.findings import ElectionChoice, RunFinding
from replica_audit.rows.history import ConsumerImpact
from replica_audit.rows.pairs import DifferingKeyCount, RecordsByTransaction, ReplicaVerdict
from replica_audit.rows.records import OpenTransactionRow
from replica_audit.rows.replicas import CorrectedLine, FollowerOnceCorrected, ReplicaLog, ReplicaRole
from replica_audit.rows.starts import BrokerStart
from replica_audit.rows.what_if import FollowerCut, WhatIfLeader
from tests.live.plan_steps import filled_in
from tests.support.rows import sparse

RE_READ = GroupPolicy.RE_READ


def candidate(broker: int, **fields: Any) -> ElectionChoice:
    ordinary: dict[str, Any] = {
        "candidate_id": broker,
        "rank": 1,
        "in_isr": False,
        "in_elr": False,
        "election": "unclean",
        "broker_up": False,
        "stopped_cleanly": True,
        "log_end_offset": 10,
        "lost_offsets": 0,
        "lost_records": 0,
        "lost_committed": 0,
        "followers_failing": 0,
        "followers_diverged": 0,
        "unread_replicas": 0,
        "reason": "nothing is lost",
    }
    return sparse(ElectionChoice, **ordinary | fields)


def offline(topic: str, *candidates: ElectionChoice, partition: int = 0, **fields: Any) -> RunFinding:
    ordinary: dict[str, Any] = {
        "cluster_id": "c",
        "severity": "error",
        "leader_epoch": 4,
        "isr": (1,),
        "elr": (),
        "last_leader_id": 1,
        "leaderless_since": None,
        "cluster_stopped": False,
        "summary": "",
        "status": "new",
    }
    return sparse(RunFinding, topic=topic, partition=partition, candidates=candidates, **ordinary | fields)


def roles(topic: str, *brokers: int, leader: int = -1, isr: tuple[int, ...] = (), **fields: Any) -> tuple[ReplicaRole, ...]:
    return tuple(
        sparse(
            ReplicaRole,
            topic=topic,
            partition=0,
            broker_id=broker,
            leader_id=leader,
            standing="down" if leader < 0 else "follower",
            in_isr=broker in isr,
            position=place,
            **fields,
        )
        for place, broker in enumerate(brokers)
    )


def log(topic: str, broker: int, **fields: Any) -> ReplicaLog:
    ordinary: dict[str, Any] = {
        "partition": 0,
        "log_dir": "/var/lib/kafka/data-0",
        "directory": f"{topic}-0",
        "state": "current",
        "log_start_offset": 0,
        "log_end_offset": 100,
        "unreadable_reason": None,
    }
    return sparse(ReplicaLog, topic=topic, broker_id=broker, **ordinary | fields)


def verdict(topic: str, follower: int, kind: str, **fields: Any) -> ReplicaVerdict:
    ordinary: dict[str, Any] = {
        "partition": 0,
        "leader_id": 1,
        "leader_source": "metadata-log",
        "severity": "error",
        "truncation_offset": None,
        "restart_offset": None,
        "removed_records": None,
        "removed_committed": None,
        "already_truncated": False,
        "wrong_lines_broker_id": None,
        "cause": None,
    }
    return sparse(ReplicaVerdict, topic=topic, follower_id=follower, verdict=kind, **ordinary | fields)


def group(name: str, topic: str, committed: int, reset: int | None, gone: int | None = None) -> ConsumerImpact:
    return sparse(
        ConsumerImpact,
        group_id=name,
        topic=topic,
        partition=0,
        committed_offset=committed,
        validation_result="truncated",
        reset_offset=reset,
        records_gone=gone,
        records_reread=2,
        records_missed=3,
    )


def transaction(topic: str, **fields: Any) -> OpenTransactionRow:
    ordinary: dict[str, Any] = {
        "partition": 0,
        "leader_id": 1,
        "leader_source": "metadata-log",
        "producer_id": 7,
        "producer_epoch": 0,
        "first_offset": 40,
        "last_offset": 44,
        "began_at": None,
        "last_written_at": None,
        "elsewhere": (),
        "timeout_ms": None,
        "waiting_groups": (),
        "last_stable_offset": 40,
        "transactional_id": "tx",
        "coordinator_state": "Ongoing",
        "coordinator_epoch": 0,
        "hangs_because": "marker-removed",
    }
    return sparse(OpenTransactionRow, topic=topic, **ordinary | fields)


def facts(**fields: Any) -> RecoveryFacts:
    return RecoveryFacts(run_id="run", cluster_id="c", **fields)


def plan_of(found: RecoveryFacts, policy: GroupPolicy) -> Plan:
    return recovery_plan.plan_of(found, policy)


def files(plan: Plan) -> dict[str, str]:
    return {file.name: file.content for file in plan.files}


def test_a_clean_cluster_has_an_empty_plan_that_says_so() -> None:
    plan = plan_of(facts(), RE_READ)
    assert (plan.steps, plan.refusals, plan.presumptions) == ((), (), ())
    assert "the plan is empty" in render_plan(plan)
    assert "Afterwards" not in render_plan(plan)
    assert "Step 1" not in render_plan(plan)


def test_an_unclean_election_names_its_rivals_its_price_and_the_file() -> None:
    choices = (candidate(2, rank=1, lost_records=3, lost_offsets=3), candidate(1, rank=2, lost_records=9, lost_offsets=9, lost_committed=4))
    found = facts(offline=(offline("t", *choices),), roles=roles("t", 1, 2, 3), logs=(log("t", 1), log("t", 2), log("t", 3)))
    plan = plan_of(found, RE_READ)
    assert [step.stage for step in plan.steps] == [Stage.COPY, Stage.START, Stage.START, Stage.PREFERRED]
    elect = plan.steps[1]
    assert json.loads(files(plan)["elect-unclean.json"]) == {"partitions": [{"topic": "t", "partition": 0}]}
    assert "--election-type UNCLEAN --path-to-json-file elect-unclean.json" in elect.commands[-1]
    assert "broker 1 must not run yet" in elect.commands[0], "it is before broker 2 in the assignment, broker 3 is not"
    assert elect.title == "Start broker 2: leads 1 partition (by an unclean election); loses 3 records, not proven to have been committed"
    assert "Any other leader: broker 1 loses 9 records, 4 of them committed." in elect.reasons[0]
    assert {row[0] for row in list(csv.reader(io.StringIO(files(plan)["save-first.csv"])))[1:]} == {"1", "3"}
    assert "elect-preferred.json" in files(plan)


def test_leaders_of_several_partitions_are_elected_one_after_the_other() -> None:
    found = facts(
        offline=(offline("a", candidate(1)), offline("b", candidate(2)), offline("c", candidate(1))),
        roles=(*roles("a", 1, 2), *roles("b", 1, 2), *roles("c", 1, 2)),
    )
    made = files(plan_of(found, RE_READ))
    assert json.loads(made["elect-unclean-broker-1.json"])["partitions"] == [{"topic": "a", "partition": 0}, {"topic": "c", "partition": 0}]
    assert json.loads(made["elect-unclean-broker-2.json"])["partitions"] == [{"topic": "b", "partition": 0}]


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        pytest.param(candidate(2, unread_replicas=1), "may hold more than broker 2", id="who was not read may hold more"),
        pytest.param(candidate(2, followers_diverged=1), "stay diverged", id="silent divergence"),
        pytest.param(candidate(2, rank=None), "nobody knows", id="nobody can be judged"),
        pytest.param(candidate(2, election="clean", broker_up=True), "could be elected cleanly but is not", id="it runs"),
    ],
)
def test_an_election_that_may_lose_more_than_it_saves_is_refused(choice: ElectionChoice, why: str) -> None:
    plan = plan_of(facts(offline=(offline("t", choice),), roles=roles("t", 1, 2)), RE_READ)
    assert why in plan.refusals[0].why
    assert not any(name.startswith("elect") for name in files(plan))
    assert why in render_plan(plan)


def test_a_clean_election_needs_no_file_only_the_broker() -> None:
    plan = plan_of(facts(offline=(offline("t", candidate(2, election="clean", in_isr=True)),), roles=roles("t", 2, 1)), RE_READ)
    assert plan.steps[0].title == "Start broker 2: leads 1 partition (cleanly); loses nothing"
    assert not files(plan)
    stopped = plan_of(facts(offline=(offline("t", candidate(2), cluster_stopped=True),), roles=roles("t", 2, 1)), RE_READ)
    assert [step.title for step in stopped.steps] == ["Start the cluster"]


def test_the_records_that_a_start_truncates_are_split_by_transaction() -> None:
    split = RecordsByTransaction(committed=2, aborted=1, markers=2)
    cut = verdict("t", 2, "committed_loss", truncation_offset=10, removed_records=5, removed_committed=5, lost_by_transaction=split)
    found = facts(verdicts=(cut,), roles=roles("t", 1, 2, leader=1, isr=(1,)), logs=(log("t", 2),))
    said = "3 records and 2 transaction markers (2 of committed transactions, 1 aborted; 5 offsets committed)"
    start = plan_of(found, RE_READ).steps[1]
    assert start.title == f"Start broker 2: it truncates {said}, which step 1 copies"
    assert start.reasons[1:] == (f"`t-0`: broker 2 truncates to 10, which removes {said}.",)
    in_part = plan_of(replace(found, verdicts=(replace(cut, removed_records=9),)), RE_READ).steps[1]
    assert in_part.title == "Start broker 2: it truncates 9 records, 5 of them committed, which step 1 copies"


def test_a_follower_that_will_truncate_is_started_after_the_copies() -> None:
    cut = verdict("t", 2, "committed_loss", truncation_offset=10, removed_records=5, removed_committed=4)
    found = facts(verdicts=(cut,), roles=roles("t", 1, 2, leader=1, isr=(1,)), logs=(log("t", 2),))
    plan = plan_of(found, RE_READ)
    assert [step.stage for step in plan.steps] == [Stage.COPY, Stage.START]
    assert plan.steps[1].reasons[1:] == ("`t-0`: broker 2 truncates to 10, which removes 5 records, 4 of them committed.",)
    both = replace(found, verdicts=(cut, replace(cut, follower_id=3)), roles=roles("t", 1, 2, 3, leader=1, isr=(1,)))
    started = plan_of(both, RE_READ).steps[-1]
    assert (
        started.title == "Start brokers 2, 3: they truncate 10 records, 8 of them committed, counted on each replica, which step 1 copies"
    )
    assert len(started.commands) == 2
    holds_all = sparse(WhatIfLeader, topic="t", partition=0, candidate_id=2, rank=1, lost_offsets=0, unread_replicas=0)
    once = plan_of(replace(both, candidates=(holds_all,)), RE_READ).steps[-1]
    assert once.title == "Start brokers 2, 3: they truncate 5 records, 4 of them committed, which step 1 copies", "the same records"
    unknown = plan_of(replace(found, verdicts=(replace(cut, verdict="inconclusive", restart_offset=9),)), RE_READ)
    assert [step.stage for step in unknown.steps] == [Stage.COPY, Stage.ASK], "what it holds beyond its leader is not known"
    trimmed = replace(cut, verdict="inconclusive", restart_offset=9, cause=Cause.NO_COMMON_RANGE)
    restarted = plan_of(replace(found, verdicts=(trimmed,)), RE_READ)
    assert [step.stage for step in restarted.steps] == [Stage.COPY, Stage.START], "what retention makes it remove is"
    assert "broker 2 empties its log and starts at 9, which removes 5 records" in restarted.steps[1].reasons[1]
    agrees = replace(cut, verdict="cannot_rejoin", truncation_offset=5)
    same = plan_of(replace(found, verdicts=(agrees,)), RE_READ)
    assert [step.stage for step in same.steps] == [Stage.COPY, Stage.START], "its directory is moved away, and it fetches all again"
    assert SetAside(("t", 0, 2)) in same.steps[-1].actions
    other = plan_of(replace(found, verdicts=(replace(agrees, divergence_offset=7),)), RE_READ)
    assert [step.stage for step in other.steps] == [Stage.COPY, Stage.START]
    gone = plan_of(replace(found, verdicts=(replace(cut, already_truncated=True),)), RE_READ)
    (kept,) = gone.steps
    assert kept.title == "Save the records that only the audited copy of broker 2 holds"
    assert "truncated since it was copied" in kept.reasons[0]


@pytest.mark.parametrize(
    ("standing", "in_isr", "holds", "said"),
    [
        pytest.param("down", False, True, "the run confirms it", id="metadata says that it is down"),
        pytest.param("unknown", False, None, "the run does not show it", id="nothing is known of it"),
        pytest.param("follower", True, False, "Broker 2 runs: copy at once", id="it ran, in sync"),
    ],
)
def test_a_broker_that_truncates_is_presumed_to_be_stopped(standing: str, in_isr: bool, holds: bool | None, said: str) -> None:
    cut = verdict("t", 2, "stale_tail", truncation_offset=10, removed_records=5)
    leader, other = roles("t", 1, 2, leader=1, isr=(1, 2) if in_isr else (1,))
    plan = plan_of(facts(verdicts=(cut,), roles=(leader, replace(other, standing=standing)), logs=(log("t", 2),)), RE_READ)
    stopped = "broker 2 is stopped, and stays so until the copies are made"
    assert [(one.what, one.holds) for one in plan.presumptions] == [
        *([] if holds is False else [(stopped, holds)]),
        ("the leaders are those of the audit: broker 1 of `t-0`", None),
    ]
    assert said in render_plan(plan)


@pytest.mark.parametrize(
    ("version", "what", "shown_by"),
    [
        ("2.1.0", "ZooKeeper runs", "QuorumPeerMain"),
        ("3.4.0", "a majority of the controllers runs, or ZooKeeper does", "QuorumPeerMain"),
        ("4.1.0", "a majority of the controllers runs, or ZooKeeper does", "--bootstrap-controller"),
    ],
)
def test_where_nobody_runs_the_controllers_come_first(version: str, what: str, shown_by: str) -> None:
    nobody = offline("t", candidate(1, broker_up=False, lost_records=0, lost_committed=0, lost_offsets=0))
    found = facts(offline=(nobody,), roles=roles("t", 1, 2), logs=(log("t", 1),), kafka_version=version)
    (said,) = [one for one in plan_of(found, RE_READ).presumptions if one.what.startswith(what)]
    assert shown_by in said.how_to_check
    seen = sparse(BrokerStart, broker_id=2, runs=True, outcome="safe", because={}, replicas=1)
    assert not [one for one in plan_of(replace(found, broker_starts=(seen,)), RE_READ).presumptions if one.what.startswith(what)]


def test_old_clusters_are_told_that_their_tools_are_others() -> None:
    bad = facts(
        verdicts=(verdict("t", 3, "log_matching_violation"),),
        roles=roles("t", 2, 1, 3, leader=1, isr=(1, 2, 3), min_insync_replicas=2),
        protocol="kip-101",
    )
    old = render_plan(plan_of(bad, RE_READ))
    assert 'kafka-reassign-partitions.sh --zookeeper "$ZOOKEEPER" --reassignment-json-file' in old
    assert "export ZOOKEEPER=HOST:PORT" in old
    assert "--zookeeper" in render_plan(plan_of(replace(bad, protocol="truncate-on-fetch", kafka_version="2.5.1"), RE_READ))
    assert "--zookeeper" not in render_plan(plan_of(replace(bad, protocol="truncate-on-fetch"), RE_READ))
    assert "--zookeeper" not in render_plan(plan_of(replace(bad, kafka_version="3.9.1"), RE_READ)), "whatever the rule"
    assert "--zookeeper" not in render_plan(plan_of(facts(protocol="kip-101"), RE_READ)), "an empty plan needs no tool"


def test_a_corrected_checkpoint_lies_at_its_place_with_what_it_does() -> None:
    wrong = log(
        "t",
        1,
        corrected_checkpoint="0\n2\n6 0\n7 1800\n",
        corrected_entries=(
            CorrectedLine(epoch=6, start_offset=0, source="batches", from_broker_id=None),
            CorrectedLine(epoch=7, start_offset=1800, source="other_replica", from_broker_id=3),
        ),
        rejoins_once_corrected=(
            sparse(FollowerOnceCorrected, leader_id=1, follower_id=2, truncation_offset=None, restart_offset=None, catches_up=True),
        ),
    )
    plan = plan_of(facts(logs=(wrong,)), RE_READ)
    made = files(plan)
    assert made.pop("checkpoints/broker-1/t-0/leader-epoch-checkpoint") == "0\n2\n6 0\n7 1800\n"
    assert made.keys() == {"checkpoints/broker-1/put-in-place.sh"}
    assert "DIR_1 is the one that was audited as `/var/lib/kafka/data-0`" in plan.steps[0].reasons[0]
    assert "/var/lib/kafka" not in made["checkpoints/broker-1/put-in-place.sh"], "it may be the only copy"
    assert (
        plan.steps[0]
        .reasons[2]
        .endswith(
            "Line `7 1800` is from the table of another replica: broker 3. "
            "In a replay with it, follower 2 of leader 1 truncates nothing and catches up."
        )
    )
    stuck = replace(
        wrong,
        rejoins_once_corrected=(
            sparse(FollowerOnceCorrected, leader_id=1, follower_id=2, truncation_offset=None, restart_offset=None, catches_up=False),
        ),
    )
    refused = plan_of(facts(logs=(stuck, log("u", 1, not_corrected_because="epochs-go-backwards"))), RE_READ)
    assert not refused.steps
    assert [("still do not catch up" in one.why, "do not determine a table" in one.why) for one in refused.refusals] == [
        (True, False),
        (False, True),
    ]


def _rejoin(follower: int, *, still_diverged: bool) -> FollowerOnceCorrected:
    return sparse(
        FollowerOnceCorrected,
        leader_id=1,
        follower_id=follower,
        truncation_offset=None,
        restart_offset=None,
        catches_up=True,
        still_diverged=still_diverged,
    )


@pytest.mark.parametrize(("diverged", "is_corrected"), [(2, False), (3, True), (None, True)])
def test_a_corrected_file_does_not_make_up_for_batches_of_its_own_log(diverged: int | None, is_corrected: bool) -> None:
    """The malformed file's own replica is copied, and fetches its leader's log; another follower's batches are not its matter."""
    known: dict[str, Any] = {"leader": 1, "isr": (1, 2, 3), "min_insync_replicas": 1}
    rejoins = tuple(_rejoin(broker, still_diverged=broker == diverged) for broker in (2, 3))
    wrong = log("t", 2, corrected_checkpoint="0\n0\n", corrected_entries=(), rejoins_once_corrected=rejoins)
    found = facts(verdicts=(verdict("t", 2, "unreadable"),), roles=roles("t", 1, 2, 3, **known), logs=(wrong, log("t", 3)))
    plan = plan_of(found, RE_READ)
    assert [step.stage for step in plan.steps] == ([Stage.START] if is_corrected else [Stage.COPY, Stage.REBUILD, Stage.REBUILD])
    assert plan.refusals == ()


def _corrected(topic: str, broker: int, log_dir: Path, content: str) -> ReplicaLog:
    was = sha256(b"0\n0\n").hexdigest() if topic != "o'clock" else None
    state = "ok" if was else "missing"
    fields = {"checkpoint_sha256": was, "checkpoint_state": state, "corrected_checkpoint": content, "corrected_entries": ()}
    return log(topic, broker, log_dir=str(log_dir), **fields)


def test_what_truncates_with_a_corrected_file_is_copied_first_where_nobody_leads() -> None:
    rejoins = (sparse(FollowerOnceCorrected, leader_id=1, follower_id=2, truncation_offset=13, restart_offset=None, catches_up=True),)
    wrong = log("t", 2, corrected_checkpoint="0\n0\n", corrected_entries=(), rejoins_once_corrected=rejoins)
    nobody = offline("t", candidate(1, in_isr=True, election="clean", lost_records=0, lost_committed=0, lost_offsets=0), isr=(1,))
    plan = plan_of(facts(offline=(nobody,), roles=roles("t", 1, 2), logs=(wrong, log("t", 1))), RE_READ)
    saved = list(csv.DictReader(io.StringIO(files(plan)["save-first.csv"])))
    assert [(row["broker_id"], row["directory"]) for row in saved] == [("2", "t-0")]


def test_a_diverged_replica_is_corrected_rather_than_rebuilt_and_saved_before_it_is_cut() -> None:
    """With the right epochs it notices: the replay says where it then truncates to. Another on the broker is cut by the same restart."""
    rejoins = (sparse(FollowerOnceCorrected, leader_id=1, follower_id=2, truncation_offset=13, restart_offset=None, catches_up=True),)
    wrong = log("t", 2, corrected_checkpoint="0\n0\n", corrected_entries=(), rejoins_once_corrected=rejoins)
    cut = verdict("u", 2, "committed_loss", truncation_offset=10, removed_records=5, removed_offsets=5, removed_committed=4)
    known: dict[str, Any] = {"leader": 1, "isr": (1, 2), "min_insync_replicas": 1}
    found = facts(
        verdicts=(verdict("t", 2, "log_matching_violation"), cut),
        roles=(*roles("t", 1, 2, **known), *roles("u", 1, 2, **known)),
        logs=(wrong, log("u", 2)),
    )
    plan = plan_of(found, RE_READ)
    assert [step.stage for step in plan.steps] == [Stage.COPY, Stage.START]
    assert [row[2] for row in list(csv.reader(io.StringIO(files(plan)["save-first.csv"])))[1:]] == ["t-0", "u-0"]
    assert "`u-0`: broker 2 truncates to 10, which removes 5 records, 4 of them committed." in plan.steps[1].reasons
    cuts = [row[:9] for row in list(csv.reader(io.StringIO(files(plan)["truncations.csv"])))[1:]]
    assert cuts == [["t", "0", "1", "yes", "2", "13", "", "", ""], ["u", "0", "1", "yes", "2", "10", "", "5", "5"]]
    stuck = replace(wrong, rejoins_once_corrected=(replace(rejoins[0], truncation_offset=None, catches_up=False),))
    rebuilt = plan_of(replace(found, logs=(stuck, log("u", 2))), RE_READ)
    assert [step.stage for step in rebuilt.steps] == [Stage.COPY, Stage.REBUILD, Stage.REBUILD], "the broker runs"
    down = tuple(replace(role, in_isr=False, standing="down") if role.broker_id == 2 else role for role in found.roles)
    started = plan_of(replace(found, logs=(stuck, log("u", 2)), roles=down), RE_READ)
    assert [step.stage for step in started.steps] == [Stage.COPY, Stage.START], "it is moved away before the broker starts"
    assert SetAside(("t", 0, 2)) in started.steps[-1].actions
    assert not rebuilt.refusals


def test_files_of_one_broker_share_one_restart_and_one_script(tmp_path: Path) -> None:
    """Put in place and taken back, in two log directories whose names and whose topics' names would do harm if they were obeyed."""
    disks = [tmp_path / "a disk" / "$(touch pwned)", tmp_path / "it's"]
    topics = ["t", "`touch pwned`", "o'clock"]
    logs = [_corrected(topic, 1, disks[number % 2], f"0\n1\n{number} 0\n") for number, topic in enumerate(topics)]
    old = {}
    for one in logs[:2]:
        old[one.directory] = Path(one.log_dir, one.directory, "leader-epoch-checkpoint")
        old[one.directory].parent.mkdir(parents=True)
        old[one.directory].write_text("0\n0\n")
    Path(logs[2].log_dir, logs[2].directory).mkdir(parents=True)
    plan = plan_of(facts(logs=(*logs, _corrected("t", 2, disks[0], "0\n0\n"))), RE_READ)
    assert [step.title for step in plan.steps] == [
        "Restart broker 1: corrects 3 leader-epoch-checkpoints",
        "Restart broker 2: corrects 1 leader-epoch-checkpoint",
    ]
    assert [line.split(":")[0] for line in plan.steps[0].commands][:4] == [
        "# on its host, in a copy of this folder, while it runs",
        "# stop broker 1",
        "# on its host, in a copy of this folder",
        "# start broker 1 on its host, unless it runs, and wait until this lists it",
    ]
    _write(plan, tmp_path / "plan")
    script = ["/bin/sh", str(tmp_path / "plan" / "checkpoints" / "broker-1" / "put-in-place.sh")]
    places = {**os.environ, "DIR_1": str(disks[0]), "DIR_2": str(disks[1])}
    for _again in range(2):
        subprocess.run(script, check=True, cwd=tmp_path, env=places)
        for number, one in enumerate(logs):
            assert Path(one.log_dir, one.directory, "leader-epoch-checkpoint").read_text() == f"0\n1\n{number} 0\n"
    subprocess.run([*script, "undo"], check=True, cwd=tmp_path, env=places)
    assert [file.read_text() for file in old.values()] == ["0\n0\n"] * 2
    moved = tmp_path / "elsewhere"
    shutil.copytree(disks[1], moved)
    shutil.rmtree(disks[1])
    unnamed = subprocess.run(script, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert (unnamed.returncode != 0, "name a log directory" in unnamed.stderr) == (True, True)
    wrong = subprocess.run(script, check=False, cwd=tmp_path, capture_output=True, text=True, env=places)
    assert (wrong.returncode, "no such directory" in wrong.stderr) == (1, True)
    subprocess.run(script, check=True, cwd=tmp_path, env=places | {"DIR_2": str(moved)})
    assert (moved / logs[1].directory / "leader-epoch-checkpoint").read_text() == "0\n1\n1 0\n"
    assert not list(tmp_path.rglob("pwned"))


@dataclass(frozen=True, slots=True)
class _Disk:
    """A log directory of broker 2, which is stopped, and the script that is to be run on it."""

    data: Path
    aside: Path
    script: Path

    def run(self, *arguments: str, **named: str) -> tuple[int, str]:
        places = {**os.environ, "DIR_1": str(self.data), "ASIDE": str(self.aside), **named}
        done = subprocess.run(["/bin/sh", str(self.script), *arguments], check=False, capture_output=True, text=True, env=places)
        return done.returncode, done.stderr


@pytest.fixture
def disk(tmp_path: Path) -> _Disk:
    """A file of `t` is corrected, and the directory of `u` is moved away."""
    data, aside = tmp_path / "data", tmp_path / "aside"
    aside.mkdir()
    for name in ("t-0", "u-0"):
        (data / name).mkdir(parents=True)
        (data / name / "leader-epoch-checkpoint").write_text("0\n0\n")
    (data / "meta.properties").write_text("version=1\nnode.id=2\n")
    (data / ".lock").touch()
    down: dict[str, Any] = {"leader": 1, "isr": (1,), "min_insync_replicas": 1}
    found = facts(
        verdicts=(verdict("u", 2, "log_matching_violation"),),
        roles=(*roles("t", 1, 2, **down), *roles("u", 1, 2, **down)),
        logs=(_corrected("t", 2, data, "0\n1\n3 0\n"), log("u", 2, log_dir=str(data))),
    )
    _write(plan_of(found, RE_READ), tmp_path / "plan")
    return _Disk(data, aside, tmp_path / "plan" / "checkpoints" / "broker-2" / "put-in-place.sh")


def test_what_the_script_does_is_undone_until_the_broker_was_started(disk: _Disk) -> None:
    corrected, moved = disk.data / "t-0" / "leader-epoch-checkpoint", disk.aside / "moved-from-broker-2" / "DIR_1" / "u-0"
    for _again in range(2):
        assert disk.run() == (0, "")
        assert (corrected.read_text(), moved.is_dir(), (disk.data / "u-0").exists()) == ("0\n1\n3 0\n", True, False)
    assert disk.run("undo") == (0, "")
    assert (corrected.read_text(), moved.exists(), (disk.data / "u-0").is_dir()) == ("0\n0\n", False, True)
    assert sorted(path.name for path in corrected.parent.iterdir()) == ["leader-epoch-checkpoint"]
    disk.run()
    (disk.data / "u-0").mkdir()
    code, said = disk.run("undo")
    assert (code, "can no longer be undone" in said) == (1, True), "the broker made it again"
    (disk.data / "u-0").rmdir()
    disk.run()
    corrected.write_text("0\n2\n3 0\n4 9\n")
    code, said = disk.run("undo")
    assert (code, "can no longer be undone" in said) == (1, True), "a broker has written it since"
    corrected.write_text("0\n1\n3 0\n")
    (disk.data / "replication-offset-checkpoint").touch()
    assert disk.run() == (0, ""), "again"
    code, said = disk.run("undo")
    assert (code, "the broker was started" in said) == (1, True), "whatever it has written"
    (disk.script.parent / "was-put").unlink()
    assert disk.run("undo")[0] == 1


def test_directories_of_one_name_are_copied_and_moved_apart(tmp_path: Path) -> None:
    """A replica that two log directories of a broker hold: the broker refuses to start, and either may hold what counts."""
    safe, logs = tmp_path / "safe", [log("u", 2, log_dir=str(tmp_path / name)) for name in ("data-0", "data-1")]
    safe.mkdir()
    for one in logs:
        (Path(one.log_dir) / "u-0").mkdir(parents=True)
        (Path(one.log_dir) / "u-0" / "of").write_text(one.log_dir)
    down: dict[str, Any] = {"leader": 1, "isr": (1,), "min_insync_replicas": 1}
    plan = plan_of(facts(verdicts=(verdict("u", 2, "log_matching_violation"),), roles=roles("u", 1, 2, **down), logs=tuple(logs)), RE_READ)
    _write(plan, tmp_path / "plan")
    for row in csv.DictReader(io.StringIO(files(plan)["save-first.csv"])):
        places = {"SAFE_PLACE": str(safe), "LOG_DIR": row["log_dir"], "DIRECTORY": row["directory"], "COPY_TO": row["copy_to"]}
        line = filled_in(plan.steps[0].commands[1].removeprefix("# "), places)
        subprocess.run(["/bin/sh", "-c", line], check=True)
    assert {path.read_text() for path in safe.rglob("of")} == {one.log_dir for one in logs}
    named = {**os.environ, "ASIDE": str(safe), **{f"DIR_{number}": one.log_dir for number, one in enumerate(logs, 1)}}
    script = ["/bin/sh", str(tmp_path / "plan" / "checkpoints" / "broker-2" / "put-in-place.sh")]
    for _again in range(2):
        subprocess.run(script, check=True, env=named)
        assert not list(tmp_path.glob("data-*/u-0"))
    assert sorted(path.read_text() for path in (safe / "moved-from-broker-2").rglob("of")) == [one.log_dir for one in logs]
    subprocess.run([*script, "undo"], check=True, env=named)
    assert {path.read_text() for path in tmp_path.glob("data-*/u-0/of")} == {one.log_dir for one in logs}


def test_the_script_touches_no_file_that_was_not_audited_nor_a_disk_in_use(disk: _Disk) -> None:
    corrected = disk.data / "t-0" / "leader-epoch-checkpoint"

    def refused(said: str, *arguments: str, **named: str) -> None:
        code, told = disk.run(*arguments, **named)
        assert (code, said in told) == (1, True), told
        assert (corrected.read_text(), (disk.data / "u-0").is_dir()) == (before, True)

    before = "0\n1\n2 0\n"
    corrected.write_text(before)
    refused("is not the file that was audited")
    before = "0\n0\n"
    corrected.write_text(before)
    (disk.data / "u-0").rename(disk.data / "elsewhere")
    assert disk.run() == (1, f"{disk.data}/u-0: no such directory; which log directories does the broker have?\n")
    assert corrected.read_text() == before, "what comes before it is not done, either"
    assert "what is that?" in disk.run("put-back")[1]
    (disk.data / "elsewhere").rename(disk.data / "u-0")
    with (disk.data / ".lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)  # as a broker that runs holds it
        refused("is locked: broker 2 runs")
        assert disk.run("check") == (0, ""), "it may run while its files are looked at"
        before = "0\n1\n2 0\n"
        corrected.write_text(before)
        refused("is not the file that was audited", "check")
        before = "0\n0\n"
        corrected.write_text(before)
        refused("is locked: broker 2 runs", "undo")
    (disk.data / "inside").mkdir()
    code, said = disk.run(ASIDE=str(disk.data / "inside"))
    assert (code, "lies in the log directory" in said, (disk.data / "u-0").is_dir()) == (1, True, True)
    disk.run("undo")
    (disk.data / "meta.properties").write_text("version=1\nnode.id=22\n")
    refused("log directory of another broker")


def test_a_bad_replica_is_rebuilt_in_two_steps_and_never_below_min_isr() -> None:
    bad = verdict("t", 3, "log_matching_violation")
    found = facts(verdicts=(bad,), roles=roles("t", 2, 1, 3, leader=1, isr=(1, 2, 3), min_insync_replicas=2))
    plan = plan_of(found, RE_READ)
    made = files(plan)
    assert json.loads(made["reassign-1-take-out.json"])["partitions"] == [{"topic": "t", "partition": 0, "replicas": [2, 1]}]
    assert json.loads(made["reassign-2-put-back.json"])["partitions"] == [{"topic": "t", "partition": 0, "replicas": [2, 1, 3]}]
    assert made["reassign-undo.json"] == made["reassign-2-put-back.json"]
    assert any("--throttle" in line for line in plan.steps[-1].commands)
    assert [one.holds for one in plan.presumptions] == [True]
    for fields, why in (
        ({"roles": roles("t", 2, 1, 3, leader=1, isr=(1, 3), min_insync_replicas=2)}, "min.insync.replicas is 2"),
        ({"roles": roles("t", 1, 3, leader=1, isr=(1, 3))}, "only the leader would stay in sync"),
        ({"roles": tuple(replace(role, position=None) for role in found.roles)}, "order of its replicas"),
        ({"verdicts": (replace(bad, verdict="content_mismatch"),)}, "which one is right"),
    ):
        refused = plan_of(replace(found, **fields), RE_READ)
        assert refused.steps == ()
        assert why in refused.refusals[0].why


def test_what_is_unreadable_and_nobody_has_seen_is_not_deleted() -> None:
    bad = verdict("t", 3, "unreadable")
    found = facts(
        verdicts=(bad,), roles=roles("t", 2, 1, 3, leader=1, isr=(1, 2, 3), min_insync_replicas=2), logs=(log("t", 3, batch_count=4),)
    )
    own, others = frozenset({("t", 0, 3)}), frozenset({("t", 0, 2), ("t", 1, 3)})
    for kept, why in (
        (replace(found, not_read=own), "or not to its end: the input problems say why"),
        (replace(found, had_a_tail=own, not_read=own), "an earlier run found records"),
        (replace(found, had_a_tail=own), "an earlier run found records"),
        (replace(found, logs=()), "nothing of it could be read"),
    ):
        *_copied, asked = plan_of(kept, RE_READ).steps
        assert asked.stage is Stage.ASK
        assert why in asked.reasons[1]
        assert "Wanted: the directory of `t-0` on broker 3, copied again" in asked.reasons[1]
    assert plan_of(replace(found, not_read=others, had_a_tail=others), RE_READ).steps
    readable = replace(found, verdicts=(replace(bad, verdict="log_matching_violation"),), had_a_tail=own)
    assert plan_of(readable, RE_READ).steps, "what is wrong with it is known"


@pytest.mark.parametrize(
    ("policy", "reset", "gone", "expected"),
    [
        (RE_READ, 60, None, 60),
        (GroupPolicy.SKIP, 60, 60, 90),
        (RE_READ, None, None, 5),
        (GroupPolicy.SKIP, None, None, 90),
        (RE_READ, 95, None, 90),
        pytest.param(RE_READ, None, 60, 60, id="the reset policy would decide"),
        pytest.param(RE_READ, 120, 60, 60, id="the client notices nothing"),
    ],
)
def test_where_a_group_goes_on(policy: GroupPolicy, reset: int | None, gone: int | None, expected: int) -> None:
    """It had consumed up to 120, the last so many of them gone; the leader's log is [5, 90), as another replica's truncation left it."""
    found = facts(
        groups=(group("g", "t", 120, reset, gone),),
        roles=roles("t", 1, 2, leader=1),
        logs=(log("t", 1, log_start_offset=5, log_end_offset=90),),
    )
    plan = plan_of(found, policy)
    assert files(plan)["reset-g.csv"] == f"t,0,{expected}\n"
    nobody = plan_of(replace(found, offline=(offline("t", candidate(1)),)), policy)
    assert "reset-g.csv" not in files(nobody)
    assert any("nobody leads" in one.why for one in nobody.refusals)


def test_a_transaction_that_may_be_committed_is_aborted_only_after_its_records_were_copied() -> None:
    plan = plan_of(facts(transactions=(transaction("t"), transaction("u", coordinator_state="CompleteCommit"))), RE_READ)
    assert "abort --topic t --partition 0 --start-offset 40" in files(plan)["abort-transactions.sh"]
    assert "topic u" not in files(plan)["abort-transactions.sh"]
    assert "considers the records committed" in plan.refusals[0].why, "and nobody has its log, to copy it"
    taken = transaction("u", coordinator_state="CompleteCommit")
    found = facts(transactions=(taken,), logs=(log("u", taken.leader_id),))
    saved = plan_of(found, RE_READ)
    copied, ended = saved.steps
    assert (copied.stage, ended.stage) == (Stage.COPY, Stage.ABORT)
    assert list(csv.reader(io.StringIO(files(saved)["save-first.csv"])))[1:] == [
        [str(taken.leader_id), "/var/lib/kafka/data-0", "u-0", f"broker-{taken.leader_id}"]
    ]
    assert ended.commands[0].startswith("# save the records named above from the copies of step 1")
    assert f"{taken.first_offset}..{taken.last_offset} for committed" in ended.reasons[0]


@pytest.mark.parametrize(
    ("changed", "command", "about"),
    [
        ({"abort_form": "start-offset"}, "--start-offset 40", ""),
        ({"abort_form": "producer-id", "marker_coordinator_epoch": 5}, "--coordinator-epoch 5", "use that of a later release"),
        ({"abort_form": "producer-id", "marker_coordinator_epoch": -1}, "--coordinator-epoch 0", "use that of a later release"),
        ({"abort_form": None, "marker_coordinator_epoch": 5}, "--start-offset 40", "Brokers before 3.0 need the tool of a later release"),
    ],
)
def test_a_transaction_is_aborted_as_the_brokers_version_takes_it(changed: dict[str, Any], command: str, about: str) -> None:
    plan = plan_of(facts(transactions=(transaction("t", **changed),)), RE_READ)
    (ended,) = plan.steps
    assert f"abort --topic t --partition 0 {command}" in re.sub(
        r"--producer-id \d+ --producer-epoch \d+ ", "", files(plan)["abort-transactions.sh"]
    )
    assert (about in " ".join(ended.reasons)) and ("release" in " ".join(ended.reasons)) == bool(about)
    unknown = plan_of(facts(transactions=(transaction("t", abort_form="producer-id", marker_coordinator_epoch=None),)), RE_READ)
    assert not unknown.steps
    assert "--coordinator-epoch EPOCH` of Kafka 3.0 or later ends it" in unknown.refusals[0].why


def test_decisions_are_worst_first_and_there_are_none_of_a_clean_cluster() -> None:
    assert decisions(due_of(facts())) == []
    found = facts(
        offline=(offline("t", candidate(2)),),
        verdicts=(
            verdict("u", 2, "epoch_table_only"),
            verdict("v", 2, "cannot_rejoin"),
            verdict("w", 2, "stale_tail", truncation_offset=3, removed_records=1),
        ),
        groups=(group("g", "w", 9, 3),),
        transactions=(transaction("w"),),
    )
    made = decisions(due_of(found))
    assert [one.urgency for one in made] == sorted(one.urgency for one in made)
    assert [one.urgency.name for one in made] == ["OFFLINE", "GROUPS", "TRANSACTIONS", "CAN_WAIT"]
    assert made[3].partitions == (("u", 0),)


# --- hostile names -----------------------------------------------------------------------------------------------------------------------

HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    "a'b\"c",
    "x\ntouch pwned\n",
    "../../../escape",
    "..",
    ".",
    "-rf",
    "--help",
    "a;touch pwned",
    "é ☃",
    'a,b"c',
    "a" * 300,
    "\x1b[2J",
    "~",
    "|touch pwned",
    "a\x00b"[:1],
    "```\n# Step",
]


def _hostile(names: list[str]) -> RecoveryFacts:
    bad = names[0]
    return facts(
        offline=(offline(names[1 % len(names)], candidate(2, lost_offsets=1, lost_records=1)),),
        verdicts=(verdict(bad, 3, "log_matching_violation"),),
        roles=(
            *roles(names[1 % len(names)], 1, 2),
            *(roles(bad, 1, 2, 3, leader=1, isr=(1, 2, 3)) if bad != names[1 % len(names)] else ()),
        ),
        logs=(*(log(name, 1, corrected_checkpoint="0\n0\n", corrected_entries=()) for name in dict.fromkeys(names)), log(bad, 3)),
        groups=tuple(group(name, bad, 10, 5) for name in dict.fromkeys(names)),
        transactions=tuple(transaction(name) for name in dict.fromkeys(names)),
    )


def _write(plan: Plan, folder: Path) -> None:
    write_folder("--output", folder, [("PLAN.md", render_plan(plan), False), *((f.name, f.content, f.executable) for f in plan.files)])


def test_generated_scripts_execute_nothing_but_the_tools(tmp_path: Path) -> None:
    """Run with a PATH of stubs that write down their arguments: each name arrives as it is, and nothing else was run or written."""
    stubs, work = tmp_path / "stubs", tmp_path / "work"
    stubs.mkdir()
    work.mkdir()
    said = tmp_path / "said"
    for tool in ("kafka-consumer-groups.sh", "kafka-transactions.sh"):
        (stubs / tool).write_text(f'#!/bin/sh\nfor word in "$0" "$@"; do printf "%s\\0" "$word"; done >> {said}\nprintf "\\0" >> {said}\n')
        (stubs / tool).chmod(0o755)
    for tool in ("dirname", "sh"):
        (stubs / tool).symlink_to(f"/usr/bin/{tool}" if Path(f"/usr/bin/{tool}").exists() else f"/bin/{tool}")
    plan = plan_of(_hostile(HOSTILE), RE_READ)
    _write(plan, work / "plan")
    before = sorted(tmp_path.rglob("*"))
    scripts = [file.name for file in plan.files if file.executable and not file.name.startswith("checkpoints/")]
    assert scripts == ["abort-transactions.sh", "reset-groups-preview.sh", "reset-groups.sh"]
    for name in scripts:
        subprocess.run(["/bin/sh", str(work / "plan" / name)], check=True, cwd=work, env={"PATH": str(stubs), "BOOTSTRAP": "h:1"})
    assert sorted(tmp_path.rglob("*")) == sorted([*before, said]), "nothing was made but what the stubs write"
    calls = [call.split("\0") for call in said.read_bytes().decode().split("\0\0") if call.strip("\0")]
    tools = {os.path.basename(call[0]) for call in calls}  # noqa: PTH119
    assert tools == {"kafka-consumer-groups.sh", "kafka-transactions.sh"}
    groups = [word.removeprefix("--group=") for call in calls for word in call if word.startswith("--group=")]
    assert sorted(set(groups)) == sorted({name for name in HOSTILE})
    topics = [call[call.index("--topic") + 1] for call in calls if "--topic" in call]
    assert not [topic for topic in topics if topic.startswith("-")]
    topics += [word.removeprefix("--topic=") for call in calls for word in call if word.startswith("--topic=")]
    assert sorted(topics) == sorted({name for name in HOSTILE if name != HOSTILE[1]}), (
        "of the partition that nobody leads nothing is aborted"
    )


def test_what_waits_for_a_decision_is_copied_and_the_decision_is_told() -> None:
    """Two topic ids, each of some replicas that run: nobody but a person can tell which one is right, and what follows is said."""
    doubt = verdict("t", 2, "inconclusive", cause=Cause.TOPIC_ID_IN_DOUBT)
    logs = (log("t", 1, topic_id="new", batch_count=0), log("t", 2, topic_id="old", batch_count=3, log_end_offset=300))
    plan = plan_of(facts(verdicts=(doubt,), roles=roles("t", 1, 2, leader=1, isr=(1, 2)), logs=logs), RE_READ)
    assert [step.stage for step in plan.steps] == [Stage.COPY, Stage.ASK]
    assert [row[::2] for row in csv.reader(io.StringIO(files(plan)["save-first.csv"]))][1:] == [["2", "t-0"]]
    told = plan.steps[1].reasons[1]
    assert "`new` of broker 1, without records; `old` of broker 2, with records up to offset 299" in told
    assert "copied again" not in told, "another copy would show the same"
    assert not [one for one in plan.presumptions if "is stopped" in one.what], "it runs"


def test_a_replica_whose_rebuild_is_refused_is_copied_with_its_leader() -> None:
    keys = (sparse(DifferingKeyCount, broker_id=1),)
    differs = verdict("t", 2, "compaction_differs", compacted=True, differing_keys=keys)
    found = facts(verdicts=(differs,), roles=roles("t", 1, 2, leader=1, isr=(1, 2)), logs=(log("t", 1), log("t", 2)))
    plan = plan_of(found, RE_READ)
    assert [row[0] for row in csv.reader(io.StringIO(files(plan)["save-first.csv"]))][1:] == ["1", "2"], "either may hold what counts"
    assert "it is leader 1 that lacks keys" in plan.refusals[0].why
    assert "deleting broker 2 would lose them" in plan.refusals[0].why


def test_a_script_stops_at_a_group_that_has_members(tmp_path: Path) -> None:
    """The tool says so, does nothing, and ends with 0 (ConsumerGroupCommand.resetOffsets)."""
    said, tool = tmp_path / "said", tmp_path / "kafka-consumer-groups.sh"
    refusal = "Error: Assignments can only be reset if the group 'a' is inactive, but the current state is Stable."
    tool.write_text(f'#!/bin/sh\necho "$3" >> {said}\nif [ "$3" = --group=a ]; then printf "\\n{refusal}\\n"; fi\n')
    tool.chmod(0o755)
    known = facts(groups=(group("a", "t", 10, 5), group("b", "t", 10, 5)), roles=roles("t", 1, 2, leader=1, isr=(1,)), logs=(log("t", 1),))
    _write(plan_of(known, RE_READ), tmp_path / "plan")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "BOOTSTRAP": "h:1"}
    for name in ("reset-groups-preview.sh", "reset-groups.sh"):
        done = subprocess.run(["/bin/sh", str(tmp_path / "plan" / name)], check=False, env=environment, capture_output=True, text=True)
        assert (done.returncode, refusal in done.stdout, "stopped here" in done.stderr) == (1, True, True)
    assert said.read_text().split() == ["--group=a"] * 2, "group b was not touched"


def test_nothing_lies_outside_of_the_folder_and_names_come_back_from_the_files(tmp_path: Path) -> None:
    plan = plan_of(_hostile(HOSTILE), RE_READ)
    outside = {path for path in tmp_path.parent.iterdir()}
    _write(plan, tmp_path / "plan")
    assert {path for path in tmp_path.parent.iterdir()} == outside
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]
    for path in (tmp_path / "plan").rglob("*"):
        assert path.resolve().is_relative_to((tmp_path / "plan").resolve())
    made = files(plan)
    assert json.loads(made["reassign-1-take-out.json"])["partitions"][0]["topic"] == HOSTILE[0]
    assert json.loads(made["elect-unclean.json"])["partitions"][0]["topic"] == HOSTILE[1]
    rows = [
        row
        for name, content in made.items()
        if name.startswith("reset-") and name.endswith(".csv")
        for row in csv.reader(io.StringIO(content))
    ]
    assert {tuple(row) for row in rows} == {(HOSTILE[0], "0", "5")}
    text = (tmp_path / "plan" / "PLAN.md").read_text(encoding="utf-8")
    assert "\x1b" not in text
    steps = [line for line in text.splitlines() if line.startswith("## Step")]
    assert len(steps) == len(plan.steps), "no name begins a line"
    typed = [line for block in text.split("```sh\n")[1:] for line in block.split("```")[0].splitlines()]
    assert typed
    assert not [line for line in typed if "touch pwned" in line or "../" in line], "no name is in what is typed"


@pytest.mark.parametrize("name", ["", "a\0b", "\0"])
def test_a_group_that_no_command_line_can_name_is_refused(name: str) -> None:
    plan = plan_of(
        facts(roles=roles("t", 1, leader=1), logs=(log("t", 1),), groups=(group(name, "t", 10, 5), group("g", "t", 10, 5))), RE_READ
    )
    assert [one for one in files(plan) if one.endswith(".csv")] == ["reset-g.csv"]
    assert not any("\0" in content for content in files(plan).values())
    (refused,) = plan.refusals
    assert refused.of == (("t", 0),)
    assert "no command line can name the group" in refused.why


def test_what_a_spreadsheet_would_take_for_a_formula_is_text() -> None:
    """Of the files for people; those that Kafka's tools read hold every name as it is."""
    names = ["-topic", "=1+1", "+1", "@sum", "\tx", "'quoted", "plain"]
    cells = [row[0] for row in csv.reader(io.StringIO(table_csv([(name, -1) for name in names])))]
    assert cells == ["'-topic", "'=1+1", "'+1", "'@sum", "'\tx", "''quoted", "plain"]
    assert [cell.removeprefix("'") for cell in cells] == names
    assert {row[1] for row in csv.reader(io.StringIO(table_csv([("a", -1)])))} == {"-1"}, "a number stays one"
    assert [row[0] for row in csv.reader(io.StringIO(rows_csv([(name,) for name in names])))] == names
    cut = verdict("-rf", 2, "committed_loss", truncation_offset=10, removed_records=5, removed_committed=4)
    saved = plan_of(facts(verdicts=(cut,), roles=roles("-rf", 1, 2, leader=1), logs=(log("-rf", 2),)), RE_READ)
    row = next(csv.reader(files(saved)["save-first.csv"].splitlines()[1:]))
    assert row[2] == "./-rf-0", "a path that is right behind LOG_DIR/"


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=40)


@given(st.lists(NAMES, min_size=2, max_size=4, unique=True))
def test_file_names_are_safe_and_apart(names: list[str]) -> None:
    made = [file_name(name) for name in names]
    assert len(set(made)) == len(names)
    for name in made:
        assert name not in ("", ".", "..")
        assert not set(name) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-%~")
        assert len(name) <= 160


def test_an_earlier_plan_is_never_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "plan"
    check_folder("--output", folder)
    write_folder("--output", folder, [("a/b", "x", False)])
    assert (folder / "a" / "b").read_text() == "x"
    with pytest.raises(UsageError, match="is not empty"):
        check_folder("--output", folder)
    with pytest.raises(OutputError, match="exists"):
        write_folder("--output", folder, [("a/b", "y", False)])
    assert (folder / "a" / "b").read_text() == "x"
    for name in ("../x", "/x", "a/../../x", ""):
        with pytest.raises(OutputError, match="outside"):
            write_folder("--output", tmp_path / "other", [(name, "", False)])
    with pytest.raises(UsageError, match="not a folder"):
        check_folder("--output", folder / "a" / "b")
    with pytest.raises(UsageError, match="cannot be made"):
        check_folder("--output", tmp_path / "no" / "plan")


# --- in which order brokers are started --------------------------------------------------------------------------------------------------


def _led(plan: Plan) -> list[str]:
    return [step.title.split(":")[0] for step in plan.steps if step.stage is Stage.START and ": leads" in step.title]


def _isr(topic: str, best: int, isr: int, *, loses: int, instead: int) -> RunFinding:
    """A partition whose best leader loses less than the member of its ISR."""
    kinds = {broker: "clean" if broker == isr else "unclean" for broker in (best, isr)}
    others = () if best == isr else (candidate(isr, rank=2, election=kinds[isr], in_isr=True, lost_offsets=instead, lost_records=instead),)
    chosen = candidate(best, election=kinds[best], in_isr=best == isr, lost_offsets=loses, lost_records=loses)
    return offline(topic, chosen, *others, isr=(isr,), last_leader_id=isr)


def test_who_may_be_elected_cleanly_is_not_started_before_the_better_leader() -> None:
    """Broker 2, in the ISR of both, would lead "a", too, as soon as it runs."""
    found = facts(
        offline=(_isr("a", 3, 2, loses=1, instead=9), _isr("b", 2, 2, loses=0, instead=0)), roles=(*roles("a", 3, 2), *roles("b", 3, 2))
    )
    plan = plan_of(found, RE_READ)
    assert _led(plan) == ["Start broker 3", "Start broker 2"]
    first, second = (step for step in plan.steps if ": leads" in step.title)
    assert "# broker 2 must not run yet, else it leads instead: stop it" in first.commands
    assert not any("must not run" in line for line in second.commands)


def test_where_partitions_contradict_each_other_the_smaller_loss_gives_way() -> None:
    found = facts(
        offline=(_isr("a", 1, 2, loses=0, instead=3), _isr("b", 2, 1, loses=0, instead=9)), roles=(*roles("a", 1, 2), *roles("b", 2, 1))
    )
    plan = plan_of(found, RE_READ)
    assert _led(plan) == ["Start broker 2"]
    assert json.loads(files(plan)["elect-unclean.json"])["partitions"] == [{"topic": "b", "partition": 0}]
    (refusal,) = plan.refusals
    assert (refusal.what, refusal.of) == ("elect broker 1 for", (("a", 0),))
    assert "broker 2 leads instead, and that loses 3 records" in refusal.why
    alone = plan_of(replace(found, offline=found.offline[:1]), RE_READ)
    assert not alone.refusals, "without the other one there is no contradiction"


def test_equals_are_led_by_whichever_is_started_first() -> None:
    """Any of three brokers may lead any of the partitions, and none loses anything: nothing has to wait for anything."""
    same = tuple(candidate(broker, rank=place, election="clean", in_isr=True) for place, broker in enumerate((1, 2, 3), 1))
    turned = (*same[1:], same[0])
    ranked = tuple(replace(one, rank=place) for place, one in enumerate(turned, 1))
    found = facts(
        offline=(offline("a", *same, isr=(1, 2, 3)), offline("b", *ranked, isr=(1, 2, 3))),
        roles=(*roles("a", 1, 2, 3), *roles("b", 1, 2, 3)),
    )
    plan = plan_of(found, RE_READ)
    assert not plan.refusals
    assert _led(plan) == ["Start broker 1"]
    assert "leads 2 partitions (cleanly)" in plan.steps[0].title


def test_a_cluster_that_was_shut_down_is_started_in_order_if_something_else_is_offline() -> None:
    stopped = replace(_isr("b", 2, 2, loses=0, instead=0), cluster_stopped=True)
    alone = plan_of(facts(offline=(stopped,), roles=roles("b", 2, 3)), RE_READ)
    assert [step.title for step in alone.steps] == ["Start the cluster"]
    found = facts(offline=(stopped, _isr("a", 3, 2, loses=1, instead=9)), roles=(*roles("b", 2, 3), *roles("a", 3, 2)))
    plan = plan_of(found, RE_READ)
    assert _led(plan) == ["Start broker 3", "Start broker 2"]


def test_who_truncates_what_under_each_candidate() -> None:
    cut = sparse(
        FollowerCut,
        broker_id=2,
        truncation_offset=7,
        restart_offset=None,
        removed_offsets=3,
        removed_records=2,
        removed_committed=1,
        catches_up=True,
        still_diverged=False,
    )
    nothing = replace(cut, truncation_offset=None, removed_offsets=0, removed_records=0, removed_committed=0)
    found = facts(
        offline=(_isr("a", 3, 2, loses=2, instead=9),),
        roles=roles("a", 3, 2),
        logs=(log("a", 2), log("a", 3)),
        candidates=(
            sparse(WhatIfLeader, topic="a", partition=0, candidate_id=3, log_end_offset=7, follower_cuts=(cut,)),
            sparse(WhatIfLeader, topic="a", partition=0, candidate_id=2, log_end_offset=10, follower_cuts=(replace(nothing, broker_id=3),)),
        ),
    )
    plan = plan_of(found, RE_READ)
    text = render_plan(plan)
    assert "| `a-0` | **broker 3, planned** | unclean | broker 2 to 7 (2 records, 1 committed) | 2 records |" in text
    assert "| `a-0` | broker 2 | clean | broker 3 nothing | 9 records |" in text
    rows = list(csv.reader(io.StringIO(files(plan)["truncations.csv"])))
    assert rows[1:] == [["a", "0", "3", "yes", "2", "7", "", "3", "2", "1"], ["a", "0", "2", "no", "3", "", "", "0", "0", "0"]]
    assert [row[0] for row in list(csv.reader(io.StringIO(files(plan)["save-first.csv"])))[1:]] == ["2"]
    calm = replace(found, candidates=tuple(replace(one, follower_cuts=(replace(nothing, broker_id=9),)) for one in found.candidates))
    assert "Who truncates what" not in render_plan(plan_of(calm, RE_READ))


def test_refusals_of_one_kind_are_one_line() -> None:
    found = facts(offline=tuple(offline("t", candidate(2, unread_replicas=1), partition=number) for number in range(30)))
    (refusal,) = plan_of(found, RE_READ).refusals
    assert len(refusal.of) == 30
    assert "`t-19` and 10 more: 1 other replica could not be read" in render_plan(plan_of(found, RE_READ))


def test_many_replicas_that_wait_for_one_thing_are_one_line_and_a_file() -> None:
    unread = candidate(3, rank=None, lost_offsets=None, lost_records=None, lost_committed=None)
    nobody = tuple(offline("t", candidate(1, unread_replicas=1), unread, partition=number) for number in range(34))
    assigned = tuple(replace(role, partition=number) for number in range(34) for role in roles("t", 1, 3))
    plan = plan_of(facts(offline=nobody, roles=assigned), RE_READ)
    (asked,) = [step for step in plan.steps if step.stage is Stage.ASK]
    (_until, line, where) = asked.reasons
    assert line == (
        "`t-0`, `t-1`, `t-2`, `t-3`, `t-4` and 29 more on broker 3: it could not be read, or is not in the input, and may hold more than "
        "the others. Wanted: the directories of these 34 partitions on broker 3, copied again; do not stop it for that: where it runs, "
        "from a snapshot of its disk, or by `collect`."
    )
    assert where == "All of them are in wanted.csv."
    (file,) = asked.files
    rows = list(csv.DictReader(io.StringIO(file.content)))
    assert [(row["broker_id"], row["topic"], row["partition"]) for row in rows] == [("3", "t", str(number)) for number in range(34)]
    few = plan_of(facts(offline=nobody[:2], roles=assigned), RE_READ)
    (asked,) = [step for step in few.steps if step.stage is Stage.ASK]
    assert not asked.files, "all are named"
    assert asked.reasons[1].startswith("`t-0`, `t-1` on broker 3: ")


def test_other_ways_say_what_they_have_in_common_once() -> None:
    cut = verdict(
        "t", 2, "stale_tail", truncation_offset=8, lost_offsets=2, lost_records=2, divergence_offset=8, leader_diverged_end_offset=10
    )
    several = (cut, replace(cut, topic="u"))
    text = render_plan(plan_of(facts(verdicts=several, roles=(*roles("t", 1, 2, leader=1), *roles("u", 1, 2, leader=1))), RE_READ))
    assert text.count("new offsets and timestamps") == 1
    assert "the leader by the metadata, broker 2 truncates" in text


def test_partitions_that_lose_nothing_whoever_leads_are_one_line() -> None:
    nobody = tuple(offline("t", candidate(1, in_isr=True, election="clean"), candidate(2, rank=2), partition=number) for number in range(9))
    loses = offline("u", candidate(1, in_isr=True, election="clean"), candidate(2, rank=2, lost_offsets=4, lost_records=4))
    assigned = (*(replace(role, partition=number) for number in range(9) for role in roles("t", 1, 2)), *roles("u", 1, 2))
    plan = plan_of(facts(offline=(*nobody, loses), roles=assigned), RE_READ)
    reasons = plan.steps[0].reasons
    assert reasons[1] == "`t-0`, `t-1`, `t-2`, `t-3`, `t-4` and 4 more: nothing is lost, whoever leads."
    assert reasons[0].startswith("`u-0`: broker 1 loses nothing. Any other leader: broker 2 loses 4 records")


def test_who_only_has_to_give_something_types_no_address() -> None:
    unread = candidate(3, rank=None, lost_offsets=None, lost_records=None, lost_committed=None)
    asked = facts(offline=(offline("t", candidate(1, unread_replicas=1), unread),), roles=roles("t", 1, 3))
    plan = plan_of(asked, RE_READ)
    (only,) = [step for step in plan.steps if step.stage is Stage.ASK]
    text = render_plan(replace(plan, steps=(only,), presumptions=()))
    assert "## Step 1: Give what is missing" in text
    assert "export BOOTSTRAP" not in text


@pytest.mark.parametrize("leader_ran", [True, False])
def test_a_leader_that_is_stopped_starts_before_those_that_follow_it(leader_ran: bool) -> None:
    """Else the controller may elect a follower, where unclean elections are allowed, and the leader truncates instead."""
    found = facts(
        verdicts=(verdict("t", 1, "stale_tail", leader_id=2, truncation_offset=10, removed_records=5, divergence_offset=10),),
        roles=roles("t", 1, 2, leader=2, isr=(2,)),
        logs=(log("t", 1), log("t", 2)),
        broker_starts=tuple(
            sparse(BrokerStart, broker_id=broker, runs=ran, outcome="safe", because={}) for broker, ran in ((1, False), (2, leader_ran))
        ),
    )
    started = [action.broker for step in plan_of(found, RE_READ).steps for action in step.actions if isinstance(action, StartBroker)]
    assert started == ([1] if leader_ran else [2, 1])
