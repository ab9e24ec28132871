"""What all tests share: hypothesis profiles and the Spark session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What the shell is set up for that starts the tests changes what the project prints, and what it starts: none of it is theirs.
_OF_THE_SHELL = """
NO_COLOR FORCE_COLOR COLUMNS LINES PYTHONWARNINGS JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS
SPARK_MASTER SPARK_SUBMIT_ARGS SPARK_DRIVER_MEMORY SPARK_LOCAL_DIRS SPARK_CONF_DIR
REPLICA_AUDIT_STDERR REPLICA_AUDIT_STDERR_COLUMNS REPLICA_AUDIT_STDOUT_COLUMNS
"""
for _name in _OF_THE_SHELL.split():
    os.environ.pop(_name, None)
os.environ["TERM"] = "xterm"
os.umask(0o022)  # tests take rights away from other users, who have them before

settings.register_profile("bounded", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("exhaustive", max_examples=20_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "bounded"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests; it costs seconds to start."""
    from tests.support.spark import start

    session = start(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files with the longest tests come first, so that no worker has one of them left when the other is done."""
    markers = ("live", "slow", "spark", "oracle", "clusters")
    places: dict[Path, int] = {}
    for item in items:
        place = next((place for place, name in enumerate(markers) if item.get_closest_marker(name)), len(markers))
        places[item.path] = min(place, places.get(item.path, place))
    items.sort(key=lambda item: places[item.path])
