"""The logs of real brokers, merged as people export them: an audit says of one file what it says of the brokers' own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import in_process

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
SCENARIOS = ["committed-loss", "kafka-1.1.1-kip279-scenario-1-all", "leader-trimmed", "multi-round", "three-way"]
Line = tuple[str, str]  # the broker, and what it wrote
VERDICT = ("topic", "partition", "follower_id", "verdict", "severity", "already_truncated", "observed_truncation_offset")
INCIDENT = ("topic", "partition", "broker_id", "kind", "truncation_offset", "end_offset", "logged_at", "severity")


def _by_time(root: Path) -> list[Line]:
    """All lines of all brokers in the order of their times; one without follows the line before it."""
    told = []
    for log in sorted(root.glob("broker-*/server.log")):
        time = ""
        for number, line in enumerate(log.read_text(encoding="utf-8").splitlines()):
            time = line[1:24] if line.startswith("[2") else time
            told.append((time, log.parent.name, number, line))
        log.unlink()
    return [(folder.split("-")[1], line) for _, folder, _, line in sorted(told)]


def _elastic(lines: list[Line]) -> str:
    hits = [{"_source": {"message": line, "kubernetes": {"pod": {"name": f"kafka-{broker}"}}}} for broker, line in lines]
    return json.dumps({"hits": {"hits": hits}})


FORMS: dict[str, tuple[str, Callable[[list[Line]], str]]] = {
    "compose": ("all.log", lambda lines: "".join(f"kafka-{broker}  | {line}\n" for broker, line in lines)),
    "newest first": ("all.txt", lambda lines: "".join(f"[pod/kafka-{broker}/kafka] {line}\n" for broker, line in reversed(lines))),
    "one after the other": (
        "all.log",
        lambda lines: "".join(f"kafka{broker}: {line}\n" for broker, line in sorted(lines, key=lambda o: o[0])),
    ),
    "JSON": ("all.json", _elastic),
    "JSON, newest first": ("all.json", lambda lines: _elastic(lines[::-1])),
}


def _said(tables: dict[str, list[dict[str, Any]]]) -> tuple[Any, ...]:
    rows = [[tuple(row[name] for name in names) for row in tables[table]] for table, names in TABLES.items()]
    return *rows, tables["problems"]


TABLES = {"replica_verdicts": VERDICT, "logged_incidents": INCIDENT}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_one_file_says_what_the_brokers_own_do(tmp_path: Path, scenario: str, form: str) -> None:
    root = tmp_path / scenario
    shutil.copytree(SAMPLE / scenario, root)
    name, laid_out = FORMS[form]
    (root / name).write_text(laid_out(_by_time(root)), encoding="utf-8")
    assert _said(in_process.audit(root)) == _said(in_process.audit(SAMPLE / scenario))
