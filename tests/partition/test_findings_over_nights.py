"""Random histories of one finding over nights: it never vanishes unseen, and an acknowledgement hides only what it covers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from replica_audit.partition.findings.acknowledging import acknowledging, history_row
from replica_audit.protocol.verdict.acknowledgement import Acknowledgement, Acknowledgements
from replica_audit.rows.codes import Severity
from replica_audit.rows.findings import CheckedPartition, FoundFinding, RunFinding

FIRST = date(2026, 11, 1)
FOUND = FoundFinding(
    finding_key="stale_tail:orders-0:2",
    code="stale_tail",
    severity="error",
    topic="orders",
    partition=0,
    broker_id=2,
    summary="stale",
    about="follower",
    leader_id=1,
    leader_source="cluster-metadata",
    removed_records=10,
)
CHECKED = CheckedPartition(
    topic="orders",
    partition=0,
    leader_id=1,
    leader_source="cluster-metadata",
    leader_has_epoch=True,
    has_no_hanging_transaction=True,
    isr=(1, 2),
    clean=(1, 2),
    same_batches=(2,),
    same_records=(),
)
# what a run that does not find it looked at
UNSEEN = {
    "partition not in the input": None,
    "the broker's folder is missing": replace(CHECKED, clean=(1,), isr=(1,)),
    "the leader is unreadable": replace(CHECKED, clean=()),
    "nobody says who leads": replace(CHECKED, leader_source="inferred"),
}


@dataclass(frozen=True)
class Night:
    found: FoundFinding | None
    check: CheckedPartition | None
    clean: bool


def _found(severity: str, records: int) -> Night:
    return Night(replace(FOUND, severity=severity, removed_records=records), replace(CHECKED, clean=(1,)), False)


nights = st.lists(
    st.one_of(
        st.builds(_found, st.sampled_from(["critical", "error", "warning"]), st.integers(0, 30)),
        st.sampled_from(list(UNSEEN.values())).map(lambda check: Night(None, check, False)),
        st.just(Night(None, CHECKED, True)),
    ),
    min_size=1,
    max_size=30,
)
entries = st.lists(
    st.builds(
        Acknowledgement,
        line=st.integers(1, 99),
        reason=st.just("known"),
        who=st.just("ana"),
        until=st.integers(-1, 30).map(lambda days: FIRST + timedelta(days=days)),
        topic=st.sampled_from(["orders", "ord.*", "payments", None]),
        replicas=st.sampled_from([None, (2,), (3,)]),
        severity=st.sampled_from([Severity.CRITICAL, Severity.ERROR, Severity.WARNING]),
        at_most_records=st.integers(0, 30),
    ),
    max_size=3,
)


def _covers(entry: Acknowledgement, on: date, row: RunFinding) -> bool:
    """The same rule again, from the words of the documentation."""
    order = ["critical", "error", "warning"]
    about = entry.topic in ("orders", "ord.*", None) and entry.replicas in (None, (2,))
    enough = order.index(str(entry.severity)) <= order.index(row.severity) and (row.removed_records or 0) <= entry.at_most_records
    return about and enough and on <= entry.until


@given(nights, entries)
def test_any_history(history: list[Night], known: list[Acknowledgement]) -> None:
    before: RunFinding | None = None
    for number, night in enumerate(history):
        run, on = f"run-{number}", FIRST + timedelta(days=number)
        acknowledged = Acknowledgements(entries=tuple(known), on=on)
        if night.found is None and before is None:
            continue
        found = None if night.found is None else acknowledging(night.found, acknowledged)
        row = history_row("c", found, before, night.check, run, acknowledged)
        assert row.run_id == run
        assert row.finding_key == FOUND.finding_key
        if night.found is not None:
            assert row.status == ("new" if before is None else "persisting")
            assert row.first_seen_run_id == (run if before is None else before.first_seen_run_id)
            assert row.last_seen_run_id == run
        elif night.clean:
            assert row.status == "resolved"
        else:
            assert before is not None
            assert row.status == "unconfirmed"
            assert (row.first_seen_run_id, row.last_seen_run_id) == (before.first_seen_run_id, before.last_seen_run_id)
            assert (row.severity, row.removed_records) == (before.severity, before.removed_records)
        is_hidden = row.acknowledgement is not None and row.acknowledgement.state == "acknowledged"
        assert is_hidden == (row.status != "resolved" and any(_covers(entry, on, row) for entry in known))
        before = None if row.status == "resolved" else row


@given(entries, st.integers(0, 40))
def test_an_acknowledgement_that_expired_never_hides(known: list[Acknowledgement], day: int) -> None:
    on = FIRST + timedelta(days=day)
    row = acknowledging(FOUND, Acknowledgements(entries=tuple(known), on=on))
    if all(entry.until < on for entry in known):
        assert row.acknowledgement is None or row.acknowledgement.state == "expired"
