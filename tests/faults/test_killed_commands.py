"""`collect`, `salvage` and `maintain` killed at random moments: nothing half counts, and the same command again does all of it.

REPLICA_AUDIT_KILLS is the number of moments of each (2; of `maintain` half as many), REPLICA_AUDIT_KILL_SEED what they are drawn from (0).
"""

from __future__ import annotations

import json
import os
import random
import shutil
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from replica_audit import cli
from tests.collect.collections import lasting
from tests.faults.audit_process import Moment, Victim, files_below, started_job
from tests.faults.nights import LOSS, reported, rows_of, runs
from tests.support.warehouse import STARTED, write_warehouse

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
KILLS = int(os.environ.get("REPLICA_AUDIT_KILLS", "2"))
SEED = int(os.environ.get("REPLICA_AUDIT_KILL_SEED", "0"))
BROKER = LOSS / "broker-1" / "data-0"
NAMES = {name: name for name in ("oldest", "older", "kept")}
points = pytest.mark.parametrize("point", range(KILLS))


def killed(point: int, command: str, written: Path, working: Path, *arguments: str, files: int, seconds: float) -> bool:
    """Start a command and kill it, with all that it started: after so many files, or so many seconds. False if it had ended before."""
    chosen = random.Random(f"{SEED} {command} {point}")  # noqa: S311
    moment = Moment(lines=0, files=chosen.randint(1, files), seconds=chosen.uniform(0, 0.01))
    if point % 2:
        moment = Moment(lines=0, files=0, seconds=chosen.uniform(0, seconds))
    working.mkdir(exist_ok=True)
    with started_job(command, written, working, *arguments) as process:
        if not process.wait_for(moment):
            assert process.end() in (0, 3), process.lines
            return False
        process.kill(Victim.EVERYTHING)
    return True


def held(folder: Path) -> dict[str, object]:
    """What is in a folder, by path; nothing of what differs between two runs of a command."""
    found: dict[str, object] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if path.suffix == ".parquet":
            found[name] = [lasting(row) for row in pq.read_table(str(path)).to_pylist()]
        else:
            found[name] = lasting(json.loads(path.read_bytes())) if path.suffix == ".json" else path.read_bytes()
    return found


@points
def test_collect(tmp_path: Path, point: int) -> None:
    before = held(BROKER)
    whole, output = tmp_path / "whole", tmp_path / "output"
    assert cli.main(["collect", "--log-dir", str(BROKER), "--output", str(whole)]) == 0
    arguments = ("--log-dir", str(BROKER), "--output", str(output))
    files = len(files_below(whole))
    killed(point, "collect", output, tmp_path / "working", *arguments, files=files, seconds=2)
    if (output / "broker-1").exists():  # in its place at once, when it is whole
        assert held(output / "broker-1") == held(whole / "broker-1")
    assert cli.main(["collect", "--replace", *arguments]) == 0
    assert held(output) == held(whole)
    assert held(BROKER) == before


@points
def test_salvage(tmp_path: Path, point: int) -> None:
    write_warehouse(tmp_path / "warehouse", LOSS)
    whole, output = tmp_path / "whole", tmp_path / "output"
    of_run = ("--local", "--warehouse", str(tmp_path / "warehouse"))
    code = cli.main(["salvage", *of_run, "--output", str(whole)])
    killed(point, "salvage", output, tmp_path / "working", *of_run, "--output", str(output), files=len(files_below(whole)), seconds=3)
    assert cli.main(["salvage", *of_run, "--output", str(output)]) == code
    assert {name.replace(str(output), str(whole)) for name in held(output)} == held(whole).keys()
    of_output, of_whole = (
        {name: value for name, value in held(folder).items() if name.endswith((".parquet", ".txt"))} for folder in (output, whole)
    )
    assert of_output == of_whole


@pytest.mark.spark
@pytest.mark.parametrize("point", range(KILLS // 2))
def test_maintain(tmp_path: Path, capsys: pytest.CaptureFixture[str], point: int) -> None:
    warehouse = tmp_path / "warehouse"
    for number, run_id in enumerate(NAMES):
        write_warehouse(warehouse, LOSS, run_id=run_id, started_at=STARTED + timedelta(days=number))
    shown, kept = reported(warehouse, capsys), rows_of(warehouse, "kept", NAMES)
    arguments = ("--warehouse", str(warehouse), "--keep-days", "1", "--keep-runs", "1")
    killed(point, "maintain", warehouse, tmp_path / "working", *arguments, files=20, seconds=25)
    assert reported(warehouse, capsys) == shown
    assert rows_of(warehouse, "kept", NAMES) == kept
    with started_job("maintain", warehouse, tmp_path / "working", *arguments) as process:
        assert process.end() == 0, process.lines
    assert runs(warehouse) == {"kept": {"complete"}}
    assert reported(warehouse, capsys) == shown
    assert rows_of(warehouse, "kept", NAMES) == kept
    shutil.rmtree(tmp_path / "working", ignore_errors=True)
