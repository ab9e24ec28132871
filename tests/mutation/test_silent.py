"""A bounded part of the hunt for damage that stays silent, and that the hunt finds what it is there to find. See `tests.mutation.hunt`."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.house.checkout import ROOT
from tests.mutation import silent
from tests.mutation.accepted import ACCEPTED, KNOWN
from tests.mutation.damage.tree import Mutation
from tests.mutation.generated import STATES, healthy
from tests.mutation.shapes import COLLECTED, RAW, TEXT
from tests.mutation.silent import Place, Said, Tally, round_of, round_together, told

SAMPLE = ROOT / "tests" / "data" / "sample"
LIMITS = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
OTHER_CLUSTER = "AAAAAAAAQAAAAAAAAAAAAA"
# rounds of each state
ROUNDS = {RAW: range(12), TEXT: range(4), COLLECTED: range(4)}
IN_THE_NIGHT = {RAW: range(12, 150), TEXT: range(4, 30), COLLECTED: range(4, 15)}
DAY_AND_NIGHT = [pytest.param(ROUNDS, id="day"), pytest.param(IN_THE_NIGHT, id="night", marks=pytest.mark.nightly)]


def run(place: Place, seeds: range) -> Tally:
    tally = Tally()
    for seed in seeds:
        round_of(place, seed, tally)
    return tally


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("shape", [RAW, TEXT, COLLECTED])
@pytest.mark.parametrize("rounds", DAY_AND_NIGHT)
def test_nothing_of_a_generated_cluster_is_silent(tmp_path: Path, state: str, shape: str, rounds: dict[str, range]):
    place = Place(healthy(tmp_path / state, state), tmp_path / "place", shape)
    assert place.before.exit_code == 0
    tally = run(place, rounds[shape])
    assert tally.runs > len(rounds[shape])
    assert [str(one) for one in tally.silent] == []


@pytest.mark.parametrize("shape", [TEXT, COLLECTED])
def test_nothing_of_a_shape_itself_is_silent(tmp_path: Path, shape: str):
    place = Place(healthy(tmp_path / "stopped", "stopped"), tmp_path / "place", shape, of_shape=True)
    assert [str(one) for one in run(place, range(10)).silent] == []


@pytest.mark.parametrize("shape", [RAW, TEXT, COLLECTED])
@pytest.mark.parametrize("rounds", DAY_AND_NIGHT)
def test_no_damage_hides_another_nor_reaches_another_cluster(tmp_path: Path, shape: str, rounds: dict[str, range]):
    beside = healthy(tmp_path / "beside", "stopped", OTHER_CLUSTER)
    tally = Tally()
    for state in STATES:
        place = Place(healthy(tmp_path / state, state), tmp_path / "place", shape, beside=[beside])
        assert place.before.exit_code == 0
        for seed in rounds[shape]:
            round_together(place, seed, tally)
    assert tally.how["finding"] > len(rounds[shape]) // 2
    assert [str(one) for one in tally.silent] == []


@pytest.mark.parametrize("cluster", sorted(path.name for path in SAMPLE.iterdir()))
@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 12), marks=pytest.mark.nightly)], ids=["day", "night"])
def test_nothing_of_a_real_cluster_is_silent(tmp_path: Path, cluster: str, seeds: range):
    """Also of those in which much is found already: what is clean stays told, what is found stays found."""
    tally = run(Place(SAMPLE / cluster, tmp_path), seeds)
    assert tally.runs > len(seeds)
    assert [str(one) for one in tally.silent] == []


def test_every_exception_is_a_limit_that_people_are_told():
    """`ACCEPTED` is what nobody could know or what is accepted; `KNOWN` are open defects."""
    said = " ".join(LIMITS.split())
    for one in (*ACCEPTED, *KNOWN):
        assert one.limit in said, one.name
    assert len({one.name for one in (*ACCEPTED, *KNOWN)}) == len(ACCEPTED) + len(KNOWN)
    assert all(re.fullmatch(r"[A-Z_]+", one.name) for one in (*ACCEPTED, *KNOWN))


def test_a_reader_that_forgets_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An audit that says the same whatever is there: every mutation that changes anything is silent."""
    place = Place(healthy(tmp_path / "stopped", "stopped"), tmp_path / "place")
    monkeypatch.setattr(silent, "audited", lambda _root, _others: place.before)
    tally = run(place, range(4))
    assert len(tally.silent) == tally.how["silent"] > 5
    assert tally.how.total() == tally.how["silent"]


def test_damage_that_hides_another_is_found_and_so_is_what_another_cluster_hears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    beside = healthy(tmp_path / "beside", "stopped", OTHER_CLUSTER)
    place = Place(healthy(tmp_path / "stopped", "stopped"), tmp_path / "place", beside=[beside])
    for said in (place.before, replace(place.before, exit_code=1, of_others=Counter({"findings": 1}))):
        monkeypatch.setattr(silent, "audited", lambda _root, _others, said=said: said)
        tally = Tally()
        for seed in range(6):
            round_together(place, seed, tally)
        assert len(tally.silent) == tally.runs - tally.neutral > 2


def test_what_counts_as_told():
    nothing = Said(0, {("orders-0", 2): "identical"}, Counter(), Counter())
    mutation = Mutation("segment zeroed", "orders-0", {"broker-2/data-0/orders-0/0.log": b""}, "")
    assert told(nothing, nothing, mutation, alone=True) == ""
    for after, how in (
        (Said(0, {("orders-0", 2): "unreadable"}, Counter(), Counter()), "verdict"),
        (Said(0, nothing.verdicts, Counter(), Counter(), guessed=frozenset(nothing.verdicts)), "verdict"),
        (Said(0, nothing.verdicts, Counter({("orders-0", "x 2"): 1}), Counter()), "finding"),
        (Said(0, nothing.verdicts, Counter(), Counter({("broker-2/data-0/orders-0/0.log", "x"): 1})), "row"),
        (Said(3, nothing.verdicts, Counter(), Counter()), "exit code"),
    ):
        assert told(nothing, after, mutation, alone=True) == how
    elsewhere = Said(1, {("orders-1", 2): "unreadable"}, Counter({("orders-1", "x 2"): 1}), Counter())
    assert told(nothing, elsewhere, mutation, alone=False) == ""
