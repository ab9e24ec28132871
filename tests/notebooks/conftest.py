"""A warehouse of three nights for all tests of the notebooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit import open_warehouse
from replica_audit.notebook.run import Run
from replica_audit.notebook.warehouse import Warehouse
from tests.notebooks.execution import RUNS, make_warehouse


@pytest.fixture(scope="session")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds `brokers/RUN` and `warehouse`."""
    below = tmp_path_factory.mktemp("nights")
    make_warehouse(below)
    return below


@pytest.fixture(scope="session")
def audits(nights: Path) -> Warehouse:
    return open_warehouse(str(nights / "warehouse"))


@pytest.fixture(scope="session")
def full(audits: Warehouse) -> Run:
    """The run over the whole sample."""
    return audits.run(RUNS[1])
