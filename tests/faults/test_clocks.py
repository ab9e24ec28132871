"""Brokers whose clocks are hours apart: what a broker's clock put into its files, its server.log and its collection changes no finding."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.collect.collections import collect_cluster, resealed
from tests.formats import record_files as rf
from tests.formats import transaction_files as tf
from tests.partition import test_open_transactions as opened
from tests.support import in_process

DATA = Path(__file__).resolve().parents[1] / "data"
ROOTS = [*sorted((DATA / "sample").iterdir()), DATA / "offline" / "nobody-leads", DATA / "transactions" / "before"]
HOURS = timedelta(hours=7)
LOGGED_AT = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]", re.MULTILINE)
COLLECTED_AT = re.compile(r'"((?:captured|started|finished)_at)": "([^"]+)"')


def shifted(found: re.Match[str], by: timedelta) -> str:
    return f"[{datetime.fromisoformat(found[1]) + by:%Y-%m-%d %H:%M:%S},{found[2]}]"


def shifted_in_manifest(found: re.Match[str], by: timedelta) -> str:
    moment = datetime.fromisoformat(found[2]) + by
    return f'"{found[1]}": "{moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")}"'


def set_clock(broker: Path, by: timedelta) -> int:
    """Make the files of a broker's folder those of one whose clock is wrong; how many times in them are others then."""
    changed = 0
    for path in sorted(broker.rglob("*")):
        if path.name.startswith("server.log"):
            content, count = LOGGED_AT.subn(lambda found: shifted(found, by), path.read_text(encoding="utf-8"))
            path.write_text(content, encoding="utf-8")
            changed += count
        elif path.suffix == ".json" and COLLECTED_AT.search(text := path.read_text(encoding="utf-8")):
            content, count = COLLECTED_AT.subn(lambda found: shifted_in_manifest(found, by), text)
            path.write_bytes(resealed(json.loads(content)))
            changed += count
    for path in broker.rglob("*"):
        at = path.stat().st_mtime + by.total_seconds()
        os.utime(path, (at, at))
    return changed


def brokers(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir())


def findings(root: Path) -> Counter[str]:
    """Every finding and verdict, without what is only a time."""
    rows = in_process.audit(root, anew=True)
    facts = [{name: row[name] for name in ("finding_key", "severity", "summary", "removed_committed")} for row in rows["found"]]
    verdicts = [
        {name: row[name] for name in ("topic", "partition", "follower_id", "verdict", "reason")} for row in rows["replica_verdicts"]
    ]
    assert verdicts
    return Counter(json.dumps(row, sort_keys=True, default=str).replace(str(root), "") for row in (*facts, *verdicts, *rows["problems"]))


def skewed(root: Path) -> Iterator[int]:
    """One broker's clock is ahead, another one's behind."""
    first, *_others, last = brokers(root)
    yield set_clock(first, HOURS)
    yield set_clock(last, -HOURS)


@pytest.mark.parametrize("root", ROOTS, ids=lambda root: root.name)
def test_copies(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    expected = findings(copy)
    logs = list(copy.rglob("server.log*"))
    assert sum(skewed(copy)) > 0 or not logs
    assert findings(copy) == expected


@pytest.mark.parametrize("root", ROOTS, ids=lambda root: root.name)
def test_collections(root: Path, tmp_path: Path) -> None:
    collected = collect_cluster(root, tmp_path / "collected")
    expected = findings(collected)
    assert sum(skewed(collected)) > 0
    assert findings(collected) == expected


@pytest.mark.parametrize("by", [timedelta(0), HOURS, -HOURS], ids=["right", "ahead", "behind"])
@pytest.mark.parametrize(
    ("written", "expected"),
    [pytest.param(timedelta(hours=1), None, id="after the copy"), pytest.param(timedelta(days=-1), "coordinator-went-on", id="before it")],
)
def test_a_coordinator_that_has_gone_on(tmp_path: Path, written: timedelta, expected: str | None, by: timedelta) -> None:
    """A transaction is open in the leader's copy. Its coordinator ended it, a day before that copy or after it: only then it hangs."""
    updated = int((datetime.now(UTC) + written).timestamp() * 1000)
    state = tf.value(tf.COMPLETE_COMMIT, {}, version=1, producer_id=9, epoch=2, updated=updated)
    root = opened.cluster(tmp_path, [opened.WENT_ON], states=[rf.batch(0, (tf.key("pay"), state))])
    collected = collect_cluster(root, tmp_path / "collected")
    assert set_clock(collected / "broker-1", by)
    (row,) = in_process.audit(collected, anew=True)["open_transactions"]
    assert row["hangs_because"] == expected
