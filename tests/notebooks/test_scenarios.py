"""The scenarios of the notebook do what an audit of the same logs on disk says, under every protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from replica_audit.notebook import scenarios
from replica_audit.notebook.scenarios import Log, Scenario
from replica_audit.rows.codes import Protocol
from tests.notebooks.test_partition import spec_data
from tests.scenarios.disks import Audited, Cluster, Disk

ALL = [
    scenarios.kip_101_1_restart(),
    scenarios.kip_101_1_failover(),
    scenarios.kip_101_2(),
    *(scenarios.kip_279_1(n) for n in (11, 15, 20, 21, 25, 40)),
    scenarios.kip_279_1(15, leader_batch=5),
    scenarios.kip_279_1(25, follower_batch=5),
    scenarios.kip_279_1(25, follower_batch=4),
    scenarios.kip_279_2(),
    scenarios.kip_279_3(),
    scenarios.kip_279_3(high_watermark=2),
    scenarios.many_elections(),
    scenarios.pair([(0, 0, 9), (2, 10, 14)], [(0, 0, 29)], high_watermark=30),
    scenarios.pair([(1, 0, 9), (10, 12, 30)], [(1, 0, 9), (9, 10, 19)], high_watermark=10, title="the leader never heard of epoch 9"),
]
IDS = [f"{number}: {scenario.title}" for number, scenario in enumerate(ALL)]


def disk(log: Log) -> Disk:
    return Disk(batches=list(log.batches), high_watermark=log.high_watermark)


def audited(scenario: Scenario, root: Path, protocol: Protocol) -> Audited:
    """The audit of both logs as files: broker 1 leads, broker 2 follows."""
    cluster = Cluster(disks={1: disk(scenario.leader), 2: disk(scenario.follower)}, leader_epoch=scenario.leader.batches[-1][0])
    return cluster.audit(root, protocol)


def cut_of(row: Any) -> int | None:
    return None if pd.isna(row["truncation_offset"]) else int(row["truncation_offset"])


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("scenario", ALL, ids=IDS)
def test_a_scenario_is_what_an_audit_of_its_files_says(tmp_path: Path, scenario: Scenario, protocol: Protocol) -> None:
    found = audited(scenario, tmp_path, protocol)
    row = scenario.table().set_index("protocol").loc[str(protocol)]
    cut = found.cut()
    said = (cut_of(row), row["removed_offsets"], row["round_trips"])
    assert said == (cut["truncation_offset"], cut["removed_offsets"], cut["round_trips"])
    assert row["verdict"] == found.verdict()
    assert (row["outcome"] == "the fetcher fails") == cut["fetcher_fails"]
    if row["outcome"] not in ("the fetcher fails", "never fetches again"):
        assert (row["outcome"] != "agrees with the leader") == cut["still_diverged"]


@pytest.mark.parametrize(
    ("scenario", "offset", "outcome"),
    [
        pytest.param(scenarios.kip_279_1(15), None, "the fetcher fails", id="n < 20"),
        pytest.param(scenarios.kip_279_1(15, leader_batch=5), None, "silently diverged", id="n < 20, a batch begins at 16"),
        pytest.param(scenarios.kip_279_1(20), None, "silently diverged", id="n = 20"),
        pytest.param(scenarios.kip_279_1(25), 21, "records are missing for good", id="n > 20"),
        pytest.param(scenarios.kip_279_1(25, follower_batch=5), 21, "silently diverged", id="n > 20, a batch begins at 21"),
        pytest.param(
            scenarios.kip_279_1(25, follower_batch=4), 21, "silently diverged and records are missing for good", id="n > 20, both"
        ),
        pytest.param(scenarios.kip_279_3(), 1, "silently diverged", id="scenario 3"),
    ],
)
def test_what_kip_279_says_of_kip_101(scenario: Scenario, offset: int | None, outcome: str) -> None:
    row = scenario.table().set_index("protocol").loc["kip-101"]
    assert cut_of(row) == offset
    assert row["outcome"] == outcome


@pytest.mark.parametrize("n", [11, 15, 20, 25, 40])
def test_the_answers_epoch_makes_n_not_matter(n: int) -> None:
    table = scenarios.kip_279_1(n).table().set_index("protocol")
    for protocol in ("kip-279", "truncate-on-fetch"):
        assert (table.loc[protocol, "truncation_offset"], table.loc[protocol, "outcome"]) == (11, "agrees with the leader")


def test_rounds_are_told_in_order() -> None:
    rounds = scenarios.kip_279_3().rounds("kip-279")
    asked = rounds[rounds["request"] == "offset_for_leader_epoch"]
    assert asked[["requested_epoch", "answered_epoch", "answered_end_offset", "truncate_to"]].to_numpy().tolist() == [
        [2, 1, 1, 1],
        [0, 0, 0, 0],
    ]
    fetches = scenarios.many_elections().rounds("truncate-on-fetch")
    assert list(fetches["fetch_offset"]) == [40, 25, 12, 5]


def test_the_plot_draws_the_follower_after_each_protocol() -> None:
    chart = scenarios.kip_279_1(25).plot()
    data = spec_data(chart)
    after = {
        name: [(row["leader_epoch"], row["first_offset"], row["end_offset"]) for row in data if row["replica"] == name and "fate" in row]
        for name in ("after kip-101", "after kip-279")
    }
    assert after["after kip-101"] == [("1", 0, 11), ("3", 21, 31)], "a hole"
    assert after["after kip-279"] == [("1", 0, 11), ("1", 11, 21), ("3", 21, 31)]
    assert {row["replica"]: row["offset"] for row in data if row.get("mark") == "cut"} == {
        "after high-watermark": 11,
        "after kip-101": 21,
        "after kip-279": 11,
        "after truncate-on-fetch": 11,
    }
    assert "kip-101: cut to 21, records are missing for good" in chart.to_dict()["description"]


def test_what_conflicts_is_marked_by_more_than_colour() -> None:
    data = spec_data(scenarios.kip_279_1(20).plot())
    assert [row["label"] for row in data if row.get("fate") == "conflicts"] == ["2 !"]


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="kip-320"):
        scenarios.kip_279_3().rounds("kip-320")
