"""Which run, cluster, partition and followers are meant; and what is said where there is none, or more than one."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.errors import UsageError
from replica_audit.report.facts.partition_facts import PARTITION_TABLES
from replica_audit.report.facts.question import Question, Subject, find, parse_partition
from tests.report.audited import Row, TablesInMemory, run_row

ASKED = Question(topic="orders", partition=0)


def verdict(**changed: Any) -> Row:
    return {
        "run_id": "first",
        "cluster_id": "c",
        "topic": "orders",
        "partition": 0,
        "leader_id": 1,
        "follower_id": 2,
        "leader_source": "cluster-metadata",
        "verdict": "identical",
        "severity": "none",
        "divergence_offset": None,
        "truncation_offset": None,
        "restart_offset": None,
        "protocol": "kip-279",
        "reason": "same epochs over the same offsets",
    } | changed


def log(topic: str = "orders", partition: int = 0, **changed: Any) -> Row:
    return {
        "run_id": "first",
        "cluster_id": "c",
        "topic": topic,
        "partition": partition,
        "broker_id": 1,
        "log_dir": "/data",
        "directory": f"{topic}-{partition}",
        "state": "current",
        "log_start_offset": 0,
        "log_end_offset": 5,
        "high_watermark": 5,
        "checkpoint_state": "ok",
    } | changed


def at(hour: int) -> datetime:
    return datetime(2026, 1, 2, hour, tzinfo=UTC)


def found(tables: dict[str, list[Row]], **asked: Any) -> Subject:
    return find(TablesInMemory(tables), dataclasses.replace(ASKED, **asked))


def refused(tables: dict[str, list[Row]], **asked: Any) -> str:
    with pytest.raises(UsageError) as raised:
        found(tables, **asked)
    return str(raised.value)


def one_run(*verdicts: Row, **tables: list[Row]) -> dict[str, list[Row]]:
    return {"audit_runs": [run_row()], "replica_verdicts": list(verdicts), **tables}


@pytest.mark.parametrize(
    ("text", "topic", "partition"),
    [
        ("orders-0", "orders", 0),
        ("a.b_c-d.1-0-12", "a.b_c-d.1-0", 12),
        ("__consumer_offsets-49", "__consumer_offsets", 49),
        ("x--1", "x-", 1),
    ],
)
def test_the_last_dash_parts_topic_and_number(text: str, topic: str, partition: int) -> None:
    assert parse_partition(text) == (topic, partition)


@pytest.mark.parametrize(
    "text", ["", "orders", "orders-", "-0", "orders-x", "orders 0", "orders-0 ", "or/ders-0", "orders-9999999999", "orders-٣"]
)
def test_what_is_no_partition_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="such as orders-0"):
        parse_partition(text)


@given(st.text())
def test_any_text_is_a_partition_or_refused(text: str) -> None:
    try:
        topic, partition = parse_partition(text)
    except UsageError:
        return
    assert re.fullmatch(rf"{re.escape(topic)}-0*{partition}", text)


def test_the_latest_complete_run_is_meant_unless_one_is_named() -> None:
    tables = one_run(verdict(run_id="old"), verdict(run_id="new"), verdict(run_id="running"))
    tables["audit_runs"] = [
        run_row(run_id="new", started_at=at(2)),
        run_row(run_id="old", started_at=at(1)),
        run_row(run_id="running", started_at=at(3), status="running"),
    ]
    assert found(tables).run.run_id == "new"
    assert found(tables, run_id="old").run.run_id == "old"


def test_of_a_cluster_its_own_latest_run_is_meant() -> None:
    tables = one_run(verdict(run_id="a", cluster_id="east"), verdict(run_id="b", cluster_id="west"))
    tables["audit_runs"] = [
        run_row(run_id="a", cluster_id="east", started_at=at(1)),
        run_row(run_id="b", cluster_id="west", started_at=at(2)),
    ]
    assert found(tables, cluster_id="east").run.run_id == "a"
    assert found(tables).run.run_id == "b"


def test_an_unknown_run_names_the_latest() -> None:
    tables = one_run(verdict())
    tables["audit_runs"] = [run_row(run_id=f"run-{hour}", started_at=at(hour)) for hour in range(8)]
    assert refused(tables, run_id="x") == (
        "--run-id x: no such run; the latest complete runs are: run-7, run-6, run-5, run-4, run-3 and 3 more"
    )


def test_a_run_that_is_not_complete_does_not_count() -> None:
    tables = one_run(verdict())
    tables["audit_runs"] = [run_row(status="running")]
    said = refused(tables, run_id="first")
    assert "started at 2026-01-02 03:04:05 UTC and not complete, so its rows do not count" in said
    assert "there is no complete run" in said
    assert "there is no complete run; start ./spark-submit.sh audit" in refused(tables)


def test_what_is_no_warehouse_is_told() -> None:
    assert "--warehouse warehouse: not a warehouse: it has no table audit_runs" in refused({})
    assert "no table replica_verdicts" in refused({"audit_runs": [run_row()]})


def test_an_unknown_partition_names_what_there_is() -> None:
    logs = [log("orders", number) for number in (0, 1, 2)] + [log("odours", 4), log("payments", 0)]
    tables = one_run(verdict(), replica_logs=logs)
    assert refused(tables, partition=7) == "--partition orders-7: not in run first; it has orders-0, orders-1, orders-2"
    assert refused(tables, topic="ordours") == "--partition ordours-0: not in run first; did you mean odours-4 or orders-0?"
    assert refused(tables, topic="zzzzzz").endswith("it has odours-4, orders-0, orders-1, orders-2, payments-0")
    others = one_run(verdict(), replica_logs=[log(f"topic-{number}", 0) for number in range(6)])
    assert refused(others, topic="zzzzzz").endswith("it has 6 other topics; perhaps --topics limited the run")
    many = one_run(verdict(), replica_logs=[log("orders", number) for number in range(20)])
    assert refused(many, partition=77).endswith("it has orders-0, orders-1, orders-2, orders-3, orders-4 and 15 more")


def test_a_partition_without_followers_says_why() -> None:
    assert refused(one_run(replica_logs=[log()])) == (
        "orders-0 has no follower to explain in run first: only broker 1 is known to have a replica; if there are others, audit copies of "
        "them, too"
    )
    assert "only as deleted and stray (broker 1)" in refused(one_run(replica_logs=[log(state="stray"), log(state="deleted")]))
    assert "replicates by Raft" in refused(one_run(replica_logs=[log("__cluster_metadata")]), topic="__cluster_metadata")


@pytest.mark.parametrize("table", PARTITION_TABLES)
def test_a_partition_without_followers_of_which_more_is_known_is_explained(table: str) -> None:
    tables = one_run(replica_logs=[log()], **{table: [{"run_id": "first", "cluster_id": "c", "topic": "orders", "partition": 0}]})
    subject = found(tables)
    assert (subject.run.cluster_id, subject.verdicts) == ("c", ())
    assert subject.alone == "only broker 1 is known to have a replica; if there are others, audit copies of them, too"
    assert refused(tables, follower_id=1) == f"--follower 1: orders-0 has no follower to explain in run first: {subject.alone}"
    assert found(tables | {"replica_logs": []}).alone == "the input holds none of its replicas"
    assert "did you mean orders-0?" in refused(tables, topic="order")
    assert found(tables | {"replica_verdicts": [verdict()]}).alone is None


def test_a_cluster_in_which_only_the_partition_is_known_counts_too() -> None:
    tables = one_run(
        verdict(cluster_id="east"), replica_roles=[{"run_id": "first", "cluster_id": "west", "topic": "orders", "partition": 0}]
    )
    tables["audit_runs"] = [run_row(cluster_id="east"), run_row(cluster_id="west")]
    assert refused(tables) == "orders-0 is in 2 clusters of run first; give one with --cluster: east, west"
    assert found(tables, cluster_id="west").alone is not None


def test_a_partition_of_several_clusters_needs_one() -> None:
    tables = one_run(verdict(cluster_id="east"), verdict(cluster_id="west"))
    tables["audit_runs"] = [run_row(cluster_id="east"), run_row(cluster_id="west")]
    assert refused(tables) == "orders-0 is in 2 clusters of run first; give one with --cluster: east, west"
    assert found(tables, cluster_id="west").run.cluster_id == "west"
    assert refused(tables, cluster_id="wast").startswith("--cluster wast: no run has that cluster; there are: west")


def test_a_cluster_without_the_partition_names_those_that_have_it() -> None:
    tables = one_run(verdict(cluster_id="east"), replica_logs=[])
    tables["audit_runs"] = [run_row(cluster_id="east"), run_row(cluster_id="west")]
    assert refused(tables, cluster_id="west") == "orders-0 is not in cluster west of run first, but in: east"


def test_followers_are_all_or_the_one_given() -> None:
    tables = one_run(verdict(follower_id=3), verdict(follower_id=2))
    assert [one.follower_id for one in found(tables).verdicts] == [2, 3]
    assert [one.follower_id for one in found(tables, follower_id=3).verdicts] == [3]
    assert refused(tables, follower_id=1) == "--follower 1: leads orders-0; give one of its followers: 2, 3, or none for all"
    assert refused(tables, follower_id=9) == "--follower 9: does not follow orders-0; give one of its followers: 2, 3"
