"""Executing the project's notebooks: in tests, and to store in them what they show.

`python -m tests.notebooks.execution` from the project's folder, with `lib` on PYTHONPATH, executes them on audits of the sample and stores
their outputs, without paths of this machine.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from queue import Empty
from typing import Any

import nbformat
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.channels import AsyncZMQSocketChannel
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from tests.support.warehouse import STARTED, write_warehouse

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "data" / "sample"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
RUNS = ("20260102T030405Z-1a2b3c", "20260103T030405Z-4d5e6f", "20260104T030405Z-7a8b9c")
Notebook = Any


def make_warehouse(below: Path) -> Path:
    """Three nights: a cluster less, the whole sample, and the sample once follower 1 has truncated billing-1 and fetched it again."""
    for night, run_id in enumerate(RUNS):
        ignored = shutil.ignore_patterns("multi-round") if night == 0 else None
        shutil.copytree(SAMPLE, inputs_of(below, run_id), ignore=ignored)
    healed = inputs_of(below, RUNS[2]) / "committed-loss"
    shutil.rmtree(healed / "broker-1" / "data-0" / "billing-1")
    shutil.copytree(healed / "broker-2" / "data-0" / "billing-1", healed / "broker-1" / "data-0" / "billing-1")
    for night, run_id in enumerate(RUNS):
        roots = sorted(inputs_of(below, run_id).iterdir())
        write_warehouse(below / "warehouse", *roots, run_id=run_id, started_at=STARTED + timedelta(days=night))
    return below / "warehouse"


def inputs_of(below: Path, run_id: str) -> Path:
    """The folder that a night's run read; its name is short, for texts break long ones."""
    return below / "brokers" / str(RUNS.index(run_id))


class _Channel(AsyncZMQSocketChannel):
    """Looks again every second: a widget's message that is sent while a reply is waited for can take the wake-up with it."""

    async def get_msg(self, timeout: float | None = None) -> dict[str, Any]:  # type: ignore[override]
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = 1.0 if end is None else end - time.monotonic()
            try:
                return await super().get_msg(timeout=max(0.0, min(1.0, left)))
            except Empty:
                if left <= 0:
                    raise


class _Client(AsyncKernelClient):
    shell_channel_class = _Channel


def execute(path: Path, below: Path, parameters: Iterable[str] = (), cells: Iterable[str] = ()) -> Notebook:
    """A notebook as it is after all its cells were executed, by a kernel that imports this project.

    Args:
        path: of the notebook.
        below: the kernel's working directory.
        parameters: lines that replace what the cell tagged `parameters` sets.
        cells: code that is executed behind the last cell.
    """
    notebook = nbformat.read(path, as_version=4)
    place = next(index for index, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", ()))
    notebook.cells.insert(place + 1, nbformat.v4.new_code_cell("\n".join(parameters)))
    notebook.cells += [nbformat.v4.new_code_cell(cell) for cell in cells]
    client = NotebookClient(
        notebook,
        km=AsyncKernelManager(kernel_name="python3", client_factory=_Client),
        timeout=600,
        startup_timeout=600,
        resources={"metadata": {"path": str(below)}},
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "lib"), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    client.execute(env=environment, cleanup_kc=True)
    del notebook.cells[place + 1]
    return notebook


def outputs(notebook: Notebook) -> list[Any]:
    """All outputs, in order."""
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def texts(notebook: Notebook, told: Callable[[str], str] = str) -> list[str]:
    """What the cells print and show as text, without blanks and line breaks; those of interactive cells are left out."""
    shown = []
    for cell in notebook.cells:
        if cell.cell_type == "code" and "interactive" not in cell.metadata.get("tags", ()):
            for output in cell.outputs:
                text = output.get("text") or output.get("data", {}).get("text/plain", "")
                shown.append(told(re.sub(r"\s+", "", text)))
    return shown


def without_paths(below: Path) -> Callable[[str], str]:
    """Text with the folders of a real machine as a reader's."""

    def told(text: str) -> str:
        for run_id in RUNS:
            text = text.replace(str(inputs_of(below, run_id)), "/backup/brokers")
        return text.replace(str(below / "warehouse"), "../warehouse")

    return told


def store(path: Path, below: Path) -> None:
    """Execute a notebook and write its outputs into it: text, tables and pictures."""
    notebook = execute(path, below, [f"warehouse = {str(below / 'warehouse')!r}"])
    told = without_paths(below)
    number = 0
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type != "code":
            continue
        number += 1
        cell.execution_count = number
        cell.outputs = [] if "interactive" in cell.metadata.get("tags", ()) else cell.outputs  # a widget needs a kernel
        for output in cell.outputs:
            _stored(output, told, number)
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


def _stored(output: Any, told: Callable[[str], str], number: int) -> None:
    if "execution_count" in output:
        output["execution_count"] = number
    if "text" in output:
        output["text"] = told(output["text"])
    if "data" in output:  # of a plot its picture is kept: who runs the cell gets the plot again
        output["data"] = {kind: told(value) for kind, value in output["data"].items() if isinstance(value, str)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        make_warehouse(Path(scratch))
        for one in NOTEBOOKS:
            store(one, Path(scratch))
