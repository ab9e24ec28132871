"""What all tests share: hypothesis profiles, the option --fast and the Spark session."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support import fast
from tests.support.fast import pytest_addoption, pytest_configure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["pytest_addoption", "pytest_configure"]

# What the shell is set up for that starts the tests changes what the project prints, and what it starts: none of it is theirs.
_OF_THE_SHELL = """
NO_COLOR FORCE_COLOR COLUMNS LINES PYTHONWARNINGS JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS
SPARK_MASTER SPARK_SUBMIT_ARGS SPARK_DRIVER_MEMORY SPARK_LOCAL_DIRS SPARK_CONF_DIR
"""
for _name in _OF_THE_SHELL.split():
    os.environ.pop(_name, None)
os.environ["TERM"] = "xterm"
# as a shell, or nohup, starts what runs in the background; what tests start inherits it
for _signal, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _handler)
os.umask(0o022)  # tests take rights away from other users, who have them before

# of whose files some take minutes: they come first, so that both workers end at the same time
LONG = ("jobs", "live", "describe", "faults", "storage", "clusters", "mutation", "partition", "notebooks", "page")

settings.register_profile("bounded", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("exhaustive", max_examples=20_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "bounded"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what was asked for, long files first; nothing else changes the order (`--no-loadscope-reorder`)."""
    fast.pytest_collection_modifyitems(config, items)
    items.sort(key=lambda item: LONG.index(folder) if (folder := item.path.parent.name) in LONG else len(LONG))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests; it costs seconds to start."""
    from tests.support.spark import start

    session = start(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def empty_warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse that has its tables and no run, to be copied: to create them takes longer than a small audit."""
    from replica_audit.storage.warehouse.tables import DeltaWarehouse

    made = tmp_path_factory.mktemp("no-run") / "warehouse"
    DeltaWarehouse(spark, str(made)).create_missing()
    return made


@pytest.fixture(autouse=True)
def own_priority() -> Iterator[None]:
    """`collect` steps back behind every other process for good: in a test worker, only until the test ends."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    yield
    if os.getpriority(os.PRIO_PROCESS, 0) != before:
        with suppress(PermissionError):  # only root goes back
            os.setpriority(os.PRIO_PROCESS, 0, before)
