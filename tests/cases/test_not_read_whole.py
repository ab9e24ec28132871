"""What the audit would have used and could not read, or knows by a guess only, is never an all-clear."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.ran import ran
from tests.formats import kafka_files
from tests.partition.test_what_if import COMMON, _metadata, _write

AHEAD = [*COMMON, (0, 10, 14)]


def _cluster(root: Path) -> Path:
    """Broker 1 leads, and broker 2 is equal to it."""
    return _metadata(_write(root, {1: COMMON, 2: COMMON}), 1, epoch=0, brokers=[1, 2], isr=[1, 2], state="up")


def _garbled(root: Path) -> None:
    (root / "broker-2" / "data-0" / "log-start-offset-checkpoint").write_text("0\nseven\n", encoding="utf-8")


def _description(root: Path) -> None:
    (root / "cluster-metadata.json").write_text("Topic: t\tPartitionCount: 1\n", encoding="utf-8")


def _other_cluster(root: Path) -> None:
    kafka_files.log_dir(root / "broker-3", "t-0", broker_id=3, cluster_id="AAAAAAAAQF-e2A5xW3-mBQ")


def _nobodys(root: Path) -> None:
    kafka_files.log_dir(root / "disk", "t-0", broker_id=None)


def _loose(root: Path) -> None:
    kafka_files.segment(root / "broker-2" / "data-0" / "loose", 0, kafka_files.batch(0, 0))


def _unusable_text(root: Path) -> None:
    text = "> Dumping /d/t-0/00000000000000000000.log\n> Starting offset: 0\n"
    (root / "broker-2" / "data-0" / "dump.txt").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("spoil", [_garbled, _description, _other_cluster, _nobodys, _loose, _unusable_text])
def test_what_was_not_read_is_in_the_exit_code_and_in_the_last_line(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    root = _cluster(tmp_path)
    assert ran(root).exit_code == 0
    spoil(root)
    found = ran(root)
    assert found.exit_code == 3, found.problem_codes
    assert found.report.doubts.unread
    assert found.report.doubts.first_unread in found.last_line


def _hidden(root: Path) -> None:
    (root / "broker-2" / "data-0" / ".snapshot").mkdir()


def _archive(root: Path) -> None:
    (root / "notes.tar.gz").write_bytes(b"\x1f\x8b")


@pytest.mark.parametrize("add", [_hidden, _archive])
def test_a_note_about_something_else_changes_nothing(tmp_path: Path, add: Callable[[Path], None]) -> None:
    root = _cluster(tmp_path)
    add(root)
    found = ran(root)
    assert found.problem_codes
    assert found.exit_code == 0


@pytest.mark.parametrize("second", [COMMON, AHEAD])
def test_a_clean_verdict_on_a_leader_that_is_inferred_is_no_all_clear(tmp_path: Path, second: list[tuple[int, int, int]]) -> None:
    found = ran(_write(tmp_path, {1: COMMON, 2: second}))
    assert set(found.verdicts.values()) <= {"identical", "lagging"}
    assert (found.exit_code, found.report.doubts.guessed_leaders) == (3, 1)
    assert "1 clean verdict rests on a leader known by inference only" in found.last_line


def test_a_leader_that_the_metadata_names_is_none(tmp_path: Path) -> None:
    root = _metadata(_write(tmp_path, {1: AHEAD, 2: COMMON}), 1, epoch=0, brokers=[1, 2], isr=[1], state="up")
    found = ran(root)
    assert (list(found.verdicts.values()), found.exit_code) == (["lagging"], 0)
