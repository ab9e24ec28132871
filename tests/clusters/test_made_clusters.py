"""The clusters that benchmarks make are such as brokers could have: read by the product's own readers, and said of them what is so."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from replica_audit.formats.replicas.segment_reader import scan_file
from tests.support import in_process

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS, REPLICAS, EPOCHS = 60, 3, 10
Row = dict[str, Any]
# what differs is where the files lie, and of a collection without batch indexes what single batches hold that go
_LEFT_OUT = (
    "log_dir",
    "source",
    "captured_at",
    "crcs_verified_at",
    "evidence",
    "rests_on",
    "removed_bytes",
    "lost_bytes",
    "first_removed_timestamp_ms",
    "last_removed_timestamp_ms",
)


def _made(folder: Path, form: str, *options: str) -> Path:
    command = [sys.executable, str(ROOT / "benchmarks" / "clusters.py"), "--output", str(folder / form), "--form", form, *options]
    subprocess.run([*command, "--partitions", str(PARTITIONS), "--diverged", "0.2"], check=True)
    return folder / form


def _files(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module", params=["1", "4"], ids=["one segment", "four segments"])
def segments(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory, segments: str) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("made")
    return {form: _made(folder, form, "--segments", segments) for form in ("raw", "collected")}


def test_every_batch_is_one_that_a_broker_writes(clusters):
    replicas = sorted(clusters["raw"].glob("broker-*/data-0/*-*/"))
    assert len(replicas) == PARTITIONS * REPLICAS
    for replica in replicas:
        batches = 0
        for segment in replica.glob("*.log"):
            scan = scan_file(segment)
            assert scan.damage is None and all(run.intact and run.magic == 2 for run in scan.runs)
            assert scan.runs[0].first_offset == int(segment.stem)
            assert sum(run.size_bytes for run in scan.runs) == segment.stat().st_size
            batches += sum(run.batch_count for run in scan.runs)
        assert batches == EPOCHS


def test_a_collection_says_what_the_log_directories_hold(clusters):
    raw, collected = (in_process.audit(clusters[form]) for form in ("raw", "collected"))
    assert raw["problems"] == raw["input_errors"] == collected["input_errors"] == []
    assert {problem["code"] for problem in collected["problems"]} == {"no-batch-index"}
    assert raw["segment_epochs"]
    for table in raw.keys() - {"problems", "found"}:
        found = [[{name: row[name] for name in row if name not in _LEFT_OUT} for row in tables[table]] for tables in (raw, collected)]
        # rows are in no order: that of folders as the system lists them
        assert sorted(map(str, found[0])) == sorted(map(str, found[1])), table


def test_as_many_followers_have_diverged_as_were_to(clusters):
    tables = in_process.audit(clusters["collected"])
    verdicts = Counter(row["verdict"] for row in tables["replica_verdicts"])
    assert verdicts.keys() == {"identical", "stale_tail"}
    assert verdicts.total() == PARTITIONS * (REPLICAS - 1)
    assert 5 <= verdicts["stale_tail"] <= 20
    for row in tables["replica_verdicts"]:
        if row["verdict"] == "stale_tail":
            assert row["removed_below_high_watermark"] == 0 and row["truncation_offset"] == row["divergence_offset"]


def test_the_same_options_make_the_same_cluster(clusters, segments, tmp_path):
    again = _files(_made(tmp_path, "collected", "--segments", segments))
    assert again == _files(clusters["collected"])
    other = _made(tmp_path, "raw", "--seed", "8")
    assert {path.read_bytes() for path in other.glob("*/*/*/*.log")}.isdisjoint(
        path.read_bytes() for path in clusters["raw"].glob("*/*/*/*.log")
    )
