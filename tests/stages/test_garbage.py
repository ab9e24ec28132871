"""A worker's collector of garbage leaves alone for good what has been made: it has to be of no cycles."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from replica_audit.stages.inventory import list_source
from replica_audit.stages.items import uncollected_batches
from replica_audit.storage.inputs.sources import discover
from tests.collect.collections import collect_cluster
from tests.formats.packed_dumps import section
from tests.support import in_process
from tests.support.items import source

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample" / "committed-loss"
_ROOT = Path(__file__).resolve().parents[2]

# in a process of its own: what other threads of the tests' process drop meanwhile is not of this work
_MEASURE = """
import gc, sys
from pathlib import Path
from replica_audit.garbage import uncollected
from tests.stages.test_garbage import judged, listed
work = {"judged": judged, "listed": listed}[sys.argv[1]]
with uncollected():
    assert work(Path(sys.argv[2]))  # once for what is loaded then
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    assert work(Path(sys.argv[2]))
    gc.collect()
print(*sorted({type(one).__qualname__ for one in gc.garbage}), len(gc.garbage))
"""


def judged(root: Path) -> bool:
    """Whether an audit of a folder gives verdicts."""
    return bool(in_process.audit(root, anew=True)["replica_verdicts"])


def listed(root: Path) -> bool:
    """Whether a folder has rows to list."""
    (found,) = discover([str(root)]).roots
    return sum(1 for one in found.sources() for _item in list_source(source(one[2], one[1], one[3], one[0]))) > 0


def left_over(work: str, root: Path) -> str:
    """The types, and the number, of what only a collector of cycles finds after some work."""
    command = [sys.executable, "-c", _MEASURE, work, str(root)]
    paths = os.pathsep.join((str(_ROOT / "lib"), str(_ROOT)))
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": paths}).stdout.strip()


def test_judging_leaves_no_cycles() -> None:
    assert left_over("judged", SAMPLE) == "0"


@pytest.fixture(params=["copied", "collected", "a text of kafka-dump-log"])
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    if request.param == "collected":
        return collect_cluster(SAMPLE, tmp_path / "collected")
    if request.param == "copied":
        return SAMPLE
    shutil.copytree(SAMPLE, tmp_path / "texts")
    (tmp_path / "texts" / "broker-1" / "orders-0.txt").write_bytes(section(0))
    return tmp_path / "texts"


def test_listing_leaves_no_cycles(cluster: Path) -> None:
    assert left_over("listed", cluster) == "0"


def test_what_has_been_made_is_looked_through_no_more() -> None:
    rows = pa.RecordBatch.from_pylist([{"x": 1}])
    before = gc.get_freeze_count()
    try:
        kept: list[object] = []

        def made() -> Iterator[pa.RecordBatch]:
            kept.append([[None] for _one in range(5000)])
            yield rows

        assert list(uncollected_batches(made())) == [rows]
        assert gc.get_freeze_count() >= before + 5000
    finally:
        gc.unfreeze()
