"""Audit the sample, or other inputs, on other releases of Spark, and compare every row with those of `triage`, which knows no Spark.

    .venv/bin/python tools/spark_versions.py [--once] [--input DIR] [SPARK=DELTA[/connect] ...]   prints the table of docs/installing.md

Each Spark is installed by pip into .cache/sparks, with its Delta and the jars of that, which come through the Ivy that it ships; all other
packages are those of this environment. Each audits twice into a directory, then once into a schema of its catalog (`--once`: only once,
into a directory); `/connect`: through a Spark Connect server on this machine. Exit code 1 if any row differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "sparks"
SAMPLE = tuple(path for path in (ROOT / "tests" / "data" / "sample").iterdir() if path.is_dir())
RELEASES = ("3.5.9=3.3.3", "4.0.5=4.0.1", "4.0.5=4.0.1/connect", "4.1.4=4.4.0", "4.2.1=4.4.0", "4.2.1=4.4.0/connect")
AUDIT = {"detail": "all", "compare": "records", "what_if_leaders": True}
# of a run, not of what was found
_VOLATILE = ("run_id", "started_at", "finished_at", "run_date", "first_seen_run_id", "last_seen_run_id")
_APART = ("audit_runs",)  # of a run
_PYTHON = ".".join(map(str, sys.version_info[:2]))
_OF_CONNECT = ("grpcio", "grpcio-status", "googleapis-common-protos", "protobuf", "zstandard")
_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "3",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_SESSION = """
import json, sys
from pyspark.sql import SparkSession
where, settings, once, warehouse, *inputs = sys.argv[1:]
builder = SparkSession.builder.remote(where) if where.startswith("sc:") else SparkSession.builder.master(where)
for name, value in json.loads(settings).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
"""
_AUDITS = f"""{_SESSION}
from replica_audit.engine.releases import settings_of
from replica_audit.spark import audit
def theirs():
    return {{name: value for name, value in settings_of(spark).items() if "fieldId" not in name}}
settings, before = {AUDIT!r}, theirs()
first = audit(spark, inputs, warehouse, settings=settings, run_id="one")
assert theirs() == before
if once:
    sys.exit()
again = audit(spark, inputs, warehouse, settings=settings, run_id="two")
found, seen_again = first.rows("findings").count(), again.rows("findings").where("status = 'persisting'").count()
assert found == seen_again > 0, (found, seen_again)
audit(spark, inputs, "spark_catalog.default", settings=settings, run_id="one")
"""
_SERVER = f"""{_SESSION}
print("serving", flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A Spark, its Delta, and whether its sessions are of Spark Connect."""

    spark: str
    delta: str
    is_connect: bool

    @classmethod
    def of(cls, text: str) -> Release:
        """What SPARK=DELTA[/connect] says."""
        versions, _, how = text.partition("/")
        spark, _, delta = versions.partition("=")
        return cls(spark=spark, delta=delta, is_connect=how == "connect")

    @property
    def scala(self) -> str:
        """Of which Scala its jars are."""
        return "2.12" if self.spark.startswith("3.") else "2.13"

    def jars(self) -> Iterator[tuple[str, str, str]]:
        """What is needed beside the jars of PySpark: organisation, name and version of each."""
        of_spark = "" if self.delta < "4.1" else f"_{self.spark.rpartition('.')[0]}"
        yield "io.delta", f"delta-spark{of_spark}_{self.scala}", self.delta
        yield "io.delta", "delta-storage", self.delta
        if of_spark:
            yield from (("io.delta", f"delta-kernel-{name}", self.delta) for name in ("api", "defaults", "unitycatalog"))
            yield from (("io.unitycatalog", f"unitycatalog-{name}", "0.6.0") for name in ("client", "hadoop"))
            yield "com.fasterxml.jackson.datatype", "jackson-datatype-jdk8", "2.13.5"
        if self.is_connect and self.spark < "4":  # later ones ship it
            yield "org.apache.spark", f"spark-connect_{self.scala}", self.spark


def main(releases: Sequence[str], inputs: Sequence[Path], *, once: bool) -> int:
    """Try each release; 0 if every row of every table is equal on all."""
    expected = _expected(inputs)
    _print("| Spark | Delta Lake | session | Python | rows compared | different | seconds |\n|---|---|---|---|--:|--:|--:|")
    differs = False
    for release in map(Release.of, releases):
        with tempfile.TemporaryDirectory(prefix="spark-versions-") as work:
            seconds = _audited(release, Path(work), inputs, once=once)
            found = [_rows(Path(work) / place) for place in ("warehouse", "spark-warehouse")[: 1 if once else 2]]
        different = sum(((one - expected) + (expected - one)).total() for one in found)
        differs |= bool(different)
        session = "Connect" if release.is_connect else "classic"
        rows = sum(one.total() for one in found)
        _print(f"| {release.spark} | {release.delta} | {session} | {_PYTHON} | {rows:,} | {different} | {seconds:.0f} |")
    return int(differs)


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a command


def _audited(release: Release, work: Path, inputs: Sequence[Path], *, once: bool) -> float:
    """Audit with a release; returns the seconds that it took."""
    packages, jars = [_packages(release)], _jars(release)
    if release.is_connect:
        packages.append(_installed(f"connect-{_PYTHON}", _OF_CONNECT))  # compiled for one Python
    path = os.pathsep.join(map(str, (*packages, ROOT / "lib")))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
        "PYTHONPATH": path,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(packages[0] / "pyspark"),
    }
    settings = _SETTINGS | {"spark.driver.extraClassPath": f"{jars}/*", "spark.sql.warehouse.dir": str(work / "spark-warehouse")}
    begun = time.monotonic()
    with _served(release, settings, environment, work) as where:
        given = {} if release.is_connect else settings
        call = [sys.executable, "-c", _AUDITS, where, json.dumps(given), "once" if once else "", work / "warehouse", *inputs]
        subprocess.run(call, check=True, env=environment, cwd=work)  # noqa: S603
    return time.monotonic() - begun


@contextmanager
def _served(release: Release, settings: dict[str, str], environment: dict[str, str], work: Path) -> Iterator[str]:
    """Where the session is: in the process that audits, or on a server that lives as long as this is entered."""
    if not release.is_connect:
        yield "local[2]"
        return
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    serving = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
    }
    call = [sys.executable, "-c", _SERVER, "local[2]", json.dumps(settings | serving), "", "none"]
    with subprocess.Popen(call, env=environment, cwd=work, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:  # noqa: S603
        assert server.stdout and server.stdin  # noqa: S101
        try:
            if not server.stdout.readline():
                raise SystemExit(f"the server of Spark {release.spark} did not start")
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.stdin.close()


def _packages(release: Release) -> Path:
    return _installed(f"pyspark-{release.spark}", (f"pyspark=={release.spark}", f"delta-spark=={release.delta}", "py4j"), "--no-deps")


def _installed(name: str, packages: Sequence[str], *more: str) -> Path:
    place = CACHE / name
    if not place.is_dir():
        made = CACHE / f"{name}.new"
        shutil.rmtree(made, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *more, "--target", made, *packages], check=True)  # noqa: S603
        made.rename(place)
    return place


def _jars(release: Release) -> Path:
    place = CACHE / f"jars-{release.spark}-{release.delta}{'-connect' if release.is_connect else ''}"
    if place.is_dir():
        return place
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="jars-") as work:
        wanted = "".join(f'<dependency org="{org}" name="{name}" rev="{version}"/>' for org, name, version in release.jars())
        (Path(work) / "ivy.xml").write_text(
            '<ivy-module version="2.0"><info organisation="replica-audit" module="jars"/><configurations><conf name="default"/>'
            f'</configurations><dependencies defaultconf="default->default">{wanted}</dependencies></ivy-module>',
            encoding="utf-8",
        )
        of_ivy = f"{_packages(release)}/pyspark/jars/*"
        ivy = ["java", f"-Divy.default.ivy.user.dir={work}", "-cp", of_ivy, "org.apache.ivy.Main", "-warn"]
        ivy += ["-settings", str(ROOT / "conf" / "ivysettings.xml"), "-ivy", f"{work}/ivy.xml", "-cache", f"{work}/cache"]
        subprocess.run([*ivy, "-retrieve", f"{work}/jars/[artifact]-[revision].[ext]"], check=True, stdout=sys.stderr)  # noqa: S603
        Path(work, "jars").rename(place)
    return place


def _expected(inputs: Sequence[Path]) -> Counter[str]:
    from replica_audit import config
    from replica_audit.local_run import triage
    from replica_audit.rows import TABLES

    made = triage(list(map(str, inputs)), config.load(None, AUDIT), tell=lambda _event: None, run_id="one").tables
    return _counted({table.name: made.arrow(table.name) for table in TABLES if table.name not in _APART})


def _rows(warehouse: Path) -> Counter[str]:
    from replica_audit.rows import TABLES
    from replica_audit.storage.warehouse.reader import WarehouseTables

    kept = WarehouseTables(str(warehouse))
    return _counted({table.name: kept.arrow(table.name, run_id="one") for table in TABLES if table.name not in _APART})


def _counted(tables: dict[str, Any]) -> Counter[str]:
    found = Counter[str]()
    for table, rows in tables.items():
        for row in [] if rows is None else rows.to_pylist():
            kept = {name: value for name, value in row.items() if name not in _VOLATILE}
            found[json.dumps([table, kept], sort_keys=True, default=str)] += 1
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="*", default=RELEASES, metavar="SPARK=DELTA[/connect]")
    parser.add_argument("--input", type=Path, action="append", metavar="DIR")
    parser.add_argument("--once", action="store_true")
    given = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    sys.exit(main(given.releases, [path.absolute() for path in given.input or SAMPLE], once=given.once))
