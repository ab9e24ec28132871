"""A server.log from which it follows that a truncation has already happened: only if it came after what it would have removed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from tests.support import in_process

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?=,\d{3})")
Row = dict[str, Any]
Edit = Callable[[str], str]


def _moved(**by: int) -> Edit:
    """The log with all its times moved."""
    step = timedelta(**by)
    return lambda text: TIME.sub(lambda time: f"{datetime.fromisoformat(time[0]) + step:%Y-%m-%d %H:%M:%S}", text)


def _without_start(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if "startTimeMs" not in line)


def _in_zone(hours: int) -> Edit:
    """As a broker in another zone writes it: its clock is moved, the moment of its start is not."""
    return _moved(hours=hours)


def _audited(root: Path, scenario: str, edit: Edit, name: str = "server.log") -> list[Row]:
    shutil.copytree(SAMPLE / scenario, root)
    for log in sorted(root.glob("broker-*/server.log")):
        text = edit(log.read_text(encoding="utf-8"))
        log.unlink()
        log.with_name(name).write_text(text, encoding="utf-8")
    rows = in_process.audit(root, settings=Settings(what_if_leaders=True))["replica_verdicts"]
    return [row for row in rows if row["truncation_offset"] is not None]


SCENARIOS = ["committed-loss", "elr-election", "multi-round", "three-way", "kafka-1.1.1-kip279-scenario-1-all"]


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(str, id="as it is"),
        pytest.param(_without_start, id="its zone not told, and UTC"),
        pytest.param(lambda text: "".join(line for line in text.splitlines(keepends=True) if "runcat" in line), id="only these lines"),
        pytest.param(lambda text: "\n".join(reversed(text.splitlines())), id="newest first"),
        pytest.param(lambda text: "".join(f"kafka-x | {line}\n" for line in text.splitlines()), id="with something before each line"),
    ],
)
def test_a_line_that_is_newer_than_the_records(tmp_path: Path, scenario: str, edit: Edit) -> None:
    rows = _audited(tmp_path / "cluster", scenario, edit)
    assert rows
    assert {row["already_truncated"] for row in rows} == {True}


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("start", [str, _without_start], ids=["with its start", "without"])
@pytest.mark.parametrize("by", [{"days": -365}, {"days": -11}, {"days": -1}, {"days": 3000}])
def test_a_line_that_is_older_or_of_the_future(tmp_path: Path, scenario: str, start: Edit, by: dict[str, int]) -> None:
    rows = _audited(tmp_path / "cluster", scenario, lambda text: start(_moved(**by)(text)), "export.txt")
    assert rows
    assert {row["already_truncated"] for row in rows} == {False}
    assert None not in {row["observed_truncation_offset"] for row in rows}


@pytest.mark.parametrize("by", [{"hours": -1}, {"minutes": -5}, {"hours": -5}])
def test_a_little_older_is_older(tmp_path: Path, by: dict[str, int]) -> None:
    rows = _audited(tmp_path / "cluster", "committed-loss", lambda text: _without_start(_moved(**by)(text)))
    assert {row["already_truncated"] for row in rows} == {False}


@pytest.mark.parametrize("hours", [-8, 2, 9])
def test_where_the_log_tells_its_zone_that_counts(tmp_path: Path, hours: int) -> None:
    rows = _audited(tmp_path / "zone", "committed-loss", _in_zone(hours))
    assert {row["already_truncated"] for row in rows} == {True}


def test_a_line_without_a_date_tells_nothing(tmp_path: Path) -> None:
    rows = _audited(tmp_path / "cluster", "committed-loss", lambda text: re.sub(r"\[\d{4}-\d\d-\d\d ", "[", text))
    assert {row["already_truncated"] for row in rows} == {False}
    assert {row["observed_truncation_offset"] for row in rows} == {10}


def test_what_is_not_truncated_yet_counts_as_held(tmp_path: Path) -> None:
    """The what-if and the advice follow: its copy is no record of the past, and the broker is not to be started before it is saved."""
    shutil.copytree(SAMPLE / "committed-loss", tmp_path / "cluster")
    log = tmp_path / "cluster" / "broker-1" / "server.log"
    log.write_text(_moved(days=-11)(log.read_text(encoding="utf-8")), encoding="utf-8")
    tables = in_process.audit(tmp_path / "cluster", settings=Settings(what_if_leaders=True))
    assert {row["already_lost_offsets"] for row in tables["what_if_leaders"]} <= {0, None}


def test_an_older_cut_elsewhere_is_none_of_this_log(tmp_path: Path) -> None:
    rows = _audited(tmp_path / "cluster", "leader-trimmed", _moved(days=-11))
    tables = in_process.audit(tmp_path / "cluster", settings=Settings(what_if_leaders=True), anew=True)
    assert not any(row["already_truncated"] for row in rows)
    assert {row["already_lost_offsets"] for row in tables["what_if_leaders"]} <= {0, None}
