"""What is looked at first and read later is, together, what is listed at once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from replica_audit.stages.inventory import READ_ALWAYS, SOURCE_COLUMNS, Listing, list_source
from replica_audit.storage.inputs.sources import discover
from tests.collect.nights import at_rest
from tests.incremental.clusters_of_nights import CHANGES, Cluster

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
Row = dict[str, Any]


def listed(root: Path, listing: Listing) -> list[Row]:
    (found,) = discover([str(root)]).roots
    return [row for source in found.sources() for row in list_source(dict(zip(SOURCE_COLUMNS, source, strict=True)), listing)]


def counted(rows: list[Row]) -> Counter[str]:
    return Counter(json.dumps(row, default=str, sort_keys=True) for row in rows)


def partitions(rows: list[Row]) -> list[tuple[str, str, int]]:
    return sorted({(row["cluster_id"], row["topic"], row["partition"]) for row in rows if row.get("topic")})


def check(root: Path) -> None:
    everything = listed(root, Listing(looks=True))
    looked = listed(root, Listing(looks=True, replicas=frozenset()))
    assert not [row for row in looked if row.get("replica") and row["topic"] not in READ_ALWAYS]
    later = listed(root, Listing(replicas=frozenset(partitions(everything)), rest=False))
    assert counted([*looked, *later]) == counted(everything)
    one = partitions([row for row in later if row.get("replica")])[:1]
    some = listed(root, Listing(replicas=frozenset(one), rest=False))
    assert counted(some) == counted([row for row in later if (row["cluster_id"], row["topic"], row["partition"]) in one])
    assert some
    plain = [{name: value for name, value in row.items() if name != "look"} for row in everything]
    without = [{name: value for name, value in row.items() if name != "look"} for row in listed(root, Listing())]
    keys = {"cluster_id", "broker_id", "topic", "partition", "is_audited"}
    assert counted([row for row in plain if row.keys() - keys]) == counted(without)
    assert all(row.get("look") for row in everything if row.get("metadata") or row.get("event"))


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
    of_broker = [row for row in listed(cluster.root, Listing(looks=True)) if row["broker_id"] == 1 and row.get("look")]
    assert {row["look"].identity for row in of_broker if not row.get("event")} == {None}
