"""The tables of a run held against each other before it counts: rows that were lost on the way are missed here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.dataset as ds

from replica_audit.past.run import counted
from replica_audit.protocol.verdict.acknowledgement import FOUND_NOW
from replica_audit.protocol.verdict.partition_findings import FindingAbout
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.rows import AUDIT_RUNS, BROKER_STARTS, FINDINGS, REPLICA_LOGS, REPLICA_STARTS, REPLICA_VERDICTS, Table
from replica_audit.rows.codes import Severity
from replica_audit.rows.starts import BrokerStart, StartOutcome
from replica_audit.storage.warehouse.arrow_tables import ArrowTables

_OF_THIS_RUN = ds.field("status").isin(FOUND_NOW)
_OF_VERDICTS = _OF_THIS_RUN & (ds.field("about") == str(FindingAbout.FOLLOWER)) & ds.field("code").isin(list(map(str, Verdict)))
_IS_FOUND = ds.field("severity") != str(Severity.NONE)
_IS_AT_STAKE = ds.field("outcome") != str(StartOutcome.SAFE)
_PARTITION, _BROKER = ["cluster_id", "topic", "partition"], ["cluster_id", "broker_id"]
Counts = Counter[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNumbers:
    """What a run is about to say of itself: the rows of each table, and by cluster the columns of `audit_runs` and the findings."""

    table_rows: Mapping[str, int]
    of_cluster: Mapping[str, Mapping[str, Any]]
    found: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """The same rows, as two places have them."""

    what: tuple[Any, ...]
    first: str
    there: int
    second: str
    here: int

    def sentence(self) -> str:
        """Say so."""
        return f"of {' '.join(map(str, self.what))} {self.first} has {self.there}, {self.second} {self.here}"


def disagreement(tables: ArrowTables, run_id: str, numbers: RunNumbers) -> Disagreement | None:
    """Return the first number of a run that two of its tables have differently; None if they agree.

    Raises:
        UsageError: a table cannot be read.
    """
    for first, counts, second, others in _held(tables, run_id, numbers):
        for what in sorted(counts | others, key=str):
            if counts[what] != others[what]:
                return Disagreement(what=what, first=first, there=counts[what], second=second, here=others[what])
    return None


def _held(tables: ArrowTables, run_id: str, numbers: RunNumbers) -> Iterator[tuple[str, Counts, str, Counts]]:
    def rows(table: Table, names: list[str], where: ds.Expression | None = None) -> Counts:
        return counted(tables.of_table(table, names, where, run_id=run_id), names)

    def said(name: str) -> Counts:
        return Counter({(cluster,): known.get(name) or 0 for cluster, known in numbers.of_cluster.items()})

    by_verdict = ["cluster_id", "verdict"]
    partitions = counted(tables.of_table(REPLICA_VERDICTS, _PARTITION, run_id=run_id), _PARTITION)
    verdicts = {
        (cluster, verdict): number
        for cluster, known in numbers.of_cluster.items()
        for verdict, number in (known.get("verdict_counts") or {}).items()
    }
    there: Counts = Counter({(name,): tables.count(name, run_id=run_id) or 0 for name in numbers.table_rows})
    yield "the run", Counter({(name,): number for name, number in numbers.table_rows.items()}), "the table", there
    yield (
        REPLICA_VERDICTS.name,
        rows(REPLICA_VERDICTS, [*by_verdict, "severity"], _IS_FOUND),
        FINDINGS.name,
        rows(FINDINGS, ["cluster_id", "code", "severity"], _OF_VERDICTS),
    )
    found: Counts = Counter({(cluster,): number for cluster, number in numbers.found.items()})
    yield "what was found", found, FINDINGS.name, rows(FINDINGS, ["cluster_id"], _OF_THIS_RUN)
    yield REPLICA_STARTS.name, rows(REPLICA_STARTS, [*_BROKER, "outcome"], _IS_AT_STAKE), BROKER_STARTS.name, _at_stake(tables, run_id)
    yield AUDIT_RUNS.name, Counter(verdicts), REPLICA_VERDICTS.name, rows(REPLICA_VERDICTS, by_verdict)
    yield AUDIT_RUNS.name, said("replicas"), REPLICA_LOGS.name, rows(REPLICA_LOGS, ["cluster_id"])
    yield AUDIT_RUNS.name, said("partitions"), REPLICA_VERDICTS.name, Counter((cluster,) for cluster, _topic, _number in partitions)


def _at_stake(tables: ArrowTables, run_id: str) -> Counts:
    starts = tables.rows(BROKER_STARTS.name, BrokerStart, run_id=run_id)
    outcomes = ((one.cluster_id, one.broker_id, outcome, number) for one in starts for outcome, number in one.outcomes.items())
    return Counter({(*broker, outcome): number for *broker, outcome, number in outcomes if outcome != StartOutcome.SAFE and number})
