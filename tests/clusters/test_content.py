"""What replicas hold, compared byte by byte: the audit must find every difference that epochs do not tell, and no other."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.clusters.test_scenarios import SAMPLE, SHARED
from tests.support import in_process
from tests.support.shares import by_day

ROOTS = sorted(SAMPLE.iterdir()) + sorted(
    path for path in SHARED.glob("*/*") if path.name in ("before", "after", "stopped") and path.is_dir()
)
_EPOCH = slice(12, 16)  # what a broker may set in a batch that it was sent


def batches(replica: dict[str, object]) -> dict[int, bytes]:
    """A replica's batches by stored offset, without their leader epochs. Reads what the records' framing alone tells."""
    found: dict[int, bytes] = {}
    directory = Path(str(replica["log_dir"])) / str(replica["directory"])
    for path in sorted(directory.glob("*.log")):
        data, position = path.read_bytes(), 0
        while position + 12 <= len(data):
            offset, length = struct.unpack_from(">qi", data, position)
            end = position + 12 + length
            if length < 14 or end > len(data):
                break
            batch = data[position:end]
            found[offset] = batch[: _EPOCH.start] + batch[_EPOCH.stop :] if batch[16] == 2 else batch
            position = end
    return found


@pytest.mark.clusters
@pytest.mark.parametrize("root", by_day(ROOTS), ids=lambda root: "/".join(root.parts[-2:]))
def test_logs_that_agree_hold_the_same_bytes_and_others_do_not(root: Path) -> None:
    tables = in_process.audit(root)
    logs = {(row["topic"], row["partition"], row["broker_id"]): row for row in tables["replica_logs"] if row["state"] == "current"}
    said = {"identical": True, "lagging": True, "content_mismatch": False}
    for row in tables["replica_verdicts"]:
        if row["verdict"] not in said:
            continue
        leader, follower = (logs[row["topic"], row["partition"], row[side]] for side in ("leader_id", "follower_id"))
        if (leader["cleaner_offset"] or follower["cleaner_offset"]) and row["verdict"] != "content_mismatch":
            continue  # every replica compacts its log by itself
        theirs, own = batches(leader), batches(follower)
        start = max(log["log_start_offset"] for log in (leader, follower))
        end = min(log["log_end_offset"] for log in (leader, follower))
        wrong = sorted(at for at in theirs.keys() | own.keys() if start <= at < end and theirs.get(at) != own.get(at))
        name = f"{row['topic']}-{row['partition']} of {row['follower_id']}"
        assert (not wrong) == said[row["verdict"]], f"{name}: {row['verdict']}, yet different at {wrong[:3]}"
        if wrong:
            assert row["divergence_offset"] == row["common_prefix_end_offset"] == wrong[0], name
