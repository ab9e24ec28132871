"""A power cut while an audit writes: every reader refuses what lacks rows in one line, or answers as the run before."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.errors import UsageError
from replica_audit.notebook.warehouse import open_warehouse
from tests.faults.power_cuts import DAMAGES, Answers, cuts, written
from tests.support.warehouse import STARTED, forget_rows_of_tables, write_warehouse

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
TABLES = ("audit_runs", "findings", "truncation_points")
READERS = {
    "report": ["report", "--format", "json"],
    "plan": ["plan", "--output", "plan"],
    "explain": ["explain", "--partition", "orders-0"],
    "salvage": ["salvage", "--local", "--output", "saved"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A warehouse before its second run, and after it."""
    folder = tmp_path_factory.mktemp("power-cuts")
    before = write_warehouse(folder / "before", SAMPLE / "committed-loss", run_id="first")
    shutil.copytree(before, folder / "after")
    after = write_warehouse(folder / "after", SAMPLE / "multi-round", run_id="second", started_at=STARTED + timedelta(days=1))
    return before, after


@pytest.fixture(scope="module")
def answers(made: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return Answers(*made, tmp_path_factory.mktemp("struck"))


@pytest.fixture
def warehouse(made: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made[1], tmp_path / "warehouse")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "warehouse"


def newest(warehouse: Path, table: str, pattern: str) -> Path:
    return max((warehouse / table).glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "maintain --warehouse warehouse --restore" in captured.err
    return captured.err


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_each_file_of_a_run_as_the_one_that_was_lost(made: tuple[Path, Path], answers: Answers, table: str, damage: str) -> None:
    files = written(*made)
    struck = [cut for cut in cuts(files, [damage]) if cut.file.startswith(f"{table}/")]
    assert len(struck) == 4, "a file of rows and one of the log, each as the last and as the only one"
    assert [wrong for cut in struck if (wrong := answers.wrong(cut))] == []


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("table", ["findings", "replica_verdicts"])
def test_every_reader_refuses_a_run_that_lacks_rows(warehouse: Path, capsys: pytest.CaptureFixture[str], reader: str, table: str) -> None:
    newest(warehouse, table, "_delta_log/*.json").write_bytes(b"")
    assert f"table {table}: " in (said := refused(READERS[reader], capsys))
    assert "_delta_log/00000000000000000001.json is empty, as a power cut leaves it" in said
    assert sorted(path.name for path in Path().iterdir()) == ["warehouse"]


def test_a_notebook_refuses_it_too(warehouse: Path) -> None:
    newest(warehouse, "replica_roles", "*.parquet").unlink()
    with pytest.raises(UsageError, match=r"table replica_roles cannot be read: .*parquet is missing"):
        open_warehouse(str(warehouse)).latest()
    assert open_warehouse(str(warehouse)).run("first").run_id == "first", "which has all its rows"


def test_the_table_and_what_it_lacks_are_named(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(warehouse / "replica_logs")
    assert "table replica_logs is missing, run second wrote 9 rows. " in refused(READERS["report"], capsys)


def test_rows_that_were_deleted_are_missed(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest(warehouse, "leader_epochs", "_delta_log/*.json").unlink()
    assert "table leader_epochs has 0 rows of run second, which wrote " in refused(READERS["report"], capsys)


def test_of_a_run_of_an_older_version_what_it_counted_is_compared(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forget_rows_of_tables(warehouse)
    newest(warehouse, "replica_verdicts", "_delta_log/*.json").unlink()
    assert "table replica_verdicts has 0 rows of run second, which wrote " in refused(READERS["report"], capsys)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("what", ["*.parquet", "_delta_log/*1.json", "_delta_log/_last_checkpoint"])
def test_a_pipe_is_not_waited_for(warehouse: Path, capsys: pytest.CaptureFixture[str], reader: str, what: str) -> None:
    """Nor what a link leads to."""
    path = warehouse / "replica_verdicts" / what if what.endswith("checkpoint") else newest(warehouse, "replica_verdicts", what)
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")
    assert f"table replica_verdicts: {path.relative_to(warehouse.parent)} is a link, not a file. " in refused(READERS[reader], capsys)
    path.unlink()
    os.mkfifo(path)
    assert f"table replica_verdicts: {path.relative_to(warehouse.parent)} is a pipe, not a file. " in refused(READERS[reader], capsys)
    assert cli.main(["maintain", "--warehouse", "warehouse", "--restore", "--dry-run"]) == 0
    assert f"{path.relative_to(warehouse.parent)} is a pipe, not a file" in capsys.readouterr().out
