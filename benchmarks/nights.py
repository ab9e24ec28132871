#!/usr/bin/env python3
"""Times the 2nd and the 401st nightly audit into one warehouse, without and with `maintain`.

.venv/bin/python benchmarks/nights.py                           # 400 nights of 1,000 partitions: an hour, 3 GB of disk
.venv/bin/python benchmarks/nights.py --nights 50 --pairs 3
.venv/bin/python benchmarks/nights.py --help

The first two nights are whole audits. Those after them have the second one's rows under an id and a date of their own, written by the
product's own code, in as many files and commits as an audit makes: a run is taken, its tables are written side by side, it is completed.
What is timed are audits again, each a process of its own, into copies of a warehouse of one night, of one of many, and of that after
`maintain`.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from audit import Cost, cost
from audit_start import _submit
from clusters import Cluster, Maker
from deltalake import DeltaTable

from replica_audit.rows.arrow import schema_of

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "lib"))

from replica_audit.rows import AUDIT_RUNS, FINDINGS, INPUT_ERRORS, OF_PARTITIONS, TABLES, Table  # noqa: E402 - it need not be installed

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, as in audit.py
_FINDINGS = 1  # the exit code of an audit that found what was made
_FIRST = date(2025, 1, 1)


def run_id(night: int) -> str:
    """The id of a night's run."""
    return f"night-{night:04}"


def audit(root: Path, warehouse: Path, night: int) -> None:
    """One night: an audit in a process of its own."""
    command = [str(ROOT / "spark-submit.sh"), "audit", "--input", str(root), "--warehouse", str(warehouse)]
    command += ["--run-id", run_id(night), "--run-date", str(_FIRST + timedelta(days=night))]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if done.returncode != _FINDINGS:
        raise SystemExit(f"the audit ended with {done.returncode}:\n{done.stderr[-2000:]}")


def add_nights(warehouse: Path, nights: int) -> None:
    """Add nights to a warehouse that has two, on the session of this process."""
    from replica_audit.storage.session import session
    from replica_audit.storage.warehouse.tables import DeltaWarehouse

    tables = DeltaWarehouse(session(), str(warehouse))
    tables.create_missing()
    places = tables.places_of_files(OF_PARTITIONS)
    if not places:
        raise SystemExit("tasks cannot write files into these tables")
    kept = {table.name: _files_of(warehouse, table, run_id(2)) for table in TABLES}
    began = time.monotonic()
    for night in range(3, nights + 1):
        _add(tables, places, kept, night)
        if not night % 20:
            say(f"{night} nights: {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}")


def _files_of(warehouse: Path, table: Table, run: str) -> list[pa.Table]:
    """The rows of a run, a table for each of its files."""
    place = warehouse / table.name
    added = pa.table(DeltaTable(str(place)).get_add_actions(flatten=True)).to_pylist()
    return [pq.read_table(place / one["path"], partitioning=None) for one in added if one["num_records"] and one["min.run_id"] == run]


def _add(tables: Any, places: dict[str, str], kept: dict[str, list[pa.Table]], night: int) -> None:
    """One night's commits, in the order of the pipeline's."""
    from replica_audit.engine.arrow import spark_schema
    from replica_audit.storage.warehouse.attempts import Attempt
    from replica_audit.storage.warehouse.holds import take
    from replica_audit.storage.warehouse.table_files import TableFiles

    run, on = run_id(night), _FIRST + timedelta(days=night)

    def frame(table: Table, files: list[pa.Table], **changed: str) -> Any:
        rows = pa.concat_tables(files) if files else schema_of(table).empty_table()
        for name, value in {"run_id": run, "run_date": on, **changed}.items():
            column = pa.repeat(value, len(rows)).cast(rows.schema.field(name).type)
            rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
        return tables.spark.createDataFrame(rows, spark_schema(schema_of(table))).coalesce(max(1, len(files)))

    (of_run,) = [row for file in kept[AUDIT_RUNS.name] for row in file.to_pylist()]

    def write(attempt: Attempt, replace: bool) -> None:
        row = of_run | {"run_id": run, "run_date": on, "status": attempt.status, "attempt": attempt.number}
        row |= {"started_at": attempt.started_at, "alive_at": attempt.alive_at, "finished_at": datetime.now(UTC)}
        row |= {"holder": asdict(attempt.holder) if attempt.holder else None}
        rows = tables.frame(AUDIT_RUNS, [row | {name: dict(row[name]) for name in ("versions", "verdict_counts")}])
        tables.write_run(AUDIT_RUNS, rows, run, replace=replace, fence=attempt.version)

    with take(tables, run, write, started_at=datetime.now(UTC)) as held:
        jobs: list[tuple[Table, Any]] = []
        for table in (table for table in OF_PARTITIONS if kept[table.name]):
            written = []
            for rows in kept[table.name]:
                with TableFiles(places, run, on) as files:
                    for batch in rows.drop_columns(list(table.of_run)).combine_chunks().to_batches():
                        files.add(table.name, batch)
                    written += files.finish()
            jobs.append((table, written))
        jobs += [(INPUT_ERRORS, frame(INPUT_ERRORS, kept[INPUT_ERRORS.name]))]
        jobs += [(FINDINGS, frame(FINDINGS, kept[FINDINGS.name], last_seen_run_id=run))]
        tables.write_all(jobs, run, replace=False, fence=held.attempt.fence)
        write(held.complete(), True)
        held.confirm()


def copied(warehouse: Path, copy: Path) -> Path:
    """A copy: files of rows, which nothing changes, are linked."""

    def link(source: str, target: str) -> object:
        return shutil.copy2(source, target) if "_delta_log" in Path(source).parts else os.link(source, target)

    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(warehouse, copy, copy_function=link)
    return copy


def many_files(warehouse: Path) -> str:
    """How many files and bytes a warehouse has."""
    files = Counter("log" if "_delta_log" in path.parts else "rows" for path in warehouse.rglob("*") if path.is_file())
    size = sum(path.stat().st_size for path in warehouse.rglob("*") if path.is_file())
    return f"{files['rows']:,} files of rows, {files['log']:,} of logs, {size / 1e6:,.0f} MB"


def make(work: Path, nights: int, partitions: int) -> tuple[Path, dict[str, tuple[Path, int]]]:
    """A cluster, and warehouses with how many nights each has."""
    root, young, old, tidy = (work / name for name in ("cluster", "of one night", "of many", "of many, maintained"))
    if not root.exists():
        Maker(Cluster(partitions=partitions)).write(root, is_collected=True)
    if not young.exists():
        audit(root, young, 1)
    if not old.exists():
        begun = copied(young, work / "begun")
        audit(root, begun, 2)
        words, environment = _submit()
        subprocess.run([*words, __file__, "--add", str(begun), str(nights)], env={**os.environ, **environment}, check=True)  # noqa: S603
        begun.rename(old)
    if not tidy.exists():
        begun = copied(old, work / "begun")
        command = [str(ROOT / "spark-submit.sh"), "maintain", "--warehouse", str(begun), "--keep-days", "40000"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)  # noqa: S603
        begun.rename(tidy)
    warehouses = {young.name: (young, 1), old.name: (old, nights), tidy.name: (tidy, nights)}
    for name, (place, _nights) in warehouses.items():
        say(f"{name}: {many_files(place)}")
    return root, warehouses


def say(line: str) -> None:
    """Tell."""
    print(line, flush=True)  # noqa: T201


def summary(values: list[float]) -> str:
    """Least, median and most."""
    return f"{min(values):.2f} / {statistics.median(values):.2f} / {max(values):.2f}"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=400, help="that the warehouse has before the one that is timed")
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--work", type=Path, help="folder for warehouses; those that are there are taken (default: a temporary one)")
    parser.add_argument("--add", nargs=2, metavar=("WAREHOUSE", "NIGHTS"), help="only add nights to a warehouse, on Spark")
    given = parser.parse_args()
    if given.add:
        add_nights(Path(given.add[0]), int(given.add[1]))
        return
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        root, warehouses = make(work, given.nights, given.partitions)
        costs: dict[str, list[Cost]] = {name: [] for name in warehouses}
        for pair in range(given.pairs + 1):  # the first does not count
            for name, (warehouse, nights) in warehouses.items():
                copy = copied(warehouse, work / "timed")
                one = cost(lambda copy=copy, nights=nights: audit(root, copy, nights + 1))  # type: ignore[misc]
                say(f"{pair}: {name}: {one.processors:.1f} s of the processors, {one.clock:.1f} s; load {os.getloadavg()[0]:.1f}")
                costs[name] += [one] if pair else []
        shutil.rmtree(work / "timed")
    first, *later = costs
    say("the night after, least / median / most: seconds of the processors, of the clock; ratio of each to the night after one")
    for name in costs:
        say(f"{name}: {summary([one.processors for one in costs[name]])}, {summary([one.clock for one in costs[name]])}")
    for name in later:
        pairs = list(zip(costs[name], costs[first], strict=True))
        processors, clock = ([getattr(one, kind) / getattr(other, kind) for one, other in pairs] for kind in ("processors", "clock"))
        say(f"{name} / {first}: {summary(processors)}, {summary(clock)}")


if __name__ == "__main__":
    main()
