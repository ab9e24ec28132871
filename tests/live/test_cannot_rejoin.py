"""A leader whose checkpoint lacks an epoch of its own log: followers that the audit says cannot come back do not, and the remedy works."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from replica_audit import cli
from tests.kafka_lab.cluster import Lab, wait_until
from tests.kafka_lab.files import batches, checkpointed_epochs, replica_directories
from tests.kafka_lab.load import Batch, create_topic, delete_topics, send
from tests.kafka_lab.node import Node
from tests.kafka_lab.snapshot import copy_all
from tests.live.plan_steps import Operator, tools
from tests.support import in_process

pytestmark = [pytest.mark.live, pytest.mark.slow]
_WRITTEN_ON = {"rejoin-passes", "rejoin-rolled"}  # the others get nothing in the epoch after the one that is left out
_TOPICS = {"rejoin-quiet", *_WRITTEN_ON}
_TIMES = 10


def test_a_follower_that_cannot_rejoin(lab: Lab, tmp_path: Path) -> None:
    leader, follower = lab.brokers[1], lab.brokers[2]
    for topic in sorted(_TOPICS):
        settings: dict[str, object] = {"segment_ms": 1000} if topic == "rejoin-rolled" else {}
        create_topic(lab, topic, {0: [1, 2]}, min_insync_replicas=1, unclean_leader_election_enable="false", **settings)
        send(lab, [Batch(topic, 0, 5, 100)], acks="all")
    lab.wait_in_sync(*_TOPICS)
    follower.terminate()
    lab.wait_for("broker 1 leads alone", _TOPICS, lambda one: set(one["isr_nodes"]) == {1})
    _restart(lab)
    for topic in sorted(_TOPICS):
        send(lab, [Batch(topic, 0, 5, 100)], acks="all")
    leader.terminate()
    files = {topic: leader.log_dirs[0] / f"{topic}-0" / "leader-epoch-checkpoint" for topic in _TOPICS}
    left_out = {topic: _leave_out_the_last(file) for topic, file in files.items()}
    time.sleep(1.5)
    _start(lab)
    for topic in sorted(_WRITTEN_ON):
        send(lab, [Batch(topic, 0, 5, 100)], acks="all")

    root = copy_all(lab, tmp_path / "copy")
    tables = in_process.audit(root)
    verdicts = {row["topic"]: row for row in tables["replica_verdicts"] if row["topic"] in _TOPICS}
    said = {topic: row["verdict"] for topic, row in verdicts.items()}
    assert said == {"rejoin-quiet": "cannot_rejoin", "rejoin-rolled": "cannot_rejoin", "rejoin-passes": "epoch_table_only"}
    for topic in ("rejoin-quiet", "rejoin-rolled"):
        epoch, start = left_out[topic]
        assert verdicts[topic]["wrong_lines"] == [{"epoch": epoch, "start_offset": start, "found_offset": None}]
        assert f"`{epoch} {start}`" in verdicts[topic]["reason"]
    logs = {row["topic"]: row for row in tables["replica_logs"] if (row["broker_id"], row["state"]) == (1, "current")}
    for topic in ("rejoin-quiet", "rejoin-rolled"):
        healed = logs[topic]["rejoins_once_corrected"]
        assert [(one["follower_id"], one["truncation_offset"], one["catches_up"]) for one in healed] == [(2, None, True)]

    seen = follower.log.stat().st_size
    follower.start()
    lab.wait_for("what passes is in sync", ["rejoin-passes"], lambda one: set(one["isr_nodes"]) == {1, 2})
    back_to = {topic: f"Truncating to offset {verdicts[topic]['stuck']['back_to_offset']} " for topic in ("rejoin-quiet", "rejoin-rolled")}
    _wait_sent_back(follower, seen, back_to)
    stuck = {topic for (topic, _), one in lab.partitions(*_TOPICS).items() if set(one["isr_nodes"]) == {1}}
    assert stuck == {"rejoin-quiet", "rejoin-rolled"}

    follower.terminate()  # the remedy that does not help
    for topic in stuck:
        shutil.rmtree(follower.log_dirs[0] / f"{topic}-0")
    seen = follower.log.stat().st_size
    follower.start()
    lab.wait_for("what passes is in sync", ["rejoin-passes"], lambda one: set(one["isr_nodes"]) == {1, 2})
    _wait_sent_back(follower, seen, dict.fromkeys(stuck, "Truncating to offset "))
    assert {topic for (topic, _), one in lab.partitions(*_TOPICS).items() if set(one["isr_nodes"]) == {1}} == stuck

    root, plan = copy_all(lab, tmp_path / "stuck"), tmp_path / "plan"
    assert cli.main(["triage", "--input", str(root), "--topics", "rejoin-.*", "--plan", str(plan)]) == 1
    operator = Operator(lab, tools(lab, tmp_path / "bin"), tmp_path / "safe", audited=root)
    steps = operator.do(plan)
    correcting = [step for step in steps if "corrects" in step.title]
    assert len(correcting) == 1, "one restart for all files of broker 1"
    assert {*correcting[0].partitions} >= {f"{topic}-0" for topic in stuck}
    for topic in stuck:
        right = sorted([*checkpointed_epochs(root / "broker-1" / "data-0" / f"{topic}-0"), left_out[topic]])
        assert checkpointed_epochs(plan / "checkpoints" / "broker-1" / f"{topic}-0") == right
        with_batches = [entry for entry in right if entry[1] < batches(files[topic].parent)[-1].last + 1]  # a start drops others
        assert set(with_batches) <= set(checkpointed_epochs(files[topic].parent)), "epochs of later elections come behind them"
    lab.wait_in_sync(*_TOPICS)
    after = in_process.audit(copy_all(lab, tmp_path / "after"))["replica_verdicts"]
    assert {row["verdict"] for row in after if row["topic"] in stuck} <= {"identical", "lagging", "consistent"}
    assert replica_directories(tmp_path / "after")
    delete_topics(lab, *_TOPICS)


def _wait_sent_back(follower: Node, seen: int, back_to: dict[str, str]) -> None:
    """Wait until each topic was sent back again and again, by what the follower logged behind a byte of its log."""

    def again_and_again() -> bool:
        lines = follower.said(seen).splitlines()
        return all(sum(f"partition={topic}-0" in line and words in line for line in lines) >= _TIMES for topic, words in back_to.items())

    wait_until("the follower is sent back again and again", again_and_again)


def _restart(lab: Lab) -> None:
    lab.brokers[1].terminate()
    _start(lab)


def _start(lab: Lab) -> None:
    lab.brokers[1].start()
    lab.wait_for("broker 1 leads", _TOPICS, lambda one: one["leader_id"] == 1)


def _leave_out_the_last(file: Path) -> tuple[int, int]:
    found = checkpointed_epochs(file.parent)
    _write(file, found[:-1])
    return found[-1]


def _write(file: Path, entries: list[tuple[int, int]]) -> None:
    file.write_text("".join(f"{line}\n" for line in ["0", len(entries), *(f"{epoch} {start}" for epoch, start in entries)]))
