"""Steps simulated from a run's tables: followers truncate as the brokers did, and an order costs what `what_if_leaders` says."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import pytest

from replica_audit import triage
from replica_audit.notebook.run import Run
from replica_audit.notebook.simulation import PartitionSimulator
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.simulation import StartBroker
from tests.clusters.test_scenarios import SCENARIOS, Row, _moves, _name, _said
from tests.support.shares import by_day

# batches lie across the cuts of these rules, and the tables hold no batches; the audit reads them
COMPARED = {"stale-tail", "committed-loss", "kip279-two-rounds", "kafka-3.9.1-multi-round", "random-histories"}
BY_BATCHES = {"kafka-1.1.1", "kafka-2.4.1-ibp", "kafka-mixed"}


@lru_cache(4)
def _run(path: Path) -> Run:
    return triage(path, compare="epochs")


def _simulator(run: Run, topic: str, partition: int) -> PartitionSimulator:
    return run.partition(f"{topic}-{partition}").simulator


def _key(replica: Row) -> tuple[str, int]:
    return replica["topic"], replica["partition"]


@pytest.mark.clusters
@pytest.mark.parametrize("case", by_day(SCENARIOS), ids=_name)
def test_followers_that_are_started_truncate_as_the_brokers_did(case: tuple[Path, Path]) -> None:
    path, expected = case
    run, seen = _run(path), 0
    for replica in json.loads(expected.read_text(encoding="utf-8"))["replicas"]:
        if _moves(replica):
            continue
        simulator = _simulator(run, *_key(replica))
        situation, follower = simulator.situation, replica["replica"]
        if not situation.is_online or follower in situation.running or situation.leader_id != replica["leader_before"]:
            continue
        done = simulator.simulate([StartBroker(follower)])
        found, said = done.outcomes[0].followed[follower], _said(replica)
        assert (found.truncation_offset, found.restart_offset) == (said["truncation_offset"], said["restart_offset"]), (
            _key(replica),
            follower,
        )
        if not path.parent.name.startswith(tuple(BY_BATCHES)) and not replica["fetcher_failed"]:
            assert found.caught_up
        seen += 1
    assert seen or path.parent.name not in COMPARED


@pytest.mark.clusters
@pytest.mark.parametrize("case", by_day(SCENARIOS), ids=_name)
def test_what_an_order_loses_is_what_electing_its_leader_loses(case: tuple[Path, Path]) -> None:
    """With every broker down: the two count apart, one by steps, the other by a pair at a time."""
    path, _expected = case
    run = _run(path)
    rows = run.what_if_leaders()
    compared = 0
    for (topic, partition), choices in rows.groupby(["topic", "partition"]):
        simulator = _simulator(run, topic, partition)
        if any(one.unreadable or not one.has_epochs or _begins_below(one) for one in simulator.situation.replicas.values()):
            continue
        down = simulator.all_down()
        lost = {order.leader_id: order.simulation.lost_offsets for order in down}
        said = choices[choices["already_lost_offsets"] == 0].dropna(subset=["lost_offsets"])
        for row in said.itertuples():
            if row.followers_failing or row.followers_diverged or row.is_leader:
                continue
            assert lost[row.candidate_id] == row.lost_offsets, (topic, partition, row.candidate_id)
            compared += 1
    assert compared or path.parent.name not in COMPARED


def _begins_below(one: Replica) -> bool:
    """Whether its first batch begins below its log start: `what_if_leaders` counts whole batches."""
    return bool(one.history) and one.history[0].first_offset < one.log.log_start_offset
