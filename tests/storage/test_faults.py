"""Disks that fill up, turn read-only or go while an audit writes: one line, exit code 2, and no row lost."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException

from replica_audit.errors import OutputError
from replica_audit.storage.warehouse import faults
from replica_audit.storage.warehouse.place import fault_of, warehouse_place
from tests.formats.rights import as_nobody, open_to_all
from tests.house.checkout import ROOT
from tests.storage.broken_disks import CLUSTER, FULL_AT
from tests.support import in_process

BROKEN_DISKS = Path(__file__).with_name("broken_disks.py")


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """How each audit of `broken_disks` ended, what the JVM said, and the folder that holds what was kept."""
    folder = tmp_path_factory.mktemp("disks")
    command = ["unshare", "--map-root-user", "--mount", sys.executable, str(BROKEN_DISKS), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return {"folder": folder, "jvm": done.stderr, **json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.nightly
class TestOfAnAudit:
    """One session, one fault after the other."""

    @pytest.mark.parametrize(
        ("fault", "where", "why", "remedy"),
        [
            ("full", "warehouse {}/disk/warehouse", "No space left on device", "free some space or give another --warehouse"),
            ("read-only", "warehouse {}/disk/warehouse", "Read-only file system", "make it writable or give another --warehouse"),
            ("working full", "Spark's working directory {}/working", "No space left on device", "or give another with the variable SPARK"),
        ],
    )
    def test_a_disk_that_cannot_be_written_is_named(self, ends: dict[str, Any], fault: str, where: str, why: str, remedy: str) -> None:
        for end in (ends[fault], ends[f"{fault} from the start"]):
            assert end["code"] == 2
            (line,) = end["said"]
            # before a run is begun, the option is named that gave the directory
            assert line.removeprefix("error: ").removeprefix("--").startswith(f"{where.format(ends['folder'])}: {why}")
            assert remedy in line
        assert ends[fault]["said"][0].endswith("then give the same --run-id again; what this run wrote does not count")

    @pytest.mark.parametrize("percent", FULL_AT)
    def test_a_disk_that_fills_up_while_tables_are_written(self, ends: dict[str, Any], percent: int) -> None:
        """The tables stay readable, and the run before is still the one that is shown."""
        end = ends[f"full at {percent} %"]
        assert end["code"] == 2
        (line,) = end["said"]
        assert line.startswith(f"error: warehouse {ends['folder']}/disk/warehouse: No space left on device; free some space")
        assert ends[f"shown at {percent} %"] == {"code": 0, "run_id": "measured"}

    def test_a_warehouse_that_was_removed_is_named(self, ends: dict[str, Any]) -> None:
        assert ends["removed"]["code"] == 2
        (line,) = ends["removed"]["said"]
        assert line.startswith(f"error: warehouse {ends['folder']}/disk/warehouse: it or its disk was removed; bring it back")

    def test_the_terminal_shows_no_trace_of_the_jvm(self, ends: dict[str, Any]) -> None:
        assert "\tat " not in ends["jvm"]
        assert " ERROR " not in ends["jvm"]

    def test_what_was_complete_stays_and_the_run_can_be_made_again(self, ends: dict[str, Any]) -> None:
        assert [ends[name] for name in ("before", "measured", "again", "again at 50 %")] == [{"code": 1, "said": []}] * 4
        kept = {table.name: DeltaTable(str(table)).to_pyarrow_table().to_pylist() for table in (ends["folder"] / "kept").iterdir()}
        complete = {"before", "measured", "run", "at-50"}
        statuses = {(row["run_id"], row["status"]) for row in kept["audit_runs"]}
        assert statuses == {(run_id, "complete") for run_id in complete} | {("at-20", "running"), ("at-80", "running")}
        expected = in_process.audit(CLUSTER)
        for name in ("replica_verdicts", "truncation_points", "segment_epochs"):
            for run_id in complete:
                assert sum(row["run_id"] == run_id for row in kept[name]) == len(expected[name]), (name, run_id)


def test_a_place_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    faults.check((warehouse_place(str(tmp_path)), None))
    assert not list(tmp_path.iterdir())
    assert fault_of(tmp_path / "gone") == errno.ENOENT


def test_a_place_of_another_user_is_told() -> None:
    with open_to_all() as parent:
        (parent / "roots").mkdir()
        (parent / "roots").chmod(0o755)

        def checked() -> None:
            faults.check((warehouse_place(str(parent / "roots")),))

        if as_nobody(lambda: fault_of(parent / "roots")) is None:
            (parent / "roots").chmod(0o555)  # not root: the folder is our own
        with pytest.raises(OutputError, match=r"roots: Permission denied; make it writable or give another --warehouse"):
            as_nobody(checked)


@pytest.mark.parametrize("location", ["s3a://bucket/audits", "spark_catalog.audits"])
def test_a_store_and_a_catalog_are_no_places_of_this_machine(location: str) -> None:
    assert warehouse_place(location) is None


# as Spark 4.2.1 with Delta 4.4.0 tells it through Connect, of two UPDATEs of a table of its catalog at the same time
LOST_RACE = "(io.delta.exceptions.ConcurrentAppendException) [DELTA_CONCURRENT_APPEND.WITHOUT_HINT] Transaction conflict detected."


@pytest.mark.parametrize(
    ("told", "is_lost"),
    [
        (LOST_RACE, True),
        ("(org.apache.spark.SparkException) Job aborted: io.delta.exceptions.ConcurrentAppendException", False),
    ],
)
def test_a_lost_race_that_connect_tells_of_is_a_conflict(told: str, is_lost: bool) -> None:
    assert faults.is_conflict(PySparkException(told)) == is_lost
    assert not faults.is_conflict(ValueError(told))
