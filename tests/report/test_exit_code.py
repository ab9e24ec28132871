"""The exit code: each of its values, and what is nearest to it."""

from __future__ import annotations

import pytest

from replica_audit.report.facts.assessment import Doubts, exit_code


@pytest.mark.parametrize(
    ("severities", "verdicts", "fail_on", "read", "expected"),
    [
        ({}, {"identical": 2}, "error", True, 0),
        ({"warning": 1}, {"identical": 2}, "error", True, 0),
        ({"warning": 1}, {"identical": 2}, "warning", True, 1),
        ({"error": 1}, {"diverged": 1}, "error", True, 1),
        ({"error": 1}, {"diverged": 1}, "critical", True, 0),
        ({"critical": 1}, {"inconclusive": 1}, "critical", False, 1),
        ({}, {"identical": 2}, "error", False, 3),
        ({"warning": 1}, {"identical": 2, "inconclusive": 1}, "error", True, 3),
        ({"warning": 1}, {"unreadable": 1}, "error", True, 3),
        ({}, {}, "error", True, 3),
    ],
)
def test_findings_go_before_what_is_not_known(
    severities: dict[str, int], verdicts: dict[str, int], fail_on: str, read: bool, expected: int
) -> None:
    assert exit_code(severities, verdicts, fail_on=fail_on, has_replicas=True, all_inputs_read=read) == expected


def test_records_that_were_to_be_compared_and_could_not_be_leave_nothing_clean() -> None:
    given = {"fail_on": "error", "has_replicas": True, "all_inputs_read": True}
    assert exit_code({}, {"identical": 2}, records_unread=1, **given) == 3  # type: ignore[arg-type]
    assert exit_code({"error": 1}, {"identical": 2}, records_unread=1, **given) == 1  # type: ignore[arg-type]


def test_without_a_replica_it_is_2_whatever_else() -> None:
    assert exit_code({"critical": 1}, {}, fail_on="error", has_replicas=False, all_inputs_read=False) == 2


@pytest.mark.parametrize("doubts", [Doubts(unread={"malformed": 1}, first_unread="a"), Doubts(guessed_leaders=1)])
def test_what_was_not_read_or_is_guessed_leaves_nothing_clean(doubts: Doubts) -> None:
    given = {"fail_on": "error", "has_replicas": True, "all_inputs_read": True, "doubts": doubts}
    assert exit_code({}, {"identical": 2}, **given) == 3  # type: ignore[arg-type]
    assert exit_code({"error": 1}, {"identical": 2}, **given) == 1  # type: ignore[arg-type]
