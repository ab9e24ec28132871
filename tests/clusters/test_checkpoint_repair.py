"""The corrected leader-epoch-checkpoint of real replicas: a right file stays, a damaged one becomes what the broker had written."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.formats.log_dir import EPOCH_CHECKPOINT
from replica_audit.protocol.checkpoint_repair import EntrySource, as_table, corrected
from replica_audit.protocol.epoch_table import EpochEntry, load, truncate_from_start
from replica_audit.protocol.replica_log import LoadedLog
from replica_audit.transforms.partitions import PartitionAudit
from tests.support import in_process

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
        def row(self) -> in_process.Row:
            made.append(self)
            return super().row()

    monkeypatch.setattr(in_process, "PartitionAudit", Kept)
    return made


@pytest.mark.clusters
@pytest.mark.parametrize("root", ROOTS, ids=lambda path: "/".join(path.parts[-2:]))
def test_real_tables_stay_and_come_back(root: Path, audited: list[PartitionAudit]) -> None:
    in_process.audit(root)
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
            assert stays is not None
            assert comes_back is not None
            assert as_table(stays) == right
            lost = set(right) - set(as_table(comes_back))
            # what the batches do not tell: an epoch without a record, and one whose first batches the cleaner took
            assert all(entry == right[-1] for entry in lost)
            assert not lost or not _has_first_batch(one.log, right[-1])
            exact = {entry.epoch: entry.start_offset for entry in corrected([], one.log) or () if entry.source is EntrySource.BATCHES}
            assert exact.items() <= dict(right).items()
            seen += 1
    assert seen


def _has_first_batch(log: LoadedLog, entry: EpochEntry) -> bool:
    inside = [run for run in log.runs if run.last_offset >= log.log_start_offset]
    return any(run.leader_epoch == entry.epoch and run.first_offset <= entry.start_offset for run in inside)
