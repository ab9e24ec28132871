"""Random histories of many findings, as Spark writes them night after night, against a model of what a reader is promised.

A night audits some clusters, some topics of them, and sees some of their replicas. A finding that was seen is new or persists; one that was
not is resolved if its pair was seen to agree, and stays open, unconfirmed, if not. Nothing is lost, nothing is there twice.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from replica_audit.partition.findings.acknowledging import acknowledging
from replica_audit.past.earlier_runs import earlier_runs
from replica_audit.protocol.verdict.acknowledgement import Acknowledgement, Acknowledgements
from replica_audit.rows import FINDINGS
from replica_audit.rows.arrow import schema_of, schema_of_audited
from replica_audit.rows.encoding import as_dict
from replica_audit.rows.findings import CheckedPartition, FoundFinding
from replica_audit.rows.runs import AuditRun
from tests.support.rows import sparse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FIRST = date(2026, 11, 1)
CLUSTERS, TOPICS, PARTITIONS, FOLLOWERS = ("a", "b"), ("orders", "payments"), (0, 1), (2, 3)
CODES = {"stale_tail": "error", "committed_loss": "critical", "unreadable": "error"}
NIGHTS = 12
KNOWN = Acknowledgement(line=1, reason="known", who="ana", until=FIRST + timedelta(days=5), topic="orders", at_most_records=10)
Key = tuple[str, str]


@dataclass(frozen=True)
class Seen:
    """What a night sees of a replica: a finding of a code that loses records; that it agrees; or nothing (neither)."""

    code: str | None = None
    records: int = 0
    agrees: bool = False


@dataclass
class Model:
    """Every open finding: when it was first and last seen, and the records that it lost then."""

    open: dict[Key, tuple[str, str, int]] = field(default_factory=dict)

    def night(
        self, run: str, on: date, cluster: str, topics: set[str], seen: dict[tuple[str, int, int], Seen | None]
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of a cluster's night, as (key, status, first seen, last seen, state of the acknowledgement)."""
        keys = {(cluster, f"{code}:{t}-{p}:{b}"): (t, p, b, code) for t, p, b in seen for code in CODES if t in topics}
        for key, (topic, partition, broker, code) in keys.items():
            before, now = self.open.get(key), seen[topic, partition, broker]
            if now is not None and now.code == code:
                self.open[key] = (before[0] if before else run, run, now.records)
                yield (*key, "persisting" if before else "new", self.open[key][0], run, self._known(topic, code, now.records, on))
            elif before is not None and now is not None and now.agrees:
                del self.open[key]
                yield (*key, "resolved", before[0], before[1], None)
            elif before is not None:
                yield (*key, "unconfirmed", before[0], before[1], self._known(topic, code, before[2], on))

    def _known(self, topic: str, code: str, records: int, on: date) -> str | None:
        if topic != "orders":
            return None
        if on > FIRST + timedelta(days=5):
            return "expired"
        if CODES[code] == "critical":
            return "more-severe"
        return "more-records" if records > 10 else "acknowledged"


def found(topic: str, partition: int, broker: int, seen: Seen, known: Acknowledgements) -> FoundFinding:
    assert seen.code
    made = FoundFinding(
        finding_key=f"{seen.code}:{topic}-{partition}:{broker}",
        code=seen.code,
        severity=CODES[seen.code],
        topic=topic,
        partition=partition,
        broker_id=broker,
        summary="",
        about="follower",
        leader_id=1,
        leader_source="cluster-metadata",
        removed_records=seen.records,
    )
    return acknowledging(made, known)


def checked(topic: str, partition: int, agree: list[int]) -> CheckedPartition:
    return CheckedPartition(
        topic=topic,
        partition=partition,
        leader_id=1,
        leader_source="cluster-metadata",
        leader_has_epoch=True,
        has_no_hanging_transaction=True,
        isr=(1, *agree),
        clean=(1, *agree),
        same_batches=tuple(agree),
        same_records=(),
    )


def night_of(chosen: random.Random, topics: set[str]) -> dict[tuple[str, int, int], Seen | None]:
    """What is seen of every replica; None where its partition is not in the input."""
    seen: dict[tuple[str, int, int], Seen | None] = {}
    for topic in sorted(topics):
        for partition in PARTITIONS:
            is_there = chosen.random() < 0.85
            for broker in FOLLOWERS:
                code = chosen.choice([None, None, *CODES])
                one = Seen(code, chosen.randint(0, 20)) if code else Seen(agrees=chosen.random() < 0.6)
                seen[topic, partition, broker] = one if is_there else None
    return seen


def outcomes(cluster: str, seen: dict[tuple[str, int, int], Seen | None], known: Acknowledgements) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of `found` and of `checked`."""
    for topic, partition in sorted({key[:2] for key, one in seen.items() if one is not None}):
        of_partition = {broker: one for (t, p, broker), one in seen.items() if (t, p) == (topic, partition) and one is not None}
        rows = [found(topic, partition, broker, one, known) for broker, one in of_partition.items() if one.code]
        check = checked(topic, partition, [broker for broker, one in of_partition.items() if one.agrees])
        yield from (("found", {"cluster_id": cluster, **as_dict(row)}) for row in rows)
        yield "checked", {"cluster_id": cluster, **as_dict(check)}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_any_history(spark: SparkSession, seed: int) -> None:
    from replica_audit.engine import findings as findings_of
    from replica_audit.engine.arrow import spark_schema

    chosen, model = random.Random(seed), Model()  # noqa: S311
    written: list[dict[str, Any]] = []
    runs: list[AuditRun] = []
    for number in range(NIGHTS):
        run, on = f"run-{number}", FIRST + timedelta(days=number)
        pattern = chosen.choice(["", "", "", *TOPICS])
        topics = {pattern} if pattern else set(TOPICS)
        acknowledged = {cluster: Acknowledgements(entries=(KNOWN,), on=on) for cluster in CLUSTERS}
        expected: list[Any] = []
        made: list[Any] = []
        clusters = chosen.sample(CLUSTERS, chosen.choice([1, 2, 2]))
        for cluster in clusters:
            seen = night_of(chosen, topics)
            made += outcomes(cluster, seen, acknowledged[cluster])
            expected += model.night(run, on, cluster, topics, seen)
        current, checks = (
            spark.createDataFrame(pa.Table.from_pylist([row for of, row in made if of == name], schema=schema), spark_schema(schema))
            for name, schema in ((name, schema_of_audited(name)) for name in ("found", "checked"))
        )
        kept = pa.Table.from_pylist(written, schema=schema_of(FINDINGS))
        before = [one for one in earlier_runs(runs, run) if one.cluster_id in clusters]
        history = (
            findings_of.latest_before(spark.createDataFrame(kept, spark_schema(schema_of(FINDINGS))), before, topics=pattern)
            if before
            else None
        )
        rows = findings_of.with_history(current, history, checks, run, acknowledged).toArrow().to_pylist()
        state = {id(row): row["acknowledgement"] and row["acknowledgement"]["state"] for row in rows}
        got = [
            (*(row[n] for n in ("cluster_id", "finding_key", "status", "first_seen_run_id", "last_seen_run_id")), state[id(row)])
            for row in rows
        ]
        assert sorted(got, key=str) == sorted(expected, key=str), run
        written += rows
        began = datetime.combine(on, datetime.min.time(), UTC)
        for cluster in clusters:
            config = f'{{"topics": "{pattern}"}}'
            runs.append(sparse(AuditRun, run_id=run, cluster_id=cluster, status="complete", started_at=began, run_date=on, config=config))
            if chosen.random() < 0.3:  # a run that was killed says nothing of what is open
                killed = replace(runs[-1], run_id=f"killed-{number}", status="running", started_at=began + timedelta(hours=1))
                runs.append(killed)
    assert {row["status"] for row in written} == {"new", "persisting", "resolved", "unconfirmed"}
    assert {row["acknowledgement"]["state"] for row in written if row["acknowledgement"]} == {
        "acknowledged",
        "expired",
        "more-severe",
        "more-records",
    }
