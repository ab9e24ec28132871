"""Which tests run, a plugin of pytest.

`--fast` leaves out what needs a JVM, a browser or more than two seconds; a test that starts a JVM all the same fails. What is marked
`nightly` runs with `--nightly`, and then nothing else does.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.support.shares import without_pairs_that_recur

# markers and fixtures of what is left out
MARKERS = frozenset({"clusters", "live", "oracle", "slow", "spark"})
FIXTURES = frozenset({"browser", "kafka", "lab", "spark"})


class Fast:
    """What `--fast` does to one process of pytest.

    Every JVM reads JAVA_TOOL_OPTIONS, whoever starts it and from wherever: it names a log there, which is the trace that a start leaves.
    """

    def __init__(self) -> None:
        self.traces = Path(tempfile.mkdtemp(prefix="replica-audit-jvms-"))
        os.environ["JAVA_TOOL_OPTIONS"] = f'-Xlog:os=info:file="{self.traces}/%p.log"'

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out by markers and fixtures."""
        _leave_out(config, items, left_out)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fail what starts a JVM in a fixture."""
        try:
            return (yield)
        finally:
            self._started_none(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fail what starts a JVM in the test itself."""
        try:
            return (yield)
        finally:
            self._started_none(item)

    def pytest_unconfigure(self) -> None:
        """Remove the traces."""
        shutil.rmtree(self.traces, ignore_errors=True)

    def _started_none(self, item: pytest.Item) -> None:
        traces = list(self.traces.iterdir())
        for trace in traces:
            trace.unlink()
        if traces:
            pytest.fail(f"{item.nodeid} started {len(traces)} JVM(s): mark it `spark` or `oracle`, for --fast has none", pytrace=False)


def left_out(item: pytest.Item) -> bool:
    """Whether `--fast` leaves a test out."""
    fixtures = getattr(item, "fixturenames", ())
    return not FIXTURES.isdisjoint(fixtures) or any(marker.name in MARKERS for marker in item.iter_markers())


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--fast", action="store_true", help="only tests that need no JVM, no browser and less than two seconds")
    parser.addoption("--nightly", action="store_true", help="only tests that are left out without it: they take minutes each")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what is for the night, or everything else."""
    without_pairs_that_recur(items)
    _leave_out(config, items, lambda item: (item.get_closest_marker("nightly") is not None) != config.getoption("--nightly"))


def _leave_out(config: pytest.Config, items: list[pytest.Item], which: Callable[[pytest.Item], bool]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if which(item)])
    items[:] = [item for item in items if not which(item)]


def pytest_configure(config: pytest.Config) -> None:
    """Watch over this process, if it was asked for."""
    if config.getoption("--fast"):
        config.pluginmanager.register(Fast(), "replica-audit-fast")
