"""An audit killed at random moments: the run before still is the latest, the run can be made again, the next one is right, nothing is left.

REPLICA_AUDIT_KILLS is the number of moments (3), REPLICA_AUDIT_KILL_SEED what they are drawn from (0); REPLICA_AUDIT_KILL_LOG names a file
that takes a line of JSON for each. A moment is drawn by progress: so many lines told, or so many files made, and then some time.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replica_audit.maintain.run import UpkeepRequest, maintain
from replica_audit.rows import FINDINGS
from tests.faults.audit_process import AuditProcess, Moment, Victim, files_below, started
from tests.faults.nights import LOSS, RUN_DATE, Rows, audit, reported, rows_of, runs, second_night, unknown_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.nightly]
KILLS = int(os.environ.get("REPLICA_AUDIT_KILLS", "3"))
SEED = int(os.environ.get("REPLICA_AUDIT_KILL_SEED", "0"))
VICTIMS = (Victim.EVERYTHING, Victim.PYTHON, Victim.JVM)
LINES = 8  # more than an audit tells until it is done
SAME = {"before": "before", "second": "second", "third": "third"}
STATUSES = {"new", "persisting", "resolved", "unconfirmed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisturbed:
    """A warehouse before the second night, the inputs of that, and the rows of two runs of them, one after the other.

    `files` is how many files the first of the two makes.
    """

    warehouse: Path
    inputs: tuple[Path, ...]
    second: Rows
    third: Rows
    files: int


def made(spark: SparkSession, folder: Path, warehouse: Path) -> Undisturbed:
    inputs, other = second_night(folder), folder / "other"
    shutil.copytree(warehouse, other)
    there = files_below(other)
    audit(spark, other, "second", *inputs)
    files = len(files_below(other) - there)
    audit(spark, other, "third", *inputs)
    second, third = (rows_of(other, run_id, SAME) for run_id in ("second", "third"))
    return Undisturbed(warehouse=warehouse, inputs=inputs, second=second, third=third, files=files)


@pytest.fixture(scope="module")
def later_night(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The warehouse has a complete run, `before`."""
    folder = tmp_path_factory.mktemp("later")
    audit(spark, folder / "warehouse", "before", LOSS)
    night = made(spark, folder, folder / "warehouse")
    assert {json.loads(row)["status"] for row in night.second[FINDINGS.name]} == STATUSES
    return night


@pytest.fixture(scope="module")
def first_night(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The warehouse is an empty folder: its tables are made, too."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "warehouse").mkdir()
    return made(spark, folder, folder / "warehouse")


def drawn(point: int, files: int) -> tuple[Moment, Victim]:
    """Moments between two lines, and, twice as many, between two files."""
    chosen = random.Random(f"{SEED} {point}")  # noqa: S311
    if point % 3 == 1:
        moment = Moment(lines=chosen.randrange(LINES), files=0, seconds=chosen.uniform(0, 1.5))
    else:
        moment = Moment(lines=0, files=chosen.randint(1, files), seconds=chosen.uniform(0, 0.05))
    return moment, VICTIMS[point % 3 if point < 3 else chosen.randrange(3)]


def written(warehouse: Path, run_id: str) -> int:
    """In how many tables a run has rows."""
    return sum(bool(rows) for rows in rows_of(warehouse, run_id, SAME).values())


def phase(warehouse: Path, killed: AuditProcess) -> str:
    status = runs(warehouse).get("second", set())
    if status:
        assert len(status) == 1, "the rows of a run say one thing"
        (one,) = status
        return f"{one}, rows in {written(warehouse, 'second')} tables"
    return f"not begun, {len(killed.lines)} lines told"


@pytest.mark.parametrize("point", range(KILLS))
def test_after_a_kill(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest, point: int
) -> None:
    undisturbed: Undisturbed = request.getfixturevalue("first_night" if point % 5 == 4 else "later_night")
    warehouse, working = tmp_path / "warehouse", tmp_path / "working"
    shutil.copytree(undisturbed.warehouse, warehouse)
    working.mkdir()
    shown, known = reported(warehouse, capsys), runs(warehouse)
    moment, victim = drawn(point, undisturbed.files)
    inputs = [part for path in undisturbed.inputs for part in ("--input", str(path))]
    with started(warehouse, working, *inputs, "--run-id", "second", "--run-date", str(RUN_DATE)) as process:
        if was_killed := process.wait_for(moment):
            process.kill(victim)
        else:
            assert process.end() == 1, process.errors()
    reached = phase(warehouse, process)
    is_complete = runs(warehouse).get("second") == {"complete"}
    assert is_complete or was_killed

    # whoever reads sees the run that is complete
    if is_complete:
        assert rows_of(warehouse, "second", SAME) == undisturbed.second
    elif known:
        assert reported(warehouse, capsys) == shown
    else:
        assert reported(warehouse, capsys)[0] == shown[0] == 2, "no run is complete"

    # the same run again, then the next one; or the next night first
    ids = ("second", "third") if is_complete or point % 2 == 0 else ("third", "second")
    names = {"before": "before", **dict(zip(ids, ("second", "third"), strict=True))}
    for run_id, expected in zip(ids, (undisturbed.second, undisturbed.third), strict=True):
        audit(spark, warehouse, run_id, *undisturbed.inputs)
        assert rows_of(warehouse, run_id, names) == expected
    assert runs(warehouse) == known | {"second": {"complete"}, "third": {"complete"}}

    left = unknown_files(warehouse)
    for path in left:
        os.utime(path, (1, 1))
    upkeep = UpkeepRequest(warehouse=str(warehouse), keep_days=4000, keep_runs=50)
    assert maintain(upkeep, lambda _line: None).exit_code == 0
    assert not unknown_files(warehouse)
    for run_id, expected in zip(ids, (undisturbed.second, undisturbed.third), strict=True):
        assert rows_of(warehouse, run_id, names) == expected
    told = {"victim": victim, "moment": asdict(moment), "reached": reached, "left_files": len(left), "errors": process.errors()}
    if log := os.environ.get("REPLICA_AUDIT_KILL_LOG"):
        with Path(log).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"point": point, "seed": SEED, **told}) + "\n")
