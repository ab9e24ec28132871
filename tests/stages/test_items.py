"""Items go through batches unchanged, few of them at a time."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica_audit.model import Amounts, BatchRun, CommittedOffset, PartitionMetadata, ReplicaFiles, ScannedSegment, Segment
from replica_audit.protocol.comparison.observed import LogEvent
from replica_audit.stages.inventory import list_source
from replica_audit.stages.items import ITEMS, Item, Reading, packed, partition_of, uncollected_batches, unpacked
from replica_audit.storage.inputs.sources import discover
from tests.support.items import scanned, source

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample" / "committed-loss"


@pytest.fixture(scope="module")
def sample() -> list[Item]:
    """Everything that a sample lists and holds."""
    (root,) = discover([str(SAMPLE)]).roots
    items = [item for one in root.sources() for item in list_source(source(one[2], one[1], one[3], one[0]))]
    return [*items, *scanned(items)]


def test_a_value_comes_out_as_it_went_in(sample: list[Item]) -> None:
    assert {ReplicaFiles, PartitionMetadata, ScannedSegment, LogEvent, Reading, Amounts} <= {type(item.value) for item in sample}
    batches = list(packed(sample))
    assert all(batch.schema == ITEMS for batch in batches)
    assert [item for batch in batches for item in unpacked(batch)] == sample
    assert [item for batch in batches for item in unpacked(batch.slice(7))] == sample[7:]
    assert [kind for batch in batches for kind in batch["kind"].to_pylist()] == [type(item.value).__name__ for item in sample]


def _segment(runs: int) -> Segment:
    run = BatchRun(*range(len(BatchRun._fields)))
    return Segment(base_offset=0, runs=tuple(run._replace(first_offset=number) for number in range(runs)))


def test_batches_are_of_some_mebibyte_and_memory_does_not_grow_with_the_number_of_items() -> None:
    def made(count: int) -> Iterator[Item]:
        return (Item("c", "t", number, 1, _segment(2_000)) for number in range(count))

    def most(count: int) -> int:
        tracemalloc.start()
        try:
            sizes = [batch.nbytes for batch in packed(made(count))]
            assert len(sizes) > count // 40 and max(sizes) < 2 << 20
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few = most(60)
    assert most(300) < 2 * few


def test_no_items_are_no_batch() -> None:
    assert list(packed([])) == []


def test_what_coordinators_alone_name_is_no_partition(sample: list[Item]) -> None:
    commit = CommittedOffset(
        group_id="g", topic="t", partition=0, offset=1, leader_epoch=0, commit_timestamp_ms=-1, topic_id=None, record_offset=0, path="p"
    )
    assert partition_of("c", "t", 0, [(None, commit)]) is None
    files = next(item.value for item in sample if isinstance(item.value, ReplicaFiles))
    known = partition_of("c", "t", 0, [(None, commit), (1, files)])
    assert known is not None and (known.commits, known.replicas, known.records) == ((commit,), ((1, files),), None)


def test_cycles_are_looked_for_between_batches_and_not_while_one_is_made() -> None:
    seen = []

    def made() -> Iterator[Item]:
        for number in range(9_000):
            seen.append(gc.isenabled())
            yield Item("c", "t", number, None, None)

    try:
        assert [(batch.num_rows, gc.isenabled()) for batch in uncollected_batches(packed(made()))] == [
            (4096, True),
            (4096, True),
            (808, True),
        ]
        assert not any(seen)

        with pytest.raises(ZeroDivisionError):
            list(uncollected_batches(packed(Item("c", "t", 1 // number, None, None) for number in range(2))))
        assert gc.isenabled()
    finally:
        gc.unfreeze()
