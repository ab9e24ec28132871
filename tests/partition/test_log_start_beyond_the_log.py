"""A log start beyond the end of the log: a broker deletes every segment (LogLoader.deleteSegmentsIfLogStartGreaterThanLogEnd)."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.config import Settings
from replica_audit.local_run import triage
from tests.formats import kafka_files as kf
from tests.mutation.generated import healthy

CODE = "log-start-beyond-log-end"


def audited(root: Path) -> tuple[int, list[str]]:
    done = triage([str(root)], Settings(), tell=lambda _event: None)
    runs, errors = (done.tables.dataset(name) for name in ("audit_runs", "input_errors"))
    assert runs is not None
    assert errors is not None
    return int(runs.to_table()["exit_code"][0].as_py()), [str(code) for code in errors.to_table()["code"].to_pylist()]


def with_log_start(root: Path, offset: int, *brokers: int) -> Path:
    for broker in brokers:
        entries = [("trimmed", 0, 40), ("trimmed", 1, 40), ("orders", 0, offset)]
        (root / f"broker-{broker}" / "data-0" / "log-start-offset-checkpoint").write_bytes(kf.checkpoint(entries))
    return root


@pytest.mark.parametrize("state", ["stopped", "killed"])
def test_all_replicas_would_delete_their_logs(tmp_path: Path, state: str):
    assert audited(with_log_start(healthy(tmp_path, state), 5000, 1, 2, 3)) == (3, [CODE] * 3)


def test_one_replica_would(tmp_path: Path):
    exit_code, codes = audited(with_log_start(healthy(tmp_path, "stopped"), 24, 2))
    assert exit_code != 0
    assert CODE in codes


@pytest.mark.parametrize("offset", [0, 8, 23])
def test_a_log_start_within_the_log_or_at_its_end_is_legal(tmp_path: Path, offset: int):
    assert CODE not in audited(with_log_start(healthy(tmp_path, "stopped"), offset, 1, 2, 3))[1]


def test_of_a_broker_that_runs_the_file_may_be_newer_than_the_segments(tmp_path: Path):
    assert CODE not in audited(with_log_start(healthy(tmp_path, "up"), 5000, 2))[1]


@pytest.mark.parametrize("name", ["replication", "recovery-point", "log-start", "cleaner"])
@pytest.mark.parametrize("entries", [[("orders", 0, -1)], [("orders", 0, 0), ("orders", 0, 1)]])
def test_a_checkpoint_that_no_broker_wrote_is_told(tmp_path: Path, name: str, entries: list[tuple[str, int, int]]):
    (healthy(tmp_path, "stopped") / "broker-2" / "data-0" / f"{name}-offset-checkpoint").write_bytes(kf.checkpoint(entries))
    exit_code, codes = audited(tmp_path)
    assert exit_code != 0
    assert "not-as-written" in codes
