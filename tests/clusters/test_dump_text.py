"""A replica that was read from text of kafka-dump-log gives the rows that its segments give."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest

from replica_audit.config import Settings
from tests.clusters.test_scenarios import ROOT, SAMPLE, SHARED, SHARED_SCENARIOS
from tests.collect.test_same_rows import without_bytes
from tests.support import in_process
from tests.support.shares import by_day

DUMPS = ROOT / "tests" / "data" / "dump-log"
CASES = [(SAMPLE / path.name, path) for path in sorted(DUMPS.iterdir())]
CASES += [(path / "before", path / "dump-log") for path in SHARED_SCENARIOS if (path / "dump-log").is_dir()]
TABLES = (
    "segment_epochs",
    "replica_logs",
    "epoch_start_offsets",
    "epoch_end_offsets",
    "truncation_points",
    "replica_verdicts",
    "input_errors",
)
# what names the file, or the position in it; `without_bytes`: what takes records, as the ends of transactions do
OF_THE_FILE = ("source", "evidence", "rests_on", "path", "kind", "line", "mismatch")  # a text holds no records to look at


def _with_text(root: Path, texts: Path, to: Path) -> int:
    """Copy a root, every segment that has a text replaced by it. Returns how many were."""
    shutil.copytree(root, to, ignore=shutil.ignore_patterns("*.index", "*.timeindex", "*.snapshot"))
    replaced = 0
    for text in texts.rglob("*.txt"):
        broker, directory = text.relative_to(texts).parts[0], text.parent.name
        if directory.startswith("__cluster_metadata-"):
            continue  # read as records, which batch lines do not tell
        for home in (to / broker).rglob(directory):
            segment = home / f"{text.stem}.log"
            if segment.exists():
                segment.unlink()
                shutil.copy(text, home / text.name)
                replaced += 1
    return replaced


def _rows(tables: dict[str, list[dict[str, Any]]], table: str, root: Path) -> Counter[str]:
    rows = [row for row in tables[table] if row.get("topic") != "__cluster_metadata"]
    bare = ({key: without_bytes(key, value) for key, value in row.items() if key not in OF_THE_FILE} for row in rows)
    return Counter(json.dumps(row, sort_keys=True, default=str).replace(str(root), "ROOT") for row in bare)


@pytest.mark.clusters
@pytest.mark.parametrize("case", by_day(CASES), ids=lambda case: "/".join(case[1].relative_to(ROOT.parent).parts[-2:]))
def test_text_gives_the_rows_that_segments_give(case: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replica_audit.partition.audit.FEW_BYTES", -1)  # texts hold no records that could be compared unasked
    root, texts = case
    copy = tmp_path / "copy"
    assert _with_text(root, texts, copy) > 0
    from_segments, from_text = in_process.audit(root, anew=True), in_process.audit(copy)
    for table in TABLES:
        assert _rows(from_text, table, copy) == _rows(from_segments, table, root), table
    assert "dump" in {row["source"] for row in from_text["segment_epochs"]}
    told = [problem["kind"] for problem in from_text["problems"]]
    assert not set(told) - {"group-offsets", "transaction-state"}, "only what coordinators wrote cannot be read from batch lines"


@pytest.mark.clusters
@pytest.mark.parametrize("texts", sorted(DUMPS.iterdir()), ids=lambda path: path.name)
def test_text_alone_is_an_input(texts: Path, tmp_path: Path) -> None:
    """Only the texts, in one folder per broker and under names of their own: replicas are known by the 'Dumping' lines."""
    root = tmp_path / "texts"
    for number, text in enumerate(sorted(texts.rglob("*.txt"))):
        broker = root / text.relative_to(texts).parts[0]
        broker.mkdir(parents=True, exist_ok=True)
        shutil.copy(text, broker / f"text-{number}")
    tables = in_process.audit(root)
    assert not tables["input_errors"]
    assert {row["leader_source"] for row in tables["replica_verdicts"]} == {"inferred"}
    raw = in_process.audit(SAMPLE / texts.name)
    key = ("topic", "partition", "broker_id", "log_end_offset", "last_epoch")
    ends = {tuple(row[name] for name in key) for row in raw["replica_logs"]}
    found = {tuple(row[name] for name in key) for row in tables["replica_logs"]}
    assert found
    assert found <= ends
    assert {row["checkpoint_state"] for row in tables["replica_logs"]} == {"not-collected"}


def test_the_folder_of_real_scenarios_is_complete_where_it_exists() -> None:
    """Guards the parametrisation above: an empty list of cases would pass."""
    assert len(CASES) >= 3
    assert not SHARED.is_dir() or len(CASES) > 40


CLEAN = [
    SHARED / "clean-in-sync" / "dump-log",
    *(SHARED / name / "dump-log-after" for name in ("compacted-divergence", "compacted-key-loss")),
]


@pytest.mark.clusters
@pytest.mark.parametrize("compare", ["epochs", "content", "records"])
@pytest.mark.parametrize("texts", [path for path in CLEAN if path.is_dir()], ids=lambda path: path.parent.name)
def test_text_alone_of_a_compacted_topic_is_no_alarm(texts: Path, compare: Literal["epochs", "content", "records"]) -> None:
    """Neither the policy of the topic nor a cleaner checkpoint is there: the batches alone show that a cleaner was at work."""
    rows = in_process.audit(texts, settings=Settings(compare=compare))["replica_verdicts"]
    compacted = [row for row in rows if row["topic"] in ("compacted", "profile", "settings")]
    assert compacted
    assert all(row["compacted"] for row in compacted)
    assert {(row["verdict"], row["severity"]) for row in compacted} == {("consistent", "none")}
