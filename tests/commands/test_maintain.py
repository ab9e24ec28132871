"""The command maintain as far as it needs no Spark: what it refuses, for how long files stay, what it prints."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.errors import OutputError
from replica_audit.maintain.run import hours_to_keep, refuse_unwritable
from replica_audit.report import upkeep_report
from replica_audit.report.upkeep_report import FailedStep, RunFate, Upkeep, UpkeptTable
from replica_audit.retention.choice import Reason
from replica_audit.storage.warehouse import upkeep as tables_upkeep
from replica_audit.storage.warehouse.rewrites import CommitConflictError
from tests.formats.rights import as_nobody, open_to_all
from tests.support.before_spark import STARTED, before_spark

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
GOING = RunFate(run_id="first", cluster_ids=("c",), run_date=date(2024, 1, 2), goes=True, reason=Reason.OLD)
NEWEST = RunFate(run_id="last", cluster_ids=("c",), run_date=date(2026, 5, 31), goes=False, reason=Reason.NEWEST, kept_for=("c",))
TABLES = (
    UpkeptTable(table="audit_runs", rows=1, merged_files=9, made_files=1),
    UpkeptTable(table="findings", rows=3, removed_files=2, freed_bytes=2_500_000),
    UpkeptTable(table="input_errors"),
)


def upkeep(*, is_dry: bool = False, removed: tuple[str, ...] = ("first",), failures: tuple[FailedStep, ...] = ()) -> Upkeep:
    return Upkeep(
        warehouse="w",
        is_dry=is_dry,
        vacuum_hours=168,
        runs=(GOING, NEWEST),
        removed_runs=removed,
        tables=TABLES,
        failures=failures,
    )


@pytest.mark.parametrize("check", [before_spark, cli.main], ids=["before Spark", "the command"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "not a warehouse: it has no table audit_runs; give the directory that an audit wrote its tables to"),
        (["--warehouse", "nowhere"], "--warehouse nowhere: no such directory; give the directory that an audit wrote"),
        (["--keep-days", "-1"], "--keep-days -1: give 0 or more"),
        (["--keep-runs", "0"], "--keep-runs 0: give 1 or more"),
        (["--vacuum-hours", "167"], "--vacuum-hours 167: give 168 or more; readers and audits may still use newer files"),
        (["--warehouse", "catalog.audits"], "--warehouse catalog.audits: only Spark finds the tables of a catalog; add --spark"),
        (["--warehouse", "abfss://a@b/c"], "--warehouse abfss://a@b/c: without Spark only S3 is written; add --spark"),
        (["--json", "nowhere/x.json"], "--json nowhere/x.json: not a file in an existing directory"),
    ],
)
def test_what_is_of_no_use_is_refused_before_spark_starts(
    check: object, options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "warehouse").mkdir()
    monkeypatch.chdir(tmp_path)
    assert callable(check)
    assert check(["maintain", *options]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.rglob("*")) == [tmp_path / "warehouse"]


def test_spark_starts_if_it_is_asked_for() -> None:
    assert before_spark(["maintain", "--spark", "--warehouse", "catalog.audits"]) == STARTED


def test_files_stay_for_a_week_and_since_before_the_oldest_running_audit_began() -> None:
    assert hours_to_keep(168, None, NOW) == 168
    assert hours_to_keep(1, None, NOW) == 168
    assert hours_to_keep(500, NOW - timedelta(hours=2), NOW) == 500
    assert hours_to_keep(168, NOW - timedelta(hours=167), NOW) == 168
    assert hours_to_keep(168, NOW - timedelta(hours=300, seconds=1), NOW) == 302


def test_a_warehouse_that_cannot_be_written_is_refused_before_a_run_is_taken() -> None:
    with open_to_all() as warehouse:
        warehouse.chmod(0o555)
        with pytest.raises(OutputError, match=f"^warehouse {warehouse}: Permission denied; make it writable, then start maintain again"):
            as_nobody(partial(refuse_unwritable, str(warehouse)))
        warehouse.chmod(0o777)
        as_nobody(partial(refuse_unwritable, str(warehouse)))
        assert not list(warehouse.iterdir())


def test_what_was_done_is_said_by_table() -> None:
    assert upkeep_report.summary(upkeep()).splitlines() == [
        "Of 2 runs in w, 1 removed:",
        "  first of 2024-01-02: older than --keep-days",
        "  1 stays: the newest complete run of its cluster",
        "",
        "  audit_runs: 1 row deleted, 9 files merged into 1",
        "  findings: 3 rows deleted, 2 unused files removed, 2.5 MB",
        "1 run and 4 rows deleted, 2 files removed, 2.5 MB freed.",
        "Files that are no longer used from now on are removed by a later start, once they have not been used for 168 hours.",
    ]


def test_a_dry_run_says_that_nothing_was_changed() -> None:
    lines = upkeep_report.summary(upkeep(is_dry=True)).splitlines()
    assert lines[0] == "Of 2 runs in w, 1 would be removed:"
    assert "1 run and 4 rows would be deleted, 2 files would be removed, 2.5 MB would be freed." in lines
    assert lines[-1] == "Nothing was changed: this was a dry run."


def test_a_failure_names_the_table_and_what_to_do_and_makes_the_exit_code_3() -> None:
    failed = FailedStep(table="findings", what="delete the rows of runs", reason="Permission denied", remedy="fix that")
    partly = upkeep(removed=(), failures=(failed,))
    assert (upkeep().exit_code, partly.exit_code) == (0, 3)
    lines = upkeep_report.summary(partly).splitlines()
    assert lines[0] == "Of 2 runs in w, 0 removed, 1 more to be removed, which counts for no reader any more:"
    assert lines[-1] == "  findings: delete the rows of runs: Permission denied; fix that"
    written = json.loads(upkeep_report.as_json(partly))
    assert (written["exit_code"], written["failures"][0]["table"], written["runs"][0]["reason"]) == (3, "findings", "old")
    assert written["tables"][1] | {"rows": 0} == {
        "table": "findings",
        "rows": 0,
        "merged_files": 0,
        "made_files": 0,
        "removed_files": 2,
        "freed_bytes": 2_500_000,
    }


def test_a_commit_that_another_came_before_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    left = [CommitConflictError("first"), CommitConflictError("second")]

    def commit() -> str:
        if left:
            raise left.pop()
        return "done"

    assert tables_upkeep.again(commit) == "done"

    def always() -> str:
        raise CommitConflictError("always")

    with pytest.raises(CommitConflictError):
        tables_upkeep.again(always)
    with pytest.raises(ZeroDivisionError):
        tables_upkeep.again(lambda: 1 // 0)
