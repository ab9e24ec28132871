"""What an acknowledgement covers, and when a finding is back."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from replica_audit.protocol.verdict.acknowledgement import Acknowledgement, Acknowledgements, AckState, AckSubject
from replica_audit.rows.codes import Severity

TODAY = date(2026, 11, 23)
FINDING = AckSubject(code="stale_tail", severity="error", topic="orders", partition=3, broker_id=2, records=10)
KNOWN = Acknowledgement(line=1, reason="rebuilt soon", who="ana", until=TODAY, topic="orders", at_most_records=10)


def state(finding: AckSubject = FINDING, /, on: date = TODAY, **entry: Any) -> AckState | None:
    decided = Acknowledgements(entries=(replace(KNOWN, **entry),), on=on).decide(finding)
    return decided and decided[1]


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"topic": None, "replicas": (2, 5)},
        {"partitions": (1, 3)},
        {"verdict": "stale_tail|unreadable"},
        {"topic": "ord.*"},
        {"severity": Severity.CRITICAL},
    ],
)
def test_it_covers(entry: dict[str, Any]) -> None:
    assert state(**entry) is AckState.ACKNOWLEDGED


@pytest.mark.parametrize("entry", [{"topic": "order"}, {"topic": "rders"}, {"partitions": (2,)}, {"replicas": (3,)}, {"verdict": "stale"}])
def test_it_is_about_something_else(entry: dict[str, Any]) -> None:
    assert state(**entry) is None


def test_the_last_day_counts_and_the_next_does_not() -> None:
    assert state(on=TODAY) is AckState.ACKNOWLEDGED
    assert state(on=TODAY + timedelta(days=1)) is AckState.EXPIRED


def test_back_when_it_gets_worse() -> None:
    assert state(replace(FINDING, records=11)) is AckState.MORE_RECORDS
    assert state(replace(FINDING, severity="critical")) is AckState.MORE_SEVERE
    assert state(replace(FINDING, severity="warning", records=0)) is AckState.ACKNOWLEDGED, "better is covered, too"


def test_of_several_entries_one_that_covers_counts_wherever_it_stands() -> None:
    old = replace(KNOWN, until=TODAY - timedelta(days=1))
    newer = replace(KNOWN, line=7)
    assert Acknowledgements(entries=(old, newer), on=TODAY).decide(FINDING) == (newer, AckState.ACKNOWLEDGED)
    assert Acknowledgements(entries=(old, replace(newer, at_most_records=1)), on=TODAY).decide(FINDING) == (old, AckState.EXPIRED)


def test_of_one_cluster() -> None:
    known = Acknowledgements(entries=(replace(KNOWN, cluster="abc"), replace(KNOWN, line=2)), on=TODAY)
    assert [one.line for one in known.of_cluster("abc").entries] == [1, 2]
    assert [one.line for one in known.of_cluster("abcd").entries] == [2]
