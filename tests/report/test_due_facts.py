"""Decisions from counted columns are those from rows, and no Python object is made for each finding."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.past.recovery import due_facts, recovery_of
from replica_audit.past.run import PastRun
from replica_audit.protocol.verdict.verdict import SEVERITIES, Verdict
from replica_audit.report.facts.due_facts import DueFacts, due_of
from replica_audit.report.sections.decisions import decisions
from replica_audit.rows import AUDIT_RUNS, CONSUMER_IMPACTS, FINDINGS, OPEN_TRANSACTIONS, REPLICA_VERDICTS, Table
from replica_audit.rows.arrow import schema_of
from replica_audit.rows.encoding import as_dict
from replica_audit.rows.findings import ElectionChoice
from replica_audit.storage.warehouse.arrow_tables import MemoryTables
from tests.rows.values import full_row

DATA = Path(__file__).resolve().parents[1] / "data"
KEYS = {"run_id": "r", "cluster_id": "c"}
SOME = st.none() | st.integers(0, 5)
FLAG = st.none() | st.booleans()


@pytest.mark.parametrize("root", ["sample/committed-loss", "sample/clean-in-sync", "offline/nobody-leads"])
def test_counted_is_what_is_read_of_real_clusters(root: str) -> None:
    done = triage((str(DATA / root),), Settings(), tell=lambda _line: None)
    run = PastRun(done.tables, done.run_id)
    for row in run.runs:
        found = due_facts(run, row.cluster_id)
        assert found == due_of(recovery_of(run, row.cluster_id))
        assert (found == DueFacts()) is ("clean" in root)


def _table(table: Table, rows: list[dict[str, Any]]) -> pa.Table:
    """All columns; what is not given is null, or anything where null is refused."""
    assert table.row is not None
    anything = as_dict(full_row(table.row))
    known = {column.name: None if column.nullable else anything.get(column.name) for column in table.columns} | KEYS
    return pa.Table.from_pylist([known | row for row in rows], schema=schema_of(table))


def _run(**rows: list[dict[str, Any]]) -> PastRun:
    known = {table.name: table for table in (REPLICA_VERDICTS, FINDINGS, CONSUMER_IMPACTS, OPEN_TRANSACTIONS)}
    moment = {"started_at": datetime(2026, 1, 2, tzinfo=UTC), "run_date": date(2026, 1, 2)}
    own = {"audit_runs": _table(AUDIT_RUNS, [{"status": "complete", "exit_code": 1, "path": "/c"} | moment])}
    return PastRun(MemoryTables(own | {name: _table(known[name], found) for name, found in rows.items()}), "r")


@st.composite
def _places(draw: st.DrawFn) -> dict[str, Any]:
    return {"topic": draw(st.sampled_from(["a", "b-1", "é"])), "partition": draw(st.integers(0, 3))}


@st.composite
def _verdict(draw: st.DrawFn) -> dict[str, Any]:
    verdict = draw(st.sampled_from(list(Verdict)))
    names = ("truncation_offset", "restart_offset", "divergence_offset", "removed_records", "removed_committed")
    return draw(_places()) | {
        "leader_id": 1,
        "follower_id": draw(st.integers(2, 4)),
        "leader_source": "metadata-log",
        "verdict": str(verdict),
        "severity": str(SEVERITIES[verdict]),
        "already_truncated": draw(FLAG),
        **{name: draw(SOME) for name in names},
    }


@st.composite
def _offline(draw: st.DrawFn) -> dict[str, Any]:
    """With one candidate of rank 1 at most."""
    ranks = draw(st.permutations([1, 2, None])) if draw(st.booleans()) else [2, None]
    choices = [
        {name: None for name in ElectionChoice.__slots__}
        | {
            "candidate_id": broker,
            "rank": rank,
            "in_isr": False,
            "reason": "",
            "election": draw(st.sampled_from(["clean", "unclean", None])),
            **{name: draw(SOME) for name in ("unread_replicas", "lost_records", "lost_committed")},
        }
        for broker, rank in enumerate(ranks, 1)
    ]
    return draw(_places()) | {
        "code": "offline_partition",
        "severity": "error",
        "status": draw(st.sampled_from(["new", "persisting", "resolved"])),
        "summary": "",
        "cluster_stopped": draw(FLAG),
        "candidates": draw(st.none() | st.just(choices) | st.just([])),
    }


@st.composite
def _group(draw: st.DrawFn) -> dict[str, Any]:
    return draw(_places()) | {
        "group_id": draw(st.sampled_from(["g", "h", "i", "j", "k"])),
        "committed_offset": 9,
        "validation_result": "truncated",
        "affected": draw(FLAG),
        **{name: draw(SOME) for name in ("records_gone", "records_reread", "records_missed")},
    }


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(_verdict(), max_size=12),
    st.lists(_offline(), max_size=6, unique_by=lambda row: (row["topic"], row["partition"])),
    st.lists(_group(), max_size=8),
)
def test_counted_is_what_is_read(verdicts: list[dict[str, Any]], offline: list[dict[str, Any]], groups: list[dict[str, Any]]) -> None:
    run = _run(replica_verdicts=verdicts, findings=offline, consumer_impacts=groups)
    counted = due_facts(run, "c")
    assert counted == due_of(recovery_of(run, "c"))
    texts = [one.text for one in decisions(counted)]
    assert bool(texts) == (counted != DueFacts())


def test_what_is_held_in_python_does_not_grow_with_the_findings() -> None:
    """Tens of thousands of findings of each kind: Arrow holds them, and Python no more than of a few."""
    peaks = []
    for partitions in (100, 20_000):
        places = [{"topic": "t", "partition": number} for number in range(partitions)]
        lost = {"leader_id": 1, "follower_id": 2, "leader_source": "metadata-log", "verdict": "committed_loss", "severity": "critical"}
        cut = {"lost_records": 3, "removed_committed": 2, "already_truncated": True}
        best = {name: None for name in ElectionChoice.__slots__} | {"candidate_id": 1, "rank": 1, "election": "unclean"}
        best |= {"lost_records": 2, "in_isr": False, "reason": ""}
        nobody = {"code": "offline_partition", "severity": "error", "status": "new", "summary": "", "candidates": [best]}
        behind = {"group_id": "g", "committed_offset": 9, "validation_result": "truncated", "affected": True, "records_gone": 1}
        run = _run(
            replica_verdicts=[place | lost | cut for place in places],
            findings=[place | {"topic": "u"} | nobody for place in places],
            consumer_impacts=[place | behind for place in places],
        )
        due_facts(run, "c")
        tracemalloc.start()
        found = due_facts(run, "c")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (found.truncated.count, found.truncated.records, found.leaderless.count) == (partitions, 3 * partitions, partitions)
        assert [one.partitions.records for one in found.elections] == [2 * partitions]
    assert peaks[1] < peaks[0] + 16 * 20_000, "an index of the rows, and less than the smallest object for each"


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(_verdict(), max_size=12),
    st.lists(_offline(), max_size=6, unique_by=lambda row: (row["topic"], row["partition"])),
    st.lists(_group(), max_size=8),
    st.lists(_places(), max_size=4, unique_by=lambda row: (row["topic"], row["partition"])),
)
def test_what_is_left_out_is_as_if_it_were_not_there(
    verdicts: list[dict[str, Any]], offline: list[dict[str, Any]], groups: list[dict[str, Any]], apart: list[dict[str, Any]]
) -> None:
    known = pa.Table.from_pylist(
        [{"cluster_id": "c"} | place for place in apart],
        schema=pa.schema([schema_of(FINDINGS).field(name) for name in ("cluster_id", "topic", "partition")]),
    )
    places = {(place["topic"], place["partition"]) for place in apart}
    rows = {"replica_verdicts": verdicts, "findings": offline, "consumer_impacts": groups}
    left = {name: [row for row in of if (row["topic"], row["partition"]) not in places] for name, of in rows.items()}
    assert due_facts(_run(**rows), "c", known) == due_facts(_run(**left), "c")
