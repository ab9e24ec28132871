"""What is looked at first and read later is, together, what is listed at once."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from replica_audit.model import PartitionLook
from replica_audit.stages.inventory import READ_ALWAYS, SOURCE_COLUMNS, Listing, list_source
from replica_audit.storage.inputs.sources import discover
from tests.collect.nights import at_rest
from tests.incremental.clusters_of_nights import CHANGES, Cluster

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
Row = dict[str, Any]
Looks = list[tuple[int | None, PartitionLook]]


def listed(root: Path, listing: Listing, seen: Looks | None = None) -> list[Row]:
    (found,) = discover([str(root)]).roots
    rows: list[Row] = []
    for source in found.sources():
        look_at = None if seen is None else partial(_add, seen, source[1])
        rows += list_source(dict(zip(SOURCE_COLUMNS, source, strict=True)), listing, look_at)
    return rows


def _add(seen: Looks, broker: int | None, one: PartitionLook) -> None:
    seen.append((broker, one))


def counted(rows: list[Row]) -> Counter[str]:
    return Counter(json.dumps(row, default=str, sort_keys=True) for row in rows)


def partitions(rows: list[Row]) -> list[tuple[str, str, int]]:
    return sorted({(row["cluster_id"], row["topic"], row["partition"]) for row in rows if row.get("topic")})


def check(root: Path) -> None:
    seen: Looks = []
    seen_first: Looks = []
    everything = listed(root, Listing(), seen)
    looked = listed(root, Listing(replicas=frozenset()), seen_first)
    assert not [row for row in looked if row.get("replica") and row["topic"] not in READ_ALWAYS]
    assert Counter(map(repr, seen_first)) == Counter(map(repr, seen))
    later = listed(root, Listing(replicas=frozenset(partitions(everything)), rest=False))
    assert counted([*looked, *later]) == counted(everything)
    one = partitions([row for row in later if row.get("replica")])[:1]
    some = listed(root, Listing(replicas=frozenset(one), rest=False))
    assert counted(some) == counted([row for row in later if (row["cluster_id"], row["topic"], row["partition"]) in one])
    assert some
    assert counted(everything) == counted(listed(root, Listing()))
    of_partitions = Counter((row["broker_id"], row["topic"], row["partition"]) for row in everything if row.get("topic"))
    assert of_partitions == Counter((broker, look.topic, look.partition) for broker, look in seen), "each has a look"


@pytest.mark.parametrize("root", sorted(SAMPLE.iterdir()), ids=lambda root: root.name)
def test_of_the_sample(root: Path) -> None:
    check(root)


@pytest.mark.slow
@pytest.mark.parametrize("is_collected", [False, True], ids=["raw", "collected"])
def test_of_clusters_with_everything_that_can_happen(tmp_path: Path, is_collected: bool) -> None:
    with at_rest():
        cluster = Cluster(tmp_path, 3, is_collected=is_collected)
        for what in sorted(CHANGES):
            cluster.night += 1
            cluster.change(what)
    check(cluster.root)


def test_texts(tmp_path: Path) -> None:
    """A text may tell of any replica, so all are read, and nothing is known of any."""
    cluster = Cluster(tmp_path, 3, is_collected=False)
    text = b"Dumping /data/orders-1/%020d.log\nLog starting offset: 0\n" % 0
    (cluster.root / "broker-1" / "some.txt").write_bytes(text)
    check(cluster.root)
    seen: Looks = []
    listed(cluster.root, Listing(), seen)
    assert {one.look.identity for broker, one in seen if broker == 1 and one.look.directory} == {None}
