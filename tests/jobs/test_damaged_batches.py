"""Damaged batches and records that differ, through Spark: the same rows as in one process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.config import Settings
from replica_audit.rows.codes import Protocol
from replica_audit.storage.warehouse.reader import WarehouseTables
from tests.scenarios.disks import TOPIC, Cluster, Disk
from tests.support.engines import differing_tables

BATCHES = [(1, 0, 4), (1, 5, 9), (2, 10, 11)]


@pytest.mark.spark
def test_both_engines_find_the_same(empty_warehouse: Path, tmp_path: Path) -> None:
    whole, other = (Disk(batches=BATCHES, high_watermark=12, other_from=offset) for offset in (None, 5))
    Cluster(disks={1: whole, 2: other, 3: whole, 4: whole}, leader_epoch=2, isr=(1, 2, 3, 4)).audit(tmp_path, Protocol.TRUNCATE_ON_FETCH)
    (home,) = tmp_path.iterdir()
    (segment,) = (home / "broker-3" / "data-0" / f"{TOPIC}-0").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[80] ^= 1
    segment.write_bytes(content)
    shutil.copytree(empty_warehouse, tmp_path / "w")
    message = tmp_path / "message.json"
    assert cli.main(["audit", "--input", str(home), "--warehouse", str(tmp_path / "w"), "--termination-message", str(message)]) == 1
    ended = json.loads(message.read_text(encoding="utf-8"))
    assert (ended["command"], ended["exit_code"], ended["codes"]) == ("audit", 1, {"content_mismatch": 1, "unreadable": 1})
    assert differing_tables(tmp_path / "w", [str(home)], Settings()) == []
    kept = WarehouseTables(str(tmp_path / "w"))
    (damaged,) = (kept.arrow("damaged_batches") or pytest.fail("no table")).to_pylist()
    assert (damaged["broker_id"], damaged["recovery"], damaged["recover_from_id"]) == (3, "recoverable", 1)
    findings = {row["code"]: row for row in (kept.arrow("findings") or pytest.fail("no table")).to_pylist()}
    assert findings["content_mismatch"]["mismatch"]["record"]["offset"] == 5
    assert findings["unreadable"]["damaged"][0]["recover_from_id"] == 1
