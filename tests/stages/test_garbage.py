"""A worker's collector of garbage leaves alone for good what has been made: it has to be of no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from replica_audit.stages.inventory import Listing
from replica_audit.stages.mapping import uncollected_batches
from replica_audit.stages.packed_looks import list_with_looks
from replica_audit.storage.inputs.sources import discover
from tests.support import in_process

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample" / "committed-loss"
_OF_A_LISTING = 1000  # objects of what is loaded or compiled once; a cycle of each replica would be more


@pytest.fixture
def no_collector() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_judging_leaves_no_cycles() -> None:
    in_process.audit(SAMPLE, anew=True)  # once for what is loaded then
    gc.collect()
    assert in_process.audit(SAMPLE, anew=True)["replica_verdicts"]
    assert gc.collect() == 0


@pytest.mark.usefixtures("no_collector")
def test_listing_leaves_no_cycles() -> None:
    (root,) = discover([str(SAMPLE)]).roots
    sources = [dict(zip(("cluster_id", "broker_id", "path", "kind"), source, strict=True)) for source in root.sources()]

    def listed() -> int:
        return sum(1 for source in sources for _row in list_with_looks(source, Listing(replicas=frozenset())))

    assert listed()
    gc.collect()
    assert listed()
    few = gc.collect()
    for _again in range(9):
        listed()
    assert gc.collect() <= 9 * few + _OF_A_LISTING, "cycles grow with what is listed"


def test_what_has_been_made_is_looked_through_no_more() -> None:
    rows = pa.RecordBatch.from_pylist([{"x": 1}])
    before = gc.get_freeze_count()
    try:
        kept: list[object] = []

        def made() -> Iterator[pa.RecordBatch]:
            kept.append([{} for _one in range(5000)])
            yield rows

        assert list(uncollected_batches(made())) == [rows]
        assert gc.get_freeze_count() >= before + 5000
    finally:
        gc.unfreeze()
