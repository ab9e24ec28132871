"""How often an audit opens what `collect` wrote: as often for many diverged replicas as for none, or a large cluster takes hours."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from replica_audit.formats.collection import broker_folder, manifest
from replica_audit.formats.replicas.replica_reader import batches_from
from tests.support import in_process

ROOT = Path(__file__).resolve().parents[2]
BROKERS = 3


def _made(folder: Path, diverged: str) -> Path:
    command = [sys.executable, str(ROOT / "benchmarks" / "clusters.py"), "--output", str(folder), "--diverged", diverged]
    subprocess.run([*command, "--partitions", "40", "--brokers", str(BROKERS)], check=True)
    return folder


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the files of a collection are opened, by name; they are read as ever."""
    count: Counter[str] = Counter()
    for module, name in ((broker_folder, "opened"), (manifest, "whole_content")):
        of_module = getattr(module, name)

        def counted(path: Path, *more: object, _of_module: object = of_module) -> object:
            count[path.name] += 1
            return _of_module(path, *more)  # type: ignore[operator]

        monkeypatch.setattr(module, name, counted)
    return count


def test_many_diverged_replicas_are_no_more_passes_than_none(tmp_path: Path, opened: Counter[str]) -> None:
    quiet = in_process.audit(_made(tmp_path / "quiet", "0"))
    for_none = Counter(opened)
    opened.clear()
    tables = in_process.audit(_made(tmp_path / "diverged", "0.5"))
    assert {row["verdict"] for row in quiet["replica_verdicts"]} == {"identical"}
    cut = [row for row in tables["replica_verdicts"] if row["verdict"] == "stale_tail"]
    assert len(cut) > 10 and all(row["removed_records"] > 0 for row in cut)  # their batches were wanted
    assert opened == for_none
    assert 0 < opened["segments.parquet"] <= 3 * BROKERS
    assert 0 < opened["manifest.json"] <= 3 * BROKERS


def test_batches_are_made_up_of_the_same_runs_at_hand_or_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = _made(tmp_path / "diverged", "0.5")
    at_hand = in_process.audit(root)
    monkeypatch.setattr("replica_audit.stages.partitions.batches_from", lambda files, offset, _runs: batches_from(files, offset))
    looked_up = in_process.audit(root)
    assert any(row["removed_records"] for row in looked_up["replica_verdicts"])
    assert looked_up == at_hand
