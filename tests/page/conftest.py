"""The browser, and the page of a real audit of sample clusters that it looks at."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.config import Settings
from tests.page.browser import Browser, started
from tests.support.warehouse import STARTED, write_warehouse

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
ROOTS = ("committed-loss", "multi-round", "three-way", "kafka-1.1.1-kip279-scenario-1-all")


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the second of two runs; the first had seen only some of the clusters."""
    folder = tmp_path_factory.mktemp("page")
    settings = Settings(what_if_leaders=True)
    roots = [SAMPLE / name for name in ROOTS]
    write_warehouse(folder / "warehouse", *roots[1:], run_id="before", settings=settings)
    write_warehouse(folder / "warehouse", *roots, run_id="now", started_at=STARTED + timedelta(days=1), settings=settings)
    made = folder / "page.html"
    assert cli.main(["report", "--warehouse", str(folder / "warehouse"), "--output", str(made)]) == 0
    return made
