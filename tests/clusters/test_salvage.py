"""Records of real brokers, saved: as many as the tables say are removed, and those that the laboratory's own decoder finds."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from replica_audit.formats.salvage.saved_file import parsed
from tests.clusters.test_scenarios import SHARED
from tests.kafka_lab.files import replica_directories
from tests.kafka_lab.records import batches_of
from tests.salvage.made import audited, lines, rows, saved
from tests.salvage.test_by_transaction import held_against_salvage
from tests.support.shares import by_day

pytestmark = pytest.mark.clusters
BEFORE = sorted(SHARED.glob("*/before"))
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/clusters is not beside the project")


@pytest.mark.parametrize("root", BEFORE, ids=lambda path: path.parent.name)
def test_what_is_removed_is_saved(root: Path, tmp_path: Path) -> None:
    run = audited(root)
    verdicts = run.tables.arrow("replica_verdicts").to_pylist()  # type: ignore[union-attr]
    removed = {(row["topic"], row["partition"], row["follower_id"]): row["removed_records"] for row in verdicts if row["removed_records"]}
    found = saved(run, tmp_path / "out")
    assert {(one.cut.topic, one.cut.partition, one.cut.broker_id): one.record_count + one.control_count for one in found.cuts} == removed
    assert found.exit_code == 0
    directories = replica_directories(root)
    held = Counter(
        (row["topic"], row["partition"], row["broker_id"], row["offset"], row["key"], row["value"]) for row in rows(tmp_path / "out")
    )
    for one in found.cuts:
        place = (one.cut.topic, one.cut.partition, one.cut.broker_id)
        decoded = {
            (*place, batch.base + record.delta, record.key, record.value)
            for batch in batches_of(directories[place])
            for record in batch.records
            if not batch.is_control and one.cut.first_offset <= batch.base + record.delta < one.cut.end_offset
        }
        if decoded or "ibp-0.10.2" not in str(root):  # the decoder knows magic 2 alone
            assert decoded == {record for record in held if record[:3] == place}


@pytest.mark.parametrize("root", by_day(BEFORE), ids=lambda path: path.parent.name)
def test_what_is_removed_is_split_by_transaction(root: Path, tmp_path: Path) -> None:
    found = held_against_salvage(root, tmp_path / "out")
    if root.parent.name == "txn-loss":
        assert found == Counter(committed=9, aborted=9, markers=12)


@needs_shared
def test_keys_that_the_leader_lost_are_replayed_and_newer_ones_are_not(tmp_path: Path) -> None:
    """The brokers of that cluster were asked for their keys, before and after."""
    root = SHARED / "compacted-key-loss"
    saved(audited(root / "before"), tmp_path / "out")
    told = json.loads((root / "key-state.json").read_text())
    for row in rows(tmp_path / "out"):
        assert (row["kept_back"] == "newer-on-leader") == (row["newer_offset"] is not None)
        assert row["newer_offset"] is None or row["newer_leader_epoch"] > row["leader_epoch"]
    assert told


@needs_shared
def test_what_was_committed_and_consumed_is_in_the_replay(tmp_path: Path) -> None:
    """Every record that the dead leader had acknowledged and the elected one does not have."""
    root = SHARED / "committed-loss" / "before"
    saved(audited(root), tmp_path / "out")
    directories = replica_directories(root)
    for partition in range(3):
        mine, leaders = (batches_of(directories["billing", partition, broker]) for broker in (1, 2))
        lost = [record.value for batch in mine for record in batch.records if batch not in leaders]
        assert [one.value for line in lines(tmp_path / "out", f"billing-{partition}.console.txt") if (one := parsed(line))] == lost
        assert lost
