"""Audit the sample on other releases of Spark, each beside the packages of this environment, and compare every row.

    .venv/bin/python tools/spark_versions.py 4.1.4=4.4.0 4.2.0=4.4.0     SPARK=DELTA; prints the table of docs/installing.md

Each Spark is installed by pip into .cache/sparks, with the jars of its Delta, which come through the Ivy that it ships. The rows are
compared with those of `triage`, which knows no Spark. Exit code 1 if any differs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "sparks"
SAMPLE = sorted(path for path in (ROOT / "tests" / "data" / "sample").iterdir() if path.is_dir())
# of a run, not of what was found
VOLATILE = ("run_id", "started_at", "finished_at", "run_date", "first_seen_run_id", "last_seen_run_id")
# by Spark alone, or of the run
APART = ("audit_runs", "findings", "broker_starts", "input_errors")
_AUDIT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from replica_audit.spark import audit
jars, warehouse, inputs = sys.argv[1], sys.argv[2], sys.argv[3:]
builder = SparkSession.builder.master("local[2]").config("spark.driver.extraClassPath", f"{jars}/*").config("spark.ui.enabled", "false")
for name, value in (("sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"), ("sql.shuffle.partitions", "2"),
                    ("sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"), ("sql.session.timeZone", "UTC")):
    builder = builder.config(f"spark.{name}", value)
print("exit code", audit(builder.getOrCreate(), inputs, warehouse, settings={"detail": "all"}, run_id="one").exit_code)
"""


def main(versions: list[str]) -> int:
    """Try each pair; 0 if every row of every table is equal on all."""
    expected = _expected()
    print("| Spark | Delta Lake | Python | rows compared | different |\n|---|---|---|--:|--:|")  # noqa: T201 - a command
    differs = False
    for pair in versions:
        spark, _, delta = pair.partition("=")
        with tempfile.TemporaryDirectory(prefix="spark-versions-") as work:
            found = _rows(_audited(spark, delta, Path(work)))
        different = sum(((found - expected) + (expected - found)).values())
        differs |= bool(different) or not found
        python = ".".join(map(str, sys.version_info[:2]))
        print(f"| {spark} | {delta} | {python} | {found.total():,} | {different} |", flush=True)  # noqa: T201
    return int(differs)


def _audited(spark: str, delta: str, work: Path) -> Path:
    packages, jars = _packages(spark), _jars(spark, delta)
    path = os.pathsep.join(map(str, (packages, ROOT / "lib")))
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(packages / "pyspark")}
    subprocess.run([sys.executable, "-c", _AUDIT, jars, work / "warehouse", *SAMPLE], check=True, env=environment, cwd=work)  # noqa: S603
    return work / "warehouse"


def _packages(spark: str) -> Path:
    place = CACHE / f"pyspark-{spark}"
    if not (place / "pyspark").is_dir():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", place, f"pyspark=={spark}"]
        subprocess.run(install, check=True)  # noqa: S603
    return place


def _jars(spark: str, delta: str) -> Path:
    """The jars of conf/ivy.xml, for another Spark and of another Delta."""
    place = CACHE / f"jars-{spark}-{delta}"
    if place.is_dir():
        return place
    with tempfile.TemporaryDirectory(prefix="jars-") as work:
        wanted = (
            (ROOT / "conf" / "ivy.xml").read_text(encoding="utf-8").replace("delta-spark_4.2_", f"delta-spark_{spark.rpartition('.')[0]}_")
        )
        (Path(work) / "ivy.xml").write_text(wanted.replace('rev="4.4.0"', f'rev="{delta}"'), encoding="utf-8")
        ivy = ["java", f"-Divy.default.ivy.user.dir={work}", "-cp", f"{_packages(spark)}/pyspark/jars/*", "org.apache.ivy.Main", "-warn"]
        ivy += ["-settings", str(ROOT / "conf" / "ivysettings.xml"), "-ivy", f"{work}/ivy.xml", "-cache", f"{work}/cache"]
        subprocess.run([*ivy, "-retrieve", f"{work}/jars/[artifact]-[revision].[ext]"], check=True)  # noqa: S603
        shutil.move(f"{work}/jars", place)
    return place


def _expected() -> Counter[str]:
    from replica_audit.config import Settings
    from replica_audit.local_run import triage
    from replica_audit.rows import TABLES

    made = triage(list(map(str, SAMPLE)), Settings(detail="all"), tell=lambda _event: None, run_id="one").tables
    tables = {table.name: made.arrow(table.name) for table in TABLES if table.name not in APART}
    return _counted({name: [] if rows is None else rows.to_pylist(maps_as_pydicts="strict") for name, rows in tables.items()})


def _rows(warehouse: Path) -> Counter[str]:
    from deltalake import DeltaTable

    tables = {path.name: DeltaTable(path).to_pyarrow_table() for path in sorted(warehouse.iterdir()) if path.name not in APART}
    return _counted({name: rows.to_pylist(maps_as_pydicts="strict") for name, rows in tables.items()})


def _counted(tables: dict[str, list[dict[str, object]]]) -> Counter[str]:
    found = Counter[str]()
    for table, rows in tables.items():
        for row in rows:
            kept = {name: value for name, value in row.items() if name not in VOLATILE}
            found[json.dumps([table, kept], sort_keys=True, default=str)] += 1
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
