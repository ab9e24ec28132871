"""A newest segment that cannot be read at all: nobody knows where its log ends, so nothing is replayed against an end that is made up."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.formats.rights import bound_by_modes
from tests.support import in_process

SAMPLE = Path(__file__).parents[1] / "data" / "sample" / "committed-loss"
LEADER, FOLLOWER = 2, 1
Rows = dict[str, list[dict[str, Any]]]


def audited(tmp_path: Path, broker: int) -> Rows:
    """The rows of billing-0, of which a broker's only segment cannot be read."""
    root = shutil.copytree(SAMPLE, tmp_path / "root")
    (log,) = (root / f"broker-{broker}" / "data-0" / "billing-0").glob("*.log")
    log.chmod(0)
    tables = bound_by_modes(lambda: in_process.audit_cluster(root, anew=True)[0])
    return {name: [row for row in rows if (row.get("topic"), row.get("partition")) == ("billing", 0)] for name, rows in tables.items()}


@pytest.mark.parametrize(("broker", "verdict"), [(LEADER, "inconclusive"), (FOLLOWER, "unreadable")])
def test_no_offset_is_said_of_a_pair_that_cannot_be_compared(tmp_path: Path, broker: int, verdict: str) -> None:
    tables = audited(tmp_path, broker)
    (row,) = [row for row in tables["replica_verdicts"] if row["follower_id"] == FOLLOWER]
    assert (row["verdict"], "cannot be read" in row["reason"]) == (verdict, True)
    said = ("truncation_offset", "divergence_offset", "common_prefix_end_offset", "removed_offsets", "removed_records")
    assert {name: row[name] for name in said} == dict.fromkeys(said)
    assert [row for row in tables["truncation_points"] if row["follower_id"] == FOLLOWER] == []


@pytest.mark.parametrize("broker", [LEADER, FOLLOWER])
def test_its_log_end_is_unknown(tmp_path: Path, broker: int) -> None:
    tables = audited(tmp_path, broker)
    (log,) = [row for row in tables["replica_logs"] if row["broker_id"] == broker]
    assert (log["log_end_offset"], log["log_start_offset"]) == (None, None)
    assert "cannot be read" in log["unreadable_reason"]
    assert not any(row["code"] == "no-segments" for row in tables["input_errors"])


def test_a_leader_that_cannot_be_read_is_a_finding_of_its_own(tmp_path: Path) -> None:
    found = audited(tmp_path, LEADER)["found"]
    assert ("unreadable", "error", LEADER) in {(row["code"], row["severity"], row["broker_id"]) for row in found}
