"""`--compare records` over real brokers: which keys compaction took for good, and nothing where it took none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from replica_audit.formats.segment.records import key_hash
from replica_audit.words import count
from tests.clusters.test_content import ROOTS
from tests.clusters.test_scenarios import SHARED
from tests.support import in_process
from tests.support.shares import by_day

RECORDS = Settings(compare="records")
KEY_STATES = sorted(SHARED.glob("*/key-state.json"))
LOST = {"compacted-key-loss"}  # its cleaner had gone beyond the cut


def missing_by_broker(told: dict[str, Any]) -> dict[tuple[str, int], set[str]]:
    """What the brokers' own state was in the end: the hashes of the keys that a replica lacks and its leader has."""
    return {
        (partition, int(broker)): {f"{key_hash(key.encode())[0] % (1 << 64):016x}" for key in replica["keys_missing_that_the_leader_has"]}
        for partition, state in told.items()
        for broker, replica in state["replicas"].items()
    }


@pytest.mark.clusters
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("path", KEY_STATES, ids=lambda path: path.parent.name)
def test_the_keys_that_a_replica_lacks_in_the_end_are_named_before_and_after(path: Path, moment: str) -> None:
    told = json.loads(path.read_text(encoding="utf-8"))
    tables = in_process.audit(path.parent / moment, settings=RECORDS)
    found: dict[tuple[str, int], set[str]] = {}
    for row in tables["differences"]:
        # after the cut nothing tells any more that the cleaner had gone beyond it
        assert row["cause"] == ("key-missing" if moment == "before" else "key-missing-or-deleted")
        assert row["leader"] is not None
        found.setdefault((f"{row['topic']}-{row['partition']}", row["broker_id"]), set()).add(row["key_hash"])
    assert found == {replica: keys for replica, keys in missing_by_broker(told).items() if keys}
    assert bool(found) == (path.parent.name in LOST)
    for row in tables["replica_verdicts"]:
        if f"{row['topic']}-{row['partition']}" not in told:
            continue
        lacks = found.get((f"{row['topic']}-{row['partition']}", row["follower_id"]), ())
        assert sum(one["keys"] for one in row["differing_keys"]) == len(lacks)
        assert (row["verdict"] == "compaction_differs") == bool(lacks and moment == "after"), "a cut comes first"
        unsure = "missing, lost or deleted while the other replica was away for long,"
        one, several = (
            ("live key is missing", "live keys are missing") if moment == "before" else (f"key is {unsure}", f"keys are {unsure}")
        )
        assert (f"{count(len(lacks), one, several)} on follower" in row["reason"]) == bool(lacks)


@pytest.mark.clusters
@pytest.mark.parametrize("root", by_day(root for root in ROOTS if root.parts[-2] not in LOST), ids=lambda root: "/".join(root.parts[-2:]))
def test_no_key_differs_where_nothing_was_lost_by_compaction(root: Path) -> None:
    tables, by_content = in_process.audit(root, settings=RECORDS), in_process.audit(root)
    assert not [row for row in tables["differences"] if row["kind"] == "key"]
    for row, expected in zip(tables["replica_verdicts"], by_content["replica_verdicts"], strict=True):
        assert not row["differing_keys"]
        assert row["records_unread"] is None
        assert row["verdict"] == expected["verdict"] or (row["verdict"] == "identical" and expected["keys_may_differ"] is False)
        if expected["verdict"] in ("identical", "lagging", "consistent") and row["compacted"]:
            assert (row["differing_keys"] == []) == (row["common_prefix_end_offset"] > 0), "it was compared, if there is anything"


@pytest.mark.clusters
def test_pairs_were_compared_in_many_clusters() -> None:
    rows = [row for root in ROOTS[::3] for row in in_process.audit(root, settings=RECORDS)["replica_verdicts"]]
    compared = [row for row in rows if row["differing_keys"] == []]
    assert len(compared) > (20 if SHARED.is_dir() else 5)
    assert {"__consumer_offsets", "__transaction_state"} <= {row["topic"] for row in compared}
