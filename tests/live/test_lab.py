"""The laboratory cleans up after itself, whatever ends it, and its comparisons fire. No broker is started here."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.kafka_lab.consumers import Seen, differences
from tests.kafka_lab.files import replica_directories
from tests.kafka_lab.planted import plant
from tests.kafka_lab.predicted import Performed, by_the_files, by_the_log, lines_of, performed
from tests.kafka_lab.process import free_ports, kill, spawn
from tests.support import in_process

ROOT = Path(__file__).resolve().parents[2]
_SAMPLE = ROOT / "tests" / "data" / "sample" / "multi-round"
_PARENT = """
import sys, time
from pathlib import Path
from tests.kafka_lab.process import spawn
print(spawn(["sleep", "3600"], Path(sys.argv[1])).pid, flush=True)
time.sleep(3600)
"""


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_processes_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PARENT, str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert _runs(child)
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 300
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(child)


def test_a_frozen_process_is_ended(tmp_path: Path) -> None:
    process = spawn(["sleep", "600"], tmp_path / "out")
    os.kill(process.pid, signal.SIGSTOP)
    kill(process)
    assert process.returncode == -signal.SIGKILL


def test_ports_are_free_and_out_of_the_kernels_way() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert max(ports) < max(lowest, 30_000)


def _of_the_sample() -> tuple[dict[str, list[dict[str, Any]]], dict[tuple[str, int, int], Performed]]:
    return in_process.audit(_SAMPLE), performed(lines_of(_SAMPLE / "broker-2" / "server.log", 2, 0))


def test_a_prediction_that_a_broker_did_not_perform_is_told() -> None:
    tables, did = _of_the_sample()
    points = [row for row in tables["truncation_points"] if row["applies"] and row["follower_id"] == 2 and row["truncation_offset"]]
    assert points
    for point in points:
        log = did[point["topic"], point["partition"], 2]
        assert not list(by_the_log(point, log))
        last = point["rounds"][-1]
        wrong: list[dict[str, Any]] = [
            {"truncation_offset": point["truncation_offset"] + 1},
            {"restart_offset": 0},
            {"fetcher_fails": True},
            {"rounds": [*point["rounds"][:-1], last | {"answered_end_offset": -5, "truncate_to": 1}]},
        ]
        for change in wrong:
            assert len(list(by_the_log(point | change, log))) == 1, change


def test_files_that_did_not_become_what_was_predicted_are_told() -> None:
    """Nothing happened to the files of the sample: where a cut was predicted that is one difference for each follower."""
    tables, _did = _of_the_sample()
    verdicts = {(row["topic"], row["partition"], row["follower_id"]): row for row in tables["replica_verdicts"]}
    found = replica_directories(_SAMPLE)
    cut = [row for row in tables["truncation_points"] if row["applies"] and row["truncation_offset"] is not None]
    assert cut
    for point in cut:
        key = (point["topic"], point["partition"], point["follower_id"])
        leads = found[point["topic"], point["partition"], point["leader_id"]]
        told = list(by_the_files(point, verdicts[key], (found[key], found[key], leads), point["leader_id"]))
        assert told
        counted = verdicts[key] | {"removed_records": -1}
        assert len(list(by_the_files(point, counted, (found[key], found[key], leads), point["leader_id"]))) == len(told) + 1


def test_a_planted_batch_is_found(tmp_path: Path) -> None:
    root = tmp_path / "copy"
    shutil.copytree(_SAMPLE.parent / "clean-in-sync", root)
    rows = in_process.audit(root)["replica_verdicts"]
    leaders = {(row["topic"], row["partition"]): row["leader_id"] for row in rows if row["verdict"] in ("identical", "lagging")}
    key = plant(root, leaders, random.Random(1), topics={topic for topic, _ in leaders if not topic.startswith("__")})  # noqa: S311
    assert key
    after = {(row["topic"], row["partition"], row["follower_id"]): row for row in in_process.audit(root)["replica_verdicts"]}
    assert {name for name, row in after.items() if row["severity"] in ("error", "critical")} == {key}


def test_what_a_group_finds_otherwise_is_told() -> None:
    row = {
        "reset_offset": 2,
        "validation_result": "truncated",
        "records_gone": 1,
        "records_reread": 0,
        "records_missed": 0,
        "affected": True,
    }
    before, content = Seen({0: b"a", 1: b"b", 2: b"c"}), Seen({0: b"a", 1: b"b", 2: b"d"})
    resumed = Seen({2: b"d"}, 3)
    now = {"earliest": resumed, "latest": resumed, "none": Seen(error="truncated", error_offset=2)}
    assert not list(differences(row, before, content, now))
    for change in ({"records_gone": 2}, {"records_reread": 1}, {"records_missed": 1}, {"affected": False}):
        assert len(list(differences(row | change, before, content, now))) == 1, change
    assert len(list(differences(row, before, content, now | {"none": Seen()}))) == 1
    assert list(differences(row, before, content, now | {"latest": Seen({}, 3)}))
