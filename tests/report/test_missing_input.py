"""What a run lacks that an earlier run of the same inputs had: decided from `audit_runs` alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pytest

from replica_audit.past.earlier_runs import MissingInput, PresentCluster, missing_input, without_acknowledged
from replica_audit.protocol.verdict.acknowledgement import Acknowledgement, Acknowledgements
from replica_audit.rows.runs import AuditRun
from tests.support.rows import sparse

NIGHT = datetime(2026, 1, 1, 3, tzinfo=UTC)


def row(
    cluster: str,
    night: int = 1,
    *,
    inputs: Sequence[str] = ("/backup",),
    path: str | None = None,
    brokers: tuple[int, ...] | None = (1, 2),
    missing: tuple[int, ...] | None = None,
    exit_code: int = 0,
    seen: str | None = None,
) -> AuditRun:
    at = NIGHT + timedelta(days=night)
    return sparse(
        AuditRun,
        run_id=f"night-{night}",
        cluster_id=cluster,
        status="complete",
        started_at=at,
        run_date=at.date(),
        exit_code=exit_code,
        inputs=tuple(inputs),
        path=path or f"/backup/{cluster}",
        broker_ids=brokers,
        missing_broker_ids=missing,
        last_seen_run_id=seen,
    )


def here(cluster: str, *brokers: int, path: str | None = None, named: Sequence[int] = ()) -> PresentCluster:
    return PresentCluster(cluster_id=cluster, path=path or f"/backup/{cluster}", broker_ids=brokers or (1, 2), named_broker_ids=named)


def lacking(
    rows: Sequence[AuditRun], *present: PresentCluster, inputs: Sequence[str] = ("/backup",)
) -> list[tuple[str, tuple[int, ...] | None, str]]:
    found = missing_input(rows, "tonight", present, inputs, inputs)
    return [(one.cluster_id, one.broker_ids, one.last.last_seen_run_id or one.last.run_id) for one in found]


def test_a_cluster_that_was_there_is_missing() -> None:
    assert lacking([row("a"), row("b")], here("a")) == [("b", None, "night-1")]
    assert lacking([row("a"), row("b")], here("a"), here("b")) == []


def test_it_stays_missing_night_after_night() -> None:
    rows = [row("a"), row("b"), row("a", 2), row("b", 2, seen="night-1", brokers=(1, 2))]
    assert lacking(rows, here("a")) == [("b", None, "night-1")]


def test_one_that_an_earlier_run_lacked_without_a_word_was_dropped_then() -> None:
    assert lacking([row("a"), row("b"), row("a", 2)], here("a")) == []


def test_a_run_that_read_nothing_drops_nothing() -> None:
    assert lacking([row("a"), row("b"), row("a", 2, exit_code=2)], here("a")) == [("b", None, "night-1")]


@pytest.mark.parametrize(
    ("inputs", "tonight"),
    [
        (("/backup/a",), ("/backup/b",)),  # two jobs, one warehouse
        (("/backup/cluster-1",), ("/backup/cluster-2",)),
        (("/other",), ("/backup",)),
        ((".",), (".",)),  # `.` says nothing of where that was
    ],
)
def test_runs_of_other_inputs_miss_nothing(inputs: Sequence[str], tonight: Sequence[str]) -> None:
    assert lacking([row("a", inputs=inputs, path=inputs[0] + "/a")], here("b"), inputs=tonight) == []


def test_an_audit_of_one_folder_in_between_does_not_drop_the_others() -> None:
    rows = [row("a"), row("b"), row("a", 2, inputs=["/backup/a"])]
    assert lacking(rows, here("a"), inputs=["/backup/a"]) == []
    assert lacking(rows, here("a")) == [("b", None, "night-1")]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("/backup/2026-01-01", "/backup/2026-01-02"),
        ("/backup/20260101", "/backup/20260102"),
        ("/backup/2026-01-01T03-00", "/backup/2026-01-02T03-00"),
        ("file:/backup/2026_01_01", "file:/backup/2026_01_02"),
    ],
)
def test_folders_of_a_date_are_the_same_inputs(before: str, now: str) -> None:
    rows = [row(name, inputs=[before], path=f"{before.removeprefix('file:')}/{name}") for name in "ab"]
    assert lacking(rows, here("a", path=f"{now}/a"), inputs=[now]) == [("b", None, "night-1")]


def test_a_broker_that_was_there_is_missing() -> None:
    assert lacking([row("a", brokers=(1, 2, 3))], here("a", 1, 2)) == [("a", (3,), "night-1")]
    assert lacking([row("a", brokers=(1, 2), missing=(3,))], here("a", 1, 2)) == [("a", (3,), "night-1")]
    assert lacking([row("a", brokers=(1, 2), missing=(3,))], here("a", 1, 2, 3)) == []
    assert lacking([row("a", brokers=None)], here("a", 1)) == [], "an older version did not say"


def test_a_broker_that_the_metadata_no_longer_names_was_removed_from_the_cluster() -> None:
    rows = [row("a", brokers=(1, 2, 3))]
    assert lacking(rows, here("a", 1, 2, named=(1, 2))) == []
    assert lacking(rows, here("a", 1, 2, named=(1, 2, 3))) == [("a", (3,), "night-1")]


def test_a_copy_of_the_cluster_elsewhere_need_not_have_every_broker() -> None:
    assert lacking([row("a", brokers=(1, 2, 3))], here("a", 1, 2, path="/elsewhere/a"), inputs=["/elsewhere/a"]) == []


def entry(verdict: str | None, **about: object) -> Acknowledgement:
    return Acknowledgement(line=1, reason="scrapped", who="ana", until=date(2026, 12, 1), verdict=verdict, **about)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "left"),
    [
        (entry("cluster_missing"), [("b", (3, 4))]),
        (entry("cluster_missing", cluster="b"), [("a", None), ("b", (3, 4))]),
        (entry("broker_missing", cluster="b", replicas=[3]), [("a", None), ("b", (4,))]),
        (entry("broker_missing", replicas=[3, 4]), [("a", None)]),
        (entry(None, cluster="a"), [("a", None), ("b", (3, 4))]),  # its findings are known, not that it is gone
    ],
)
def test_what_is_acknowledged_to_be_gone(known: Acknowledgement, left: list[tuple[str, tuple[int, ...] | None]]) -> None:
    missing = [MissingInput(last=row("a")), MissingInput(last=row("b"), broker_ids=(3, 4))]
    found = without_acknowledged(missing, Acknowledgements(entries=(known,), on=date(2026, 11, 30)))
    assert [(one.cluster_id, one.broker_ids) for one in found] == left


def test_an_acknowledgement_expires() -> None:
    missing = [MissingInput(last=row("a"))]
    assert list(without_acknowledged(missing, Acknowledgements(entries=(entry("cluster_missing"),), on=date(2026, 12, 2)))) == missing
