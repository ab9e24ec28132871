"""Collecting while a broker is at work: what is taken is a log that could have been, and no race is told as an error."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from replica_audit.collect import CollectRequest, CollectResult, collect
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.model import Problem
from tests.collect.collections import quietly
from tests.support import in_process

ROOT = Path(__file__).resolve().parents[2]
TIMES = 15


@contextmanager
def at_work(log_dir: Path, seed: int) -> Iterator[subprocess.Popen[str]]:
    """A process that works on a log directory like a broker."""
    command = [sys.executable, "-m", "tests.collect.live_broker", str(log_dir), str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT / "lib")})
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        yield process
        assert process.poll() is None, "it worked to the end"
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def taken(log_dir: Path, output: Path) -> CollectResult:
    result = collect(CollectRequest(output=output, log_dirs=(log_dir,), replace=True), quietly)
    assert result.manifest.log_dirs[0].in_use is True
    return result


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_busy_broker_is_collected_without_an_error(seed: int, tmp_path: Path) -> None:
    log_dir, output = tmp_path / "data", tmp_path / "collected"
    log_dir.mkdir()
    ends: set[int] = set()
    with at_work(log_dir, seed):
        taken_so_far = 0
        while taken_so_far < TIMES or len(ends) <= 10:  # on and on where the broker is slow
            taken_so_far += 1
            result = taken(log_dir, output)
            assert not result.unread
            check(output)
            ends.update(replica.size_bytes for replica in result.manifest.log_dirs[0].replicas)


def check(root: Path) -> None:
    """The rows of an audit of one busy broker: nothing wrong, and nothing that contradicts itself."""
    assert not [found for found in replicas_of(root / "broker-1") if isinstance(found, Problem)]
    tables = in_process.audit(root)
    assert not tables["problems"]
    assert not tables["input_errors"]
    logs = {(row["topic"], row["partition"]): row for row in tables["replica_logs"] if row["state"] == "current"}
    assert {("plain", 0), ("plain", 1), ("cleaned", 0)} <= logs.keys()
    for row in logs.values():
        assert row["unreadable_reason"] is None
        assert row["checkpoint_state"] == "ok"
        if row["topic"] != "made-again":  # the checkpoint may still tell of the topic before
            assert (row["high_watermark"] or 0) <= row["log_end_offset"]
    for row in tables["epoch_start_offsets"]:
        assert row["difference"] != "corrupt", row
    for key in logs:
        rows = [row for row in tables["segment_epochs"] if (row["topic"], row["partition"]) == key]
        rows.sort(key=lambda row: row["first_offset"])
        for before, after in pairwise(rows):
            assert after["leader_epoch"] >= before["leader_epoch"]
            if key[0] != "cleaned":
                assert after["first_offset"] == before["last_offset"] + 1
