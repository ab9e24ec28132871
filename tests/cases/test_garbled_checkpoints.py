"""One offset checkpoint that only the copy may have garbled: copy it again; no verdict, no finding and no replica suffers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cases.ran import ran
from tests.formats import kafka_files
from tests.house.checkout import ROOT
from tests.partition.test_what_if import COMMON, _metadata, _write

LOSS = ROOT / "tests" / "data" / "sample" / "committed-loss"
NAMES = ("replication", "recovery-point", "log-start", "cleaner")
CONTENTS = {
    "words": b"0\ngarbage here\n",
    "binary": bytes(range(256)),
    "count": b"0\n9\nt 0 10\n",
    "version": b"7\n1\nt 0 10\n",
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("content", list(CONTENTS))
@pytest.mark.parametrize("broker", [1, 2])
def test_healthy_replicas_stay_healthy(tmp_path: Path, name: str, content: str, broker: int) -> None:
    root = _metadata(_write(tmp_path, {1: COMMON, 2: COMMON}), 1, epoch=0, brokers=[1, 2], isr=[1, 2], state="up")
    (root / f"broker-{broker}" / "data-0" / f"{name}-offset-checkpoint").write_bytes(CONTENTS[content])
    found = ran(root)
    assert list(found.verdicts.values()) == ["identical"]
    assert (found.findings, found.exit_code) == ([], 3)
    assert "copy the file again" in found.report.problems[0].remedy


@pytest.mark.parametrize("broker", [1, 2, 3])
def test_what_is_wrong_is_found_all_the_same(tmp_path: Path, broker: int) -> None:
    root = tmp_path / "loss"
    shutil.copytree(LOSS, root)
    before = ran(root)
    places = sorted((root / f"broker-{broker}").rglob("replication-offset-checkpoint"))
    assert places
    for place in places:
        place.write_bytes(CONTENTS["words"])
    after = ran(root)
    assert {key: verdict for key, verdict in after.verdicts.items() if verdict == "unreadable"} == {}
    cut = [key for key, verdict in before.verdicts.items() if verdict == "committed_loss"]
    assert cut
    assert {after.verdicts[key] for key in cut} <= {"committed_loss", "stale_tail"}, "which are committed may no longer be proven"
    assert after.exit_code == 1


def test_a_broker_that_falls_back_to_its_high_watermark_is_not_told_where(tmp_path: Path) -> None:
    """Below 0.11 the truncation is to the high watermark: unknown is not 0."""
    root = _write(tmp_path, {1: COMMON, 2: COMMON}, high_watermarks={1: 10, 2: 10})
    _metadata(root, 1, epoch=0, brokers=[1, 2], isr=[1], state="down")
    (root / "broker-2" / "data-0" / "replication-offset-checkpoint").write_bytes(kafka_files.checkpoint([("t", 0, "x")]))
    found = ran(root, protocol="high-watermark")
    assert (found.verdicts, found.exit_code) == ({("t", 0, 2): "inconclusive"}, 3)


TXN_LOSS = ROOT.parent / "shared" / "clusters" / "txn-loss" / "before"


@pytest.mark.clusters
@pytest.mark.skipif(not TXN_LOSS.is_dir(), reason="needs the shared clusters")
@pytest.mark.parametrize("broker", [1, 2, 3])
def test_a_damaged_epoch_table_hides_no_transaction_that_hangs(tmp_path: Path, broker: int) -> None:
    """The marker stands in batches of another epoch than the leader's, whatever the checkpoint of the one or the other is like."""
    root = tmp_path / "txn-loss"
    shutil.copytree(TXN_LOSS, root)
    hanging = [one for one in ran(root).findings if one[0] == "hanging_transaction"]
    assert len(hanging) == 3
    for path in (root / f"broker-{broker}").rglob("transfers-0/leader-epoch-checkpoint"):
        path.write_text("0\n7\n0 0\n", encoding="utf-8")
    assert [one for one in ran(root).findings if one[0] == "hanging_transaction"] == hanging
