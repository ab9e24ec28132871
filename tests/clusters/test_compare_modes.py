"""How closely an audit compares: what `--compare epochs` leaves out, and that it leaves out nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.config import Settings
from tests.clusters.test_content import ROOTS
from tests.formats import kafka_files as kf
from tests.support import in_process
from tests.support.shares import by_day

EPOCHS = Settings(compare="epochs")
_SEEN_IN_BYTES = {"content_mismatch", "unreadable"}  # and what stands in their place where the bytes are not looked at
_WITHOUT_EPOCHS = ("kafka-1.1.1-ibp-0.10", "kafka-2.4.1-ibp-0.10")


@pytest.mark.clusters
@pytest.mark.parametrize("root", by_day(ROOTS), ids=lambda root: "/".join(root.parts[-2:]))
def test_epochs_alone_tell_the_same_of_all_that_epochs_can_tell(root: Path) -> None:
    whole, less = in_process.audit(root), in_process.audit(root, settings=EPOCHS)
    damaged = {(row["topic"], row["partition"]) for row in whole["replica_verdicts"] if row["verdict"] in _SEEN_IN_BYTES}
    damaged |= {(row["topic"], row["partition"]) for row in whole["replica_logs"] if row["unreadable_reason"]}
    for expected, found in zip(whole["replica_verdicts"], less["replica_verdicts"], strict=True):
        name = f"{found['topic']}-{found['partition']} of {found['follower_id']}"
        if (found["topic"], found["partition"]) in damaged or any(root.parts[-2].startswith(old) for old in _WITHOUT_EPOCHS):
            continue
        if expected["differing_keys"] is None:  # few records of a partition that something has touched are compared unasked
            assert found["verdict"] == expected["verdict"], name
        assert found["truncation_offset"] == expected["truncation_offset"], name


@pytest.mark.clusters
def test_other_bytes_under_the_same_epochs_pass_by_epochs_alone() -> None:
    roots = [root for root in ROOTS[::3] if any(row["verdict"] == "content_mismatch" for row in in_process.audit(root)["replica_verdicts"])]
    assert roots
    assert not [row for root in roots for row in in_process.audit(root, settings=EPOCHS)["replica_verdicts"] if "content" in row["verdict"]]


def _bytes_read() -> int:
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines())
    return int(lines["rchar"])


def test_epochs_alone_are_read_without_the_payload(tmp_path: Path) -> None:
    size, count = 1 << 20, 16
    for broker in (1, 2):
        batch = kf.batch(0, 0, value=bytes(size))  # the base offset lies outside the CRC
        kf.replica(tmp_path / f"broker-{broker}" / "data", "orders-0", batches=[kf.with_field(batch, ">q", 0, at) for at in range(count)])
    read = {}
    for mode, settings in (("content", Settings()), ("epochs", EPOCHS)):
        before = _bytes_read()
        (verdict,) = in_process.audit(tmp_path, settings=settings)["replica_verdicts"]
        read[mode] = _bytes_read() - before
        assert verdict["verdict"] == "identical"
    assert read["content"] > 2 * count * size
    assert read["epochs"] < count * size / 4
