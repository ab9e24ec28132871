"""Steps of a recovery in a notebook: as frames, on one partition or all, and the orders of one that nobody leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit import triage
from replica_audit.errors import UsageError
from replica_audit.notebook.run import Run
from replica_audit.protocol.simulation import StartBroker

DATA = Path(__file__).resolve().parents[1] / "data"


@pytest.fixture(scope="module")
def offline() -> Run:
    return triage(DATA / "offline" / "nobody-leads")


def test_the_orders_of_a_partition_that_nobody_leads_are_those_of_the_table(offline: Run) -> None:
    rows = offline.what_if_leaders()
    assert len(rows)
    for (topic, partition), choices in rows.groupby(["topic", "partition"]):
        found = offline.partition(f"{topic}-{partition}").orders()
        known = choices.dropna(subset=["lost_offsets"]).set_index("candidate_id")
        assert set(found["leader_id"]) == set(known.index)
        for row in found.itertuples():
            assert (row.lost_offsets, row.election) == (known["lost_offsets"][row.leader_id], known["election"][row.leader_id])
        assert list(found["lost_offsets"]) == sorted(found["lost_offsets"])


def test_steps_as_frames(offline: Run) -> None:
    name = offline.what_if_leaders()[["topic", "partition"]].astype(str).agg("-".join, axis=1).iloc[0]
    partition = offline.partition(name)
    best = partition.orders().iloc[0]
    steps = best["steps"].split(", ")
    frame = partition.simulate(steps)
    assert list(frame["action"].unique()) == steps
    assert frame["not_done"].isna().all()
    assert frame["online"].iloc[-1]
    assert frame.groupby("step")["lost_offsets"].first().sum() == best["lost_offsets"]
    whole = offline.simulate(steps)
    assert set(whole["name"]) == set(offline.partitions()["name"])
    assert len(whole[whole["name"] == name]) == len(frame)
    assert list(offline.simulate([StartBroker(2)], name)["action"].unique()) == ["start 2"]


def test_a_step_that_is_none_is_a_sentence(offline: Run) -> None:
    name = offline.partitions()["name"].iloc[0]
    with pytest.raises(UsageError, match="step 'reboot 2': give 'start 1'"):
        offline.simulate(["reboot 2"], name)
    with pytest.raises(UsageError, match="broker 2 needs no correction"):
        offline.simulate(["correct 2"], name)


def test_a_running_cluster_has_no_orders() -> None:
    assert triage(DATA / "sample" / "committed-loss").partition("billing-0").orders().empty
