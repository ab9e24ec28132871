"""A Spark session of the test process, with the project's own settings and jars."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"  # as tools/environment.sh


def start(scratch: Path) -> SparkSession:
    """Start the session as spark-submit.sh would, on two cores."""
    jars = sorted((ROOT / ".cache" / "jars").glob("*.jar"))
    if not jars:
        raise RuntimeError("no jars in .cache/jars: run tests/run.sh, which fetches them")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # a session of its own, not one of a Spark installed elsewhere
    os.environ.pop("SPARK_HOME", None)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "lib"), str(ROOT)])  # workers do not search the folder they start in
    builder = SparkSession.builder.master("local[2]").appName("replica-audit tests")
    for line in (ROOT / "conf" / "spark-defaults.conf").read_text(encoding="utf-8").splitlines():
        setting = line.split("#")[0].split()
        if len(setting) == 2:
            builder = builder.config(*setting)
    builder = builder.config("spark.driver.extraClassPath", f"{jars[0].parent}/*")
    builder = builder.config("spark.sql.warehouse.dir", str(scratch / "spark-warehouse"))
    java_options = f"-Dlog4j2.configurationFile={ROOT / 'conf' / 'log4j2.properties'} {_JAVA_OPTIONS}"
    if (archive := ROOT / ".cache" / "classes.jsa").is_file():
        java_options += f" -XX:SharedArchiveFile={archive} -Xlog:cds*=off"
    builder = builder.config("spark.driver.extraJavaOptions", java_options)
    return builder.getOrCreate()
