"""Which runs a run goes on from: of every topic the latest one that looked at it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from replica_audit.past.earlier_runs import EarlierRun, earlier_runs
from replica_audit.rows.runs import AuditRun
from tests.support.rows import sparse

BEGAN = datetime(2026, 1, 2, tzinfo=UTC)


def row(number: int, topics: str | None = "", cluster: str = "c", **known: Any) -> AuditRun:
    at = BEGAN + timedelta(days=number)
    values = {"status": "complete", "config": None if topics is None else json.dumps({"topics": topics})} | known
    return sparse(AuditRun, run_id=f"run-{number}", cluster_id=cluster, started_at=at, run_date=at.date(), **values)


def earlier(number: int, *later_topics: str, cluster: str = "c") -> EarlierRun:
    return EarlierRun(cluster_id=cluster, run_id=f"run-{number}", later_topics=later_topics)


def test_the_latest_of_each_cluster() -> None:
    rows = [row(1), row(3), row(2), row(2, cluster="d")]
    assert set(earlier_runs(rows, "now")) == {earlier(3), earlier(2, cluster="d")}


def test_runs_that_do_not_count() -> None:
    rows = [row(1), row(2, status="running"), row(3, exit_code=2), row(4)]
    assert earlier_runs(rows, "run-4") == (earlier(1),), "a run is not its own predecessor"
    assert earlier_runs(rows[1:3], "now") == ()


def test_a_run_of_some_topics_leaves_the_others_to_the_one_before() -> None:
    rows = [row(1), row(2), row(3, "orders"), row(4, "pay.*"), row(5, "orders")]
    assert earlier_runs(rows, "now") == (earlier(5), earlier(4, "orders"), earlier(2, "orders", "pay.*"))


def test_rows_of_an_older_version_say_nothing_of_topics() -> None:
    assert earlier_runs([row(1, "orders"), row(2, None), row(3, config="not json")], "now") == (earlier(3),)
