"""A worker's collector of garbage leaves alone for good what has been made: it has to be of no cycles."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from replica_audit.garbage import uncollected
from replica_audit.stages.inventory import list_source
from replica_audit.stages.mapping import uncollected_batches
from replica_audit.storage.inputs.sources import discover
from tests.collect.collections import collect_cluster
from tests.formats.packed_dumps import section
from tests.support import in_process

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample" / "committed-loss"


@pytest.fixture
def no_collector() -> Iterator[None]:
    with uncollected():
        yield


@pytest.mark.usefixtures("no_collector")
def test_judging_leaves_no_cycles() -> None:
    in_process.audit(SAMPLE, anew=True)  # once for what is loaded then
    gc.collect()
    assert in_process.audit(SAMPLE, anew=True)["replica_verdicts"]
    assert gc.collect() == 0


@pytest.fixture(params=["copied", "collected", "a text of kafka-dump-log"])
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    if request.param == "collected":
        return collect_cluster(SAMPLE, tmp_path / "collected")
    if request.param == "copied":
        return SAMPLE
    shutil.copytree(SAMPLE, tmp_path / "texts")
    (tmp_path / "texts" / "broker-1" / "orders-0.txt").write_bytes(section(0))
    return tmp_path / "texts"


@pytest.mark.usefixtures("no_collector")
def test_listing_leaves_no_cycles(cluster: Path) -> None:
    (root,) = discover([str(cluster)]).roots
    sources = [dict(zip(("cluster_id", "broker_id", "path", "kind"), source, strict=True)) for source in root.sources()]

    def listed() -> int:
        return sum(1 for source in sources for _row in list_source(source))

    assert listed()  # once for what is loaded then
    gc.collect()
    assert listed()
    assert gc.collect() == 0


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
