"""Audits while a disk fills up, turns read-only or goes: run as `unshare --map-root-user --mount python broken_disks.py FOLDER`.

In a mount namespace of its own, where any user may mount a small file system; prints, as JSON, how each audit ended.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replica_audit.storage.warehouse.holds import Hold

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]
CLUSTER = ROOT / "tests" / "data" / "sample" / "multi-round"
FULL_AT = (20, 50, 80)  # percent of what a run needs


def mount(*arguments: str | Path) -> bool:
    return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode == 0


def fill(disk: Path, leave: int = 0) -> None:
    """Leave nothing free, whatever is freed meanwhile, but so many bytes."""
    with (disk / "ballast").open("ab", buffering=0) as ballast:
        if leave:
            ballast.write(bytes(free(disk) - leave))
            return
        for size in (1 << 16, 1):
            with contextlib.suppress(OSError):
                while True:
                    ballast.write(bytes(size))


def free(disk: Path) -> int:
    """Bytes that can be written yet."""
    of_disk = os.statvfs(disk)
    return of_disk.f_bavail * of_disk.f_frsize


def shown(warehouse: Path) -> dict[str, object]:
    """The run that `report` shows; every table is read to its end before."""
    from deltalake import DeltaTable

    from replica_audit import cli

    for table in warehouse.iterdir():
        DeltaTable(str(table)).to_pyarrow_table()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = cli.main(["report", "--warehouse", str(warehouse), "--format", "json"])
    return {"code": code, "run_id": json.loads(said.getvalue())["run_id"]}


def make_read_only(disk: Path, spark: SparkSession) -> None:
    assert spark._jvm
    ends = time.monotonic() + 120
    while not mount("-o", "remount,ro", disk):  # refused while a file is open to write
        if time.monotonic() > ends:
            sys.exit(f"still open: {sorted(open_below(disk))}")
        spark._jvm.System.gc()  # files that a task which failed has left open are closed by the JVM's collector
        time.sleep(0.1)


def open_below(folder: Path) -> set[str]:
    """The files below a folder that processes have open."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if (target := link.readlink()).is_relative_to(folder):
                found.add(f"{link}: {target}")
    return found


def audit(warehouse: Path, run_id: str, fault: Callable[[], None] | None = None) -> dict[str, object]:
    """Audit; once the run is begun the fault comes about."""
    from replica_audit import cli
    from replica_audit.storage.warehouse.holds import take

    def begin(*arguments: Any, **options: Any) -> Hold:
        held = take(*arguments, **options)
        if fault:
            fault()
        return held

    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()), patch("replica_audit.pipeline.run.take", begin):
        code = cli.main(["audit", "--input", str(CLUSTER), "--warehouse", str(warehouse), "--run-id", run_id])
    lines = [line.removeprefix(f"[{run_id}] ") for line in said.getvalue().splitlines()]
    return {"code": code, "said": [line for line in lines if not line.startswith(("[", "run "))]}


def main(folder: Path) -> None:
    """Every fault, one after the other, in one session."""
    from tests.support.spark import start

    disk, working = folder / "disk", folder / "working"
    for path in (disk, working):
        path.mkdir()
        if not mount("-t", "tmpfs", "-o", "size=64m", "tmpfs", path):
            sys.exit("cannot mount a file system")
    os.environ["SPARK_LOCAL_DIRS"] = str(working)
    warehouse = disk / "warehouse"
    ends = {}
    spark = start(folder)
    spark.sparkContext.setLogLevel("ERROR")
    ends["before"] = audit(warehouse, "before")
    before = free(disk)
    ends["measured"] = audit(warehouse, "measured")
    needed = before - free(disk)
    for percent in FULL_AT:
        ends[f"full at {percent} %"] = audit(warehouse, f"at-{percent}", partial(fill, disk, needed * percent // 100))
        (disk / "ballast").unlink()
        ends[f"shown at {percent} %"] = shown(warehouse)
    ends["full"] = audit(warehouse, "run", lambda: fill(disk))
    ends["full from the start"] = audit(warehouse, "run")
    (disk / "ballast").unlink()
    ends["working full"] = audit(warehouse, "run", lambda: fill(working))
    ends["working full from the start"] = audit(warehouse, "run")
    (working / "ballast").unlink()
    ends["read-only"] = audit(warehouse, "run", lambda: make_read_only(disk, spark))
    ends["read-only from the start"] = audit(warehouse, "run")
    mount("-o", "remount,rw", disk)
    ends["again"] = audit(warehouse, "run")
    ends["again at 50 %"] = audit(warehouse, "at-50")
    shutil.copytree(warehouse, folder / "kept")
    ends["removed"] = audit(warehouse, "removed", lambda: shutil.rmtree(warehouse, ignore_errors=True))
    spark.stop()
    print(json.dumps(ends))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
