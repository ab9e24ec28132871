"""Which run rows are taken over from: the latest complete one, made by the same rules, not longer ago than every file was to be read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from replica_audit import program
from replica_audit.config import Settings
from replica_audit.past import base_run
from replica_audit.past.base_run import LookedRun, WhyAll, base_of, basis_of, is_still_there, latest_runs
from replica_audit.storage.warehouse.reader import WarehouseTables
from tests.support.warehouse import STARTED, write_rows

SETTINGS = Settings()
TODAY = date(2026, 11, 25)
RUN = LookedRun(
    run_id="before",
    cluster_id="A",
    status="complete",
    started_at=datetime(2026, 11, 24, tzinfo=UTC),
    run_date=date(2026, 11, 24),
    exit_code=0,
    basis=basis_of(SETTINGS),
    full_run_id="full",
    full_run_date=date(2026, 11, 20),
)


def chosen(run: LookedRun = RUN, settings: Settings = SETTINGS, on: date = TODAY) -> bool:
    return base_of({"A": run}, ["A"], settings, on) == {"A": run}


def test_the_run_before_is_the_base() -> None:
    assert chosen()


@pytest.mark.parametrize(("days", "is_base"), [(0, True), (1, True), (6, True), (7, False), (8, False), (-1, False)])
def test_every_file_is_read_after_so_many_days(days: int, is_base: bool) -> None:
    assert chosen(replace(RUN, full_run_date=TODAY - timedelta(days=days))) is is_base


def test_settings_say_how_many_days() -> None:
    assert not chosen(settings=Settings(full_every_days=5))
    assert not chosen(replace(RUN, full_run_date=TODAY), settings=Settings(full_every_days=0))
    assert chosen(replace(RUN, full_run_date=TODAY), settings=Settings(full_every_days=1))


@pytest.mark.parametrize("name", sorted(Settings.model_fields.keys() - base_run._NOT_IN_ROWS))
def test_other_settings_make_other_rows(name: str) -> None:
    values = {"protocol": "kip-101", "compare": "epochs"}
    changed = Settings.model_validate({name: values.get(name, not getattr(SETTINGS, name))})
    assert not chosen(settings=changed), "a run with other settings wrote the rows"


@pytest.mark.parametrize("setting", [{"topics": "orders"}, {"worst": 3}, {"fail_on": "critical"}, {"parallelism": 2}])
def test_settings_that_no_row_depends_on_do_not_count(setting: dict[str, object]) -> None:
    assert chosen(settings=Settings.model_validate(setting))


def test_records_are_compared_anew() -> None:
    settings = Settings(compare="records")
    assert not chosen(replace(RUN, basis=basis_of(settings)), settings)


def test_other_code_makes_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_run, "digest_of_code", lambda: "other")
    assert not chosen()


def test_another_version_makes_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_run, "VERSION", f"{program.VERSION}.1")
    assert not chosen()


def test_a_run_of_an_older_version_is_no_base() -> None:
    assert not chosen(replace(RUN, basis=None, full_run_id=None, full_run_date=None))


def test_every_cluster_needs_a_base() -> None:
    other = replace(RUN, cluster_id="B", run_id="other")
    assert base_of({"A": RUN}, ["A", "B"], SETTINGS, TODAY) is WhyAll.FIRST
    assert base_of({"A": RUN, "B": other}, ["A", "B"], SETTINGS, TODAY) == {"A": RUN, "B": other}
    assert base_of({}, [], SETTINGS, TODAY) is WhyAll.FIRST


def _row(run_id: str, hours: int, **values: object) -> dict[str, object]:
    started = STARTED + timedelta(hours=hours)
    row = {"run_id": run_id, "cluster_id": "A", "started_at": started, "run_date": started.date(), "status": "complete", "exit_code": 0}
    return row | values


def test_only_complete_runs_that_read_something_count(tmp_path: Path) -> None:
    rows = [
        _row("first", 1),
        _row("latest", 2, exit_code=1),
        _row("killed", 3, status="running", exit_code=None),
        _row("nothing-read", 4, exit_code=2),
        _row("own", 5),
        _row("of-another", 6, cluster_id="B"),
    ]
    write_rows(tmp_path, {"audit_runs": rows})
    tables = WarehouseTables(str(tmp_path))
    found = latest_runs(tables, "own")
    assert {cluster: run.run_id for cluster, run in found.items()} == {"A": "latest", "B": "of-another"}
    assert is_still_there(tables, found)
    assert not is_still_there(tables, {"A": replace(found["A"], run_id="killed")}), "a run that is being removed is not complete"


@pytest.mark.parametrize(
    ("run", "settings", "why"),
    [
        (RUN, Settings(compare="records"), WhyAll.RECORDS),
        (RUN, Settings(protocol="kip-101"), WhyAll.OTHER_RULES),
        (replace(RUN, full_run_date=None), SETTINGS, WhyAll.OTHER_RULES),
        (replace(RUN, full_run_date=TODAY - timedelta(days=7)), SETTINGS, WhyAll.DUE),
        (replace(RUN, full_run_date=TODAY + timedelta(days=1)), SETTINGS, WhyAll.DUE),
    ],
)
def test_it_is_said_why_everything_is_read(run: LookedRun, settings: Settings, why: WhyAll) -> None:
    assert base_of({"A": run}, ["A"], settings, TODAY) is why
