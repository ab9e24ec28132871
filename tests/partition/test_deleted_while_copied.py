"""Copies of running brokers whose oldest segments retention deleted meanwhile; and holes that come near that and stay alarms."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from tests.formats import kafka_files
from tests.partition.test_what_if import OTHER_TOPIC_ID, _metadata
from tests.support import in_process
from tests.support.in_process import Row

ALL = (49, 51, 62, 72, 80, 92, 99, 111)  # where segments begin, and the log end
LEADER, THIRD, FOLLOWER = 1, 2, 3


def _replica(
    root: Path,
    broker: int,
    segments: Sequence[int],
    table: Sequence[tuple[int, int]],
    *,
    until: int = ALL[-1],
    high_watermark: int = 80,
    log_start: int | None = None,
    topic_id: str = kafka_files.TOPIC_ID,
    snapshots: Sequence[int] = (),
) -> None:
    """A replica of t-0 with some of the segments, each a batch of epoch 0 as long as the segment."""
    log_dir = root / f"broker-{broker}" / "data-0"
    directory = log_dir / "t-0"
    directory.mkdir(parents=True)
    for base, after in pairwise(ALL):
        if base in segments and base < until:
            kafka_files.segment(directory, base, kafka_files.batch(base, 0, deltas=range(min(after, until) - base), value=b"0"))
    (directory / "leader-epoch-checkpoint").write_bytes(kafka_files.checkpoint(table))
    (directory / "partition.metadata").write_bytes(kafka_files.partition_metadata(topic_id))
    for offset in snapshots:
        (directory / f"{offset:020d}.snapshot").touch()
    (log_dir / "meta.properties").write_bytes(kafka_files.meta_properties(broker))
    (log_dir / "replication-offset-checkpoint").write_bytes(kafka_files.checkpoint([("t", 0, high_watermark)]))
    if log_start is not None:
        (log_dir / "log-start-offset-checkpoint").write_bytes(kafka_files.checkpoint([("t", 0, log_start)]))


def _cluster(root: Path, changed: Mapping[str, Any] | None = None, **states: str) -> Path:
    """The follower's copy lacks 62..71; the leader was copied before, and still has them. `changed`: of the follower."""
    _replica(root, LEADER, (51, 62, 72, 80), [(0, 51)], until=92)
    _replica(root, FOLLOWER, (49, 51, 72, 80), [(0, 72)], until=92) if changed is None else _replica(root, FOLLOWER, **changed)
    _metadata(root, LEADER, epoch=0, brokers=[LEADER, FOLLOWER], isr=[LEADER, FOLLOWER], state="up")
    return _in_states(root, states)


def _in_states(root: Path, states: Mapping[str, str]) -> Path:
    path = root / "cluster-metadata.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    for broker in document["brokers"]:
        broker["state"] = states.get(f"of_{broker['id']}", broker["state"])
    path.write_text(json.dumps(document), encoding="utf-8")
    return root


def _verdict(root: Path, **settings: Any) -> tuple[Row, list[str]]:
    tables = in_process.audit(root, settings=Settings(**settings))
    (row,) = [row for row in tables["replica_verdicts"] if FOLLOWER in (row["follower_id"], row["leader_id"]) and row["topic"] == "t"]
    return row, sorted(problem["code"] for problem in tables["input_errors"])


AS_COPIED = {"segments": (49, 51, 72, 80), "table": [(0, 72)], "until": 92}


def test_a_follower_whose_table_has_moved_on_is_compared_from_there(tmp_path: Path) -> None:
    """As of Kafka 4.3.1: segment 51 was copied, 62 was gone, 72 was copied; retention of 5 s."""
    row, problems = _verdict(_cluster(tmp_path))
    assert (row["verdict"], problems) == ("identical", [])
    assert row["reason"].endswith("; follower 3 deleted segments below offset 72 while they were copied")
    (log,) = [one for one in in_process.audit(tmp_path)["replica_logs"] if one["broker_id"] == FOLLOWER]
    assert (log["log_start_offset"], log["log_end_offset"]) == (72, 92)


@pytest.mark.parametrize("mode", ["epochs", "content", "records"])
def test_what_differs_above_is_found_all_the_same(tmp_path: Path, mode: str) -> None:
    root = _cluster(tmp_path)
    segment = root / "broker-3" / "data-0" / "t-0" / f"{80:020d}.log"
    segment.write_bytes(kafka_files.batch(80, 0, deltas=range(12), value=b"another"))
    row, _problems = _verdict(root, compare=mode)
    assert row["verdict"] == ("identical" if mode == "epochs" else "content_mismatch")


@pytest.mark.parametrize("third", [{"table": [(0, 80)]}, {"table": [(0, 51)], "log_start": 72}], ids=["its table", "its checkpoint"])
def test_the_log_start_of_another_running_replica_tells_it_too(tmp_path: Path, third: dict[str, Any]) -> None:
    _replica(tmp_path, THIRD, (80, 92), until=99, **third)
    root = _cluster(tmp_path, AS_COPIED | {"table": [(0, 49)]})
    assert _verdict(_metadata(root, LEADER, epoch=0, brokers=[1, 2, 3], isr=[1, 2, 3], state="up"))[0]["verdict"] == "identical"


def test_so_it_is_with_the_leaders_copy(tmp_path: Path) -> None:
    _replica(tmp_path, FOLLOWER, (51, 62, 72, 80), [(0, 51)], until=92)
    _replica(tmp_path, LEADER, (49, 51, 72, 80), [(0, 72)], until=92)
    row, problems = _verdict(_metadata(tmp_path, LEADER, epoch=0, brokers=[1, 3], isr=[1, 3], state="up"))
    assert (row["verdict"], problems) == ("identical", [])
    assert "leader 1 deleted segments below offset 72" in row["reason"]


NEVER = "log_matching_violation"


@pytest.mark.parametrize(
    ("changed", "states", "settings"),
    [
        pytest.param(AS_COPIED, {}, {"simultaneous_copies": True}, id="copied at one instant"),
        pytest.param(AS_COPIED, {"of_3": "down"}, {}, id="the broker was down"),
        pytest.param(AS_COPIED, {"of_3": "paused"}, {}, id="the broker was frozen"),
    ],
)
def test_a_hole_stays_an_alarm(tmp_path: Path, changed: dict[str, Any], states: dict[str, str], settings: dict[str, Any]) -> None:
    row, problems = _verdict(_cluster(tmp_path, changed, **states), **settings)
    assert row["verdict"] == NEVER
    assert "missing-offsets" in problems


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"table": [(0, 62)]}, id="it was where the hole begins"),
        pytest.param({"table": [(0, 71)]}, id="it was in the hole"),
        pytest.param({"table": [(0, 49)], "log_start": 62}, id="the checkpoint has it"),
        pytest.param({"segments": (49, 51, 62, 80)}, id="what follows the log start is gone"),
    ],
)
def test_the_log_start_may_have_been_written_before_the_last_segments_were_deleted(tmp_path: Path, changed: dict[str, Any]) -> None:
    """As of Kafka 4.3.1: the table was copied with its start at 2238, then segment 2182, then 2238 was gone, and 2283 was copied."""
    row, problems = _verdict(_cluster(tmp_path, AS_COPIED | changed))
    assert (row["verdict"], problems) == ("identical", [])


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"table": [(0, 49)]}, id="its table was copied before"),
        pytest.param({"table": [(0, 49)], "log_start": 60}, id="its checkpoint is of before"),
    ],
)
def test_a_hole_in_the_copy_of_a_running_broker_may_be_the_copys_own(tmp_path: Path, changed: dict[str, Any]) -> None:
    row, _problems = _verdict(_cluster(tmp_path, AS_COPIED | changed))
    assert (row["verdict"], row["cause"]) == ("inconclusive", "deleted while copied")
    assert "no segment of the copy of broker 3 holds offsets 62..71" in row["reason"]


def test_so_it_may_be_of_the_leaders_copy(tmp_path: Path) -> None:
    _replica(tmp_path, FOLLOWER, (51, 62, 72, 80), [(0, 51)], until=92)
    _replica(tmp_path, LEADER, (49, 51, 72, 80), [(0, 49)], until=92)
    row, _problems = _verdict(_metadata(tmp_path, LEADER, epoch=0, brokers=[1, 3], isr=[1, 3], state="up"))
    assert (row["verdict"], row["cause"]) == ("inconclusive", "leader unknown or unreadable")
    assert "no segment of the copy of broker 1 holds offsets 62..71" in row["reason"]


@pytest.mark.parametrize("state", ["down", "up"])
def test_the_log_start_of_another_counts_only_if_it_runs_and_is_of_the_topic(tmp_path: Path, state: str) -> None:
    topic_id = OTHER_TOPIC_ID if state == "up" else kafka_files.TOPIC_ID
    _replica(tmp_path, THIRD, (80, 92), [(0, 80)], until=99, topic_id=topic_id)
    root = _cluster(tmp_path, AS_COPIED | {"table": [(0, 49)]})
    _in_states(_metadata(root, LEADER, epoch=0, brokers=[1, 2, 3], isr=[1, 3], state="up"), {"of_2": state})
    assert _verdict(root)[0]["verdict"] == "inconclusive"


def test_a_hole_inside_a_segment_was_not_deleted(tmp_path: Path) -> None:
    """Retention deletes whole files: what a file lacks between two batches its broker never had."""
    root = _cluster(tmp_path, {"segments": (49, 51, 62, 72, 80), "table": [(0, 49)], "until": 92})
    segment = root / "broker-3" / "data-0" / "t-0" / f"{51:020d}.log"
    segment.write_bytes(kafka_files.batch(51, 0, deltas=range(3), value=b"0") + kafka_files.batch(58, 0, deltas=range(4), value=b"0"))
    _replica(tmp_path, THIRD, (80, 92), [(0, 80)], until=99)
    row, _problems = _verdict(_metadata(root, LEADER, epoch=0, brokers=[1, 2, 3], isr=[1, 2, 3], state="up"))
    assert row["verdict"] == NEVER


# --- not one segment was left -------------------------------------------------------------------------------------------------------------

GONE: dict[str, Any] = {"segments": (), "table": [(0, 72)], "high_watermark": 72, "snapshots": (72, 80)}


def _all_gone(root: Path, gone: Mapping[str, Any], *, leader_start: int = 80, **states: str) -> tuple[str, str | None, list[str]]:
    _replica(root, LEADER, (80, 92), [(0, leader_start)], until=99)
    _replica(root, FOLLOWER, **gone)
    _in_states(_metadata(root, LEADER, epoch=0, brokers=[1, 3], isr=[1, 3], state="up"), states)
    row, problems = _verdict(root)
    return row["verdict"], row["cause"], problems


def test_all_that_was_listed_was_deleted(tmp_path: Path) -> None:
    """As of Kafka 3.9.2: the copy has two snapshots, the table, and no segment; the leader's log starts where they end."""
    assert _all_gone(tmp_path, GONE) == ("inconclusive", "deleted while copied", ["no-segments"])


def test_a_broker_that_started_while_it_was_copied(tmp_path: Path) -> None:
    """The marker of its clean shutdown was copied before it started; the metadata log knows that it runs."""
    (tmp_path / "broker-3" / "data-0").mkdir(parents=True)
    (tmp_path / "broker-3" / "data-0" / ".kafka_cleanshutdown").touch()
    assert _all_gone(tmp_path, GONE)[:2] == ("inconclusive", "deleted while copied")


LEFT = [
    pytest.param({"high_watermark": 81}, 80, {}, id="its high watermark lies above the leader's log start"),
    pytest.param({"snapshots": (72, 81)}, 80, {}, id="a snapshot does"),
    pytest.param({}, 79, {}, id="the leader's log starts one offset earlier"),
    pytest.param({"table": [], "high_watermark": 0, "snapshots": ()}, 80, {}, id="nothing is written down of it"),
    pytest.param({}, 80, {"of_1": "down"}, id="the leader was down"),
]


@pytest.mark.parametrize(("changed", "leader_start", "states"), LEFT)
def test_a_running_broker_always_has_a_segment(tmp_path: Path, changed: dict[str, Any], leader_start: int, states: dict[str, str]) -> None:
    """As of Kafka 4.3.1: a follower rolled at 39 and deleted all below while it was copied; every table still began at 38."""
    assert _all_gone(tmp_path, GONE | changed, leader_start=leader_start, **states) == (
        "inconclusive",
        "deleted while copied",
        ["no-segments"],
    )


@pytest.mark.parametrize("state", ["down", "paused"])
@pytest.mark.parametrize(("changed", "leader_start", "states"), [*LEFT, pytest.param({}, 80, {}, id="all below the leader's start")])
def test_a_replica_without_a_segment_was_not_copied(
    tmp_path: Path, changed: dict[str, Any], leader_start: int, states: dict[str, str], state: str
) -> None:
    """Of a broker that stands still nothing is deleted while it is copied."""
    found = _all_gone(tmp_path, GONE | changed, leader_start=leader_start, **states, of_3=state)
    assert found == ("inconclusive", "segments not copied", ["no-segments"])


@pytest.mark.parametrize("changed", [{}, {"high_watermark": 81}], ids=["below", "above"])
def test_so_it_is_if_all_was_copied_at_one_instant(tmp_path: Path, changed: dict[str, Any]) -> None:
    _all_gone(tmp_path, GONE | changed)
    row = _verdict(tmp_path, simultaneous_copies=True)[0]
    assert (row["verdict"], row["cause"]) == ("inconclusive", "segments not copied")


def test_a_leader_of_which_no_segment_was_copied_is_no_alarm(tmp_path: Path) -> None:
    _replica(tmp_path, FOLLOWER, (80, 92), [(0, 80)], until=99)
    _replica(tmp_path, LEADER, **GONE)
    root = _metadata(tmp_path, LEADER, epoch=0, brokers=[1, 3], isr=[1, 3], state="up")
    tables = in_process.audit(root)
    assert [(row["verdict"], row["cause"]) for row in tables["replica_verdicts"]] == [("inconclusive", "leader unknown or unreadable")]
    assert "unreadable" not in {row["code"] for row in tables["found"]}
    _in_states(root, {"of_1": "down"})
    assert "unreadable" not in {row["code"] for row in in_process.audit(root)["found"]}, "a log on a broker has a segment: copy it again"
