"""Which runs go: by age and by number, never the newest of a cluster, never one that is being made."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.retention.choice import KnownRun, Reason, RunChoice, RunState, choose

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def run(days: int, *clusters: str, name: str | None = None, state: RunState = RunState.COMPLETE) -> KnownRun:
    """A run of so many days ago."""
    began = NOW - timedelta(days=days)
    return KnownRun(run_id=name or f"d{days}", cluster_ids=clusters or ("c",), run_date=began.date(), started_at=began, state=state)


def reasons(*runs: KnownRun, keep_days: int = 10, keep_runs: int = 1) -> dict[str, Reason]:
    return {choice.run.run_id: choice.reason for choice in choose(runs, NOW, keep_days, keep_runs)}


def test_what_is_older_than_so_many_days_goes() -> None:
    assert reasons(run(0), run(10), run(11), run(400)) == {
        "d400": Reason.OLD,
        "d11": Reason.OLD,
        "d10": Reason.YOUNG,
        "d0": Reason.NEWEST,
    }


def test_so_many_newest_stay_however_old() -> None:
    assert reasons(run(500), run(600), run(700), keep_runs=2) == {"d700": Reason.OLD, "d600": Reason.AMONG_NEWEST, "d500": Reason.NEWEST}


def test_the_newest_stays_whatever_is_asked_for() -> None:
    assert reasons(run(500), run(600), keep_days=0, keep_runs=0) == {"d600": Reason.OLD, "d500": Reason.NEWEST}


def test_each_cluster_keeps_its_own() -> None:
    runs = (run(500, "gone"), run(20, "a", "b"), run(1, "a"))
    assert reasons(*runs) == {"d500": Reason.NEWEST, "d20": Reason.NEWEST, "d1": Reason.NEWEST}
    (of_two,) = (choice for choice in choose(runs, NOW, 10, 1) if choice.run.run_id == "d20")
    assert of_two.cluster_ids == ("b",)


def test_a_run_that_read_nothing_takes_no_place_of_one_that_counts() -> None:
    assert reasons(run(20), run(1, state=RunState.EMPTY)) == {"d20": Reason.NEWEST, "d1": Reason.YOUNG}
    assert reasons(run(20), run(30, state=RunState.EMPTY))["d30"] is Reason.OLD


def test_a_run_that_is_being_made_stays_and_one_whose_process_has_ended_goes_by_age() -> None:
    runs = (run(500, state=RunState.RUNNING), run(400, state=RunState.ENDED), run(1, state=RunState.ENDED, name="late"))
    assert reasons(*runs) == {"d500": Reason.RUNNING, "d400": Reason.OLD, "late": Reason.YOUNG}


def test_a_removal_that_was_begun_goes_on_whatever_is_kept_now() -> None:
    assert reasons(run(1, state=RunState.REMOVING), keep_days=1000, keep_runs=9) == {"d1": Reason.REMOVAL_BEGUN}


def test_age_is_that_of_the_date_that_a_run_is_for_and_newest_the_one_that_began_last() -> None:
    began = NOW - timedelta(hours=1)
    late = KnownRun(run_id="late", cluster_ids=("c",), run_date=NOW.date() - timedelta(days=50), started_at=began, state=RunState.COMPLETE)
    assert reasons(late, run(2)) == {"d2": Reason.YOUNG, "late": Reason.NEWEST}
    assert reasons(late, run(0, name="later"))["late"] is Reason.OLD


RUNS = st.lists(
    st.builds(
        run,
        st.integers(0, 30),
        st.sampled_from("abc"),
        st.sampled_from("abc"),
        name=st.uuids().map(str),
        state=st.sampled_from(RunState),
    ),
    max_size=12,
    unique_by=lambda one: one.run_id,
)


@given(RUNS, st.integers(0, 30), st.integers(0, 4))
def test_what_holds_of_any_runs(runs: list[KnownRun], keep_days: int, keep_runs: int) -> None:
    chosen = choose(runs, NOW, keep_days, keep_runs)
    assert Counter(choice.run.run_id for choice in chosen) == Counter(one.run_id for one in runs), "each run once"
    going = {choice.run.run_id for choice in chosen if choice.goes}
    assert not [one for one in runs if one.run_id in going and one.state is RunState.RUNNING]
    young = [one for one in runs if (NOW.date() - one.run_date).days <= keep_days and one.state is not RunState.REMOVING]
    assert not [one for one in young if one.run_id in going]
    for cluster in "abc":
        complete = [one for one in runs if cluster in one.cluster_ids and one.state is RunState.COMPLETE]
        complete.sort(key=lambda one: (one.started_at, one.run_id), reverse=True)
        assert not going & {one.run_id for one in complete[: max(1, keep_runs)]}
    old = {one.run_id for one in runs if one not in young and one.state in (RunState.ENDED, RunState.EMPTY, RunState.REMOVING)}
    assert old <= going, "nothing keeps what does not count"
    assert choose(runs[::-1], NOW, keep_days, keep_runs) == chosen, "whatever order they come in"
    staying = [choice.run for choice in chosen if not choice.goes]
    assert not [choice for choice in choose(staying, NOW, keep_days, keep_runs) if choice.goes], "a second time nothing goes"


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_stays_or_goes(reason: Reason) -> None:
    assert RunChoice(run=run(0), reason=reason).goes == (reason in (Reason.OLD, Reason.REMOVAL_BEGUN))
