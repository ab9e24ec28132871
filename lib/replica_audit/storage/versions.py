"""The versions of what made a run."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from pyspark.sql import SparkSession


def versions(spark: SparkSession) -> dict[str, str]:
    """The version of Spark, of this product, and of what it writes tables with, by name."""
    found = {"spark": spark.version}
    for package in ("replica-audit", "delta-spark", "pyarrow"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed as a package"
    return found
