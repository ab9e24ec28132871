"""A collection gives the rows that the log directories themselves give, for every scenario of real brokers."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from replica_audit.formats.collection.manifest import MANIFEST
from replica_audit.formats.log_dir.names import CLUSTER_METADATA
from tests.clusters.test_scenarios import SAMPLE, SHARED
from tests.collect.collections import as_version_1, collect_cluster
from tests.support import in_process
from tests.support.shares import by_day

DATA = SAMPLE.parent
ALL = Settings(detail="all")  # also the rows of pairs that are proven healthy
ROOTS = [*sorted(SAMPLE.iterdir()), *sorted(path for path in SHARED.glob("**/before") if path.is_dir())]
# the one thing that differs, and what raw files cannot tell
# and which pairs are plain enough to be proven healthy by themselves
OF_THE_SOURCE = ("source", "captured_at", "crcs_verified_at", "looked_again_at", "later_log_end_offset", "proven_pairs")
# what only the bytes of batches tell, which a collection does not have
OF_THE_BYTES = {
    "mismatch": ("kind", "record", "compared_end_offset", "unread"),
    "damaged": ("computed_crc",),
    "elsewhere": ("outcome",),  # which the record of a transaction marker says
    **dict.fromkeys(("lost_by_transaction", "held_alone_by_transaction"), ("committed", "aborted", "unknown")),  # likewise
}
TABLE_OF_THE_BYTES = "damaged_batches"
# what says in `replica_verdicts` that the keys of a compacted log were compared unasked, which takes records, or that they were not
OF_THE_KEYS = ("differing_keys", "keys_may_differ", "verdict", "reason")


def without_bytes(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_bytes(key, each) for key, each in value.items() if key not in OF_THE_BYTES.get(name, ())}
    return [without_bytes(name, each) for each in value] if isinstance(value, list | tuple) else value


def comparable(rows: list[dict[str, Any]], collected: Path, root: Path) -> Counter[str]:
    """Rows that name the broker's files as they are; only server logs lie in the collection themselves."""
    bare = ({key: without_bytes(key, value) for key, value in row.items() if key not in OF_THE_SOURCE} for row in rows)
    return Counter(json.dumps(row, sort_keys=True, default=str).replace(str(collected), str(root)) for row in bare)


def raw_rows(root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[dict[str, Any]]]:
    """Rows of log directories, without the keys that an audit compares unasked where it has few records to read."""
    rows = in_process.audit(root, settings=ALL)
    if all(row["differing_keys"] is None for row in rows["replica_verdicts"]):
        return rows
    with monkeypatch.context() as patched:
        patched.setattr("replica_audit.partition.audit.FEW_BYTES", -1)
        without = in_process.audit(root, settings=ALL, anew=True)
    pairs = list(zip(rows["replica_verdicts"], without["replica_verdicts"], strict=True))
    assert all(row["differing_keys"] is None for _, row in pairs)
    for compared, bare in pairs:
        assert is_untold(bare) if compared["differing_keys"] is not None else compared == bare, bare
        if not compared["differing_keys"]:  # the same keys change nothing else
            assert {**compared, **{name: bare[name] for name in OF_THE_KEYS}} == bare
    return without


def is_untold(row: dict[str, Any]) -> bool:
    """Whether nobody takes a row of keys that were not compared for a clean one of keys that were."""
    return row["verdict"] != "identical" and (row["severity"] != "none" or row["keys_may_differ"] is True)


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["topic"], row["partition"], row["broker_id"], row["damage"], row["byte_offset"], row["stored_crc"]


@pytest.mark.clusters
@pytest.mark.parametrize("root", by_day(ROOTS), ids=lambda root: "/".join(root.parts[-2:]))
def test_a_collection_gives_the_rows_that_its_log_directories_give(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collected = collect_cluster(root, tmp_path / "collected")
    expected, found = raw_rows(root, monkeypatch), in_process.audit(collected, settings=ALL)
    for table in sorted((expected.keys() | found.keys()) - {TABLE_OF_THE_BYTES}):
        assert comparable(found[table], collected, root) == comparable(expected[table], collected, root), table
    read = {key_of(row) for row in expected[TABLE_OF_THE_BYTES]}
    assert {key_of(row) for row in found[TABLE_OF_THE_BYTES]} <= read, "of damage that a collection tells, nothing is made up"
    assert {row["source"] for row in found["segment_epochs"]} == {"collected"}
    assert all(row["captured_at"] for row in found["replica_logs"])
    assert all(row["crcs_verified_at"] for row in found["replica_logs"] if row["batch_count"] and not row["unreadable_reason"])


@pytest.mark.parametrize("root", sorted(SAMPLE.iterdir()), ids=lambda root: root.name)
def test_so_does_one_of_an_earlier_release(root: Path, tmp_path: Path) -> None:
    collected = collect_cluster(root, tmp_path / "collected")
    expected = in_process.audit(collected)
    brokers = [as_version_1(path) for path in collected.iterdir() if (path / MANIFEST).exists()]
    assert brokers
    assert _without_their_age(in_process.audit(collected), len(brokers)) == expected


def _without_their_age(found: dict[str, list[dict[str, Any]]], brokers: int) -> dict[str, list[dict[str, Any]]]:
    """The rows without the one of each collection that says that it has no digests."""
    others = [problem for problem in found["problems"] if problem["code"] != "no-digests"]
    assert len(found["problems"]) == len(others) + brokers
    return found | {"problems": others}


def test_so_does_one_that_an_earlier_release_wrote(tmp_path: Path) -> None:
    """`data/older/collection-version-1.tar.gz` is what `collect` of 0.2.0 made of the sample's log directories, below /var/lib/kafka."""
    root = SAMPLE / "kafka-1.1.1-kip279-scenario-1-all"
    with tarfile.open(DATA / "older" / "collection-version-1.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    shutil.copy(root / CLUSTER_METADATA, tmp_path)
    for log in root.glob("*/server.log"):
        shutil.copy(log, tmp_path / log.parent.name)
    expected, found = in_process.audit(root, settings=ALL), _without_their_age(in_process.audit(tmp_path, settings=ALL), 3)
    assert found["replica_verdicts"]
    for table in sorted((expected.keys() | found.keys()) - {TABLE_OF_THE_BYTES}):
        rows = comparable(found[table], tmp_path, root)
        assert Counter(row.replace("/var/lib/kafka", str(root)) for row in rows.elements()) == comparable(
            expected[table], tmp_path, root
        ), table
