"""The corrected leader-epoch-checkpoint of real replicas: a right file stays, a damaged one becomes what the broker had written."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from replica_audit.formats.log_dir.names import EPOCH_CHECKPOINT
from replica_audit.partition.audit import PartitionAudit
from replica_audit.protocol.epochs.checkpoint_repair import EntrySource, Undetermined, as_table, corrected
from replica_audit.protocol.epochs.epoch_table import EpochEntry, load, truncate_from_start
from replica_audit.protocol.epochs.replica_log import LoadedLog
from replica_audit.rows import AuditedPartition
from replica_audit.stages import partitions
from tests.support import in_process
from tests.support.shares import by_day

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "data" / "sample"
SHARED = ROOT.parent / "shared" / "clusters"
TAMPERED = "tampered"  # the files of these were changed by hand
ALL = [*sorted(SAMPLE.iterdir()), *sorted(path for path in SHARED.glob("*/before") if TAMPERED not in path.parent.name)]
ROOTS = [path for path in ALL if any(path.rglob(EPOCH_CHECKPOINT))]


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> list[PartitionAudit]:
    """The audits of partitions that were made, with what they loaded."""
    made: list[PartitionAudit] = []

    class Kept(PartitionAudit):
        def row(self) -> AuditedPartition:
            made.append(self)
            return super().row()

    monkeypatch.setattr(partitions, "PartitionAudit", Kept)
    return made


@pytest.mark.clusters
@pytest.mark.parametrize("root", by_day(ROOTS), ids=lambda path: "/".join(path.parts[-2:]))
def test_real_tables_stay_and_come_back(root: Path, audited: list[PartitionAudit]) -> None:
    tables = in_process.audit(root, anew=True)
    if "corrupted" not in root.parts:  # no file that a broker left is corrected
        assert not [row["directory"] for row in tables["replica_logs"] if row["corrected_checkpoint"] is not None]
        assert not [problem for problem in tables["input_errors"] if problem["code"] == "checkpoint-contradicts-batches"]
    seen = 0
    for partition in audited:
        for broker, one in partition.compared.items():
            if one.log is None or one.unreadable or one.files.checkpoint_state not in ("ok", "empty"):
                continue
            others = {other: two.log.epochs for other, two in partition.compared.items() if two.log and other != broker}
            written = [(epoch, start) for _line, epoch, start in one.files.checkpoint]
            loaded = truncate_from_start(load(written), one.log.log_start_offset)
            right = tuple(entry for entry in loaded if entry.start_offset <= one.log.log_end_offset)
            stays, comes_back = corrected(written, one.log, others), corrected(written[:-1], one.log, others)
            assert not isinstance(stays, Undetermined)
            assert not isinstance(comes_back, Undetermined)
            assert as_table(stays) == right
            lost = set(right) - set(as_table(comes_back))
            # what the batches do not tell: an epoch without a record, and one whose first batches the cleaner took
            assert all(entry == right[-1] for entry in lost)
            assert not lost or not _has_first_batch(one.log, right[-1])
            alone = corrected([], one.log)
            assert not isinstance(alone, Undetermined)
            exact = {entry.epoch: entry.start_offset for entry in alone if entry.source is EntrySource.BATCHES}
            assert exact.items() <= dict(right).items()
            seen += 1
    assert seen


def _has_first_batch(log: LoadedLog, entry: EpochEntry) -> bool:
    inside = [run for run in log.runs if run.last_offset >= log.log_start_offset]
    return any(run.leader_epoch == entry.epoch and run.first_offset <= entry.start_offset for run in inside)


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


CHANGED = sorted([*SHARED.glob("corrupted/checkpoint-*/corruption.json"), *SHARED.glob("tampered-diverged-clean-shutdown/corruption.json")])


@pytest.mark.clusters
@pytest.mark.parametrize("path", CHANGED, ids=lambda path: path.parent.name)
def test_a_checkpoint_changed_by_hand_becomes_byte_for_byte_what_the_broker_had_written(path: Path) -> None:
    tables = in_process.audit(path.parent / "before")
    corrections = {
        f"broker-{row['broker_id']}/{Path(row['log_dir']).name}/{row['directory']}/{EPOCH_CHECKPOINT}": row["corrected_checkpoint"]
        for row in tables["replica_logs"]
        if row["corrected_checkpoint"] is not None
    }
    changed = json.loads(path.read_text(encoding="utf-8"))
    changes = {edit["file"]: _digest(edit["was"]) for edit in changed.get("edits", ()) if edit["was"] != edit["now"]}
    if path.parent.name != "checkpoint-extra-future-epoch":  # a broker drops that entry
        changes |= {change["file"]: change["sha256_before"] for change in changed.get("what", ())}
    assert {file: _digest(content) for file, content in corrections.items()} == changes
    remedies = {problem["path"].split("/before/")[1]: problem["remedy"] for problem in tables["input_errors"]}
    for file, content in corrections.items():
        lines = ", ".join(f"'{line}'" for line in content.splitlines()[2:])
        assert f"Its entries: {lines}" in remedies[file]
        assert ">" not in remedies[file], "no command that a terminal may break before what it writes"


@pytest.mark.clusters
@pytest.mark.parametrize("path", CHANGED, ids=lambda path: path.parent.name)
def test_no_remedy_moves_or_deletes_the_file(path: Path) -> None:
    tables = in_process.audit(path.parent / "before")
    found = [problem["remedy"] for problem in tables["input_errors"] if problem["kind"] == EPOCH_CHECKPOINT]
    assert found
    for remedy in found:
        assert not re.search(r"\b(move|rename|delete|remove)\b", remedy.replace(" do not delete or rename the file", ""), re.I), remedy
