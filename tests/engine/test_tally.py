"""What is counted of partitions before their tables are written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from replica_audit.engine.tally import Tally, merged
from replica_audit.report.text import findings_text
from replica_audit.rows import AuditedPartition
from replica_audit.rows.arrow import WrittenFile
from replica_audit.rows.findings import CheckedPartition, FoundFinding
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.replicas import ReplicaLog
from replica_audit.stages.valid_rows import encoded
from tests.rows.values import full_row

FILE = full_row(WrittenFile)


def finding(code: str, topic: str, *, state: str | None = None) -> FoundFinding:
    row = replace(full_row(FoundFinding), code=code, severity="error", topic=topic)
    assert row.acknowledgement is not None
    return replace(row, acknowledgement=None if state is None else replace(row.acknowledgement, state=state))


def partition(cluster: str, *verdicts: str, found: tuple[FoundFinding, ...] = (), unread: int = 0, logs: int = 0, proven: int = 0) -> Any:
    number = next(_NUMBERS)
    rows = [replace(full_row(ReplicaVerdict), partition=number, verdict=one, severity="none", records_unread=None) for one in verdicts]
    return AuditedPartition(
        cluster_id=cluster,
        replica_verdicts=[replace(row, records_unread="u" if place < unread else None) for place, row in enumerate(rows)],
        replica_logs=[full_row(ReplicaLog)] * logs,
        found=found,
        checked=[replace(full_row(CheckedPartition), proven_pairs=proven)],
    )


_NUMBERS = iter(range(1000))


def counted(*tasks: list[AuditedPartition], files: tuple[WrittenFile, ...] = ()) -> Tally:
    tallies = []
    for rows in tasks:
        tally = Tally(files=list(files))
        tally.add(encoded(rows), len(rows))
        tally.keep_worst(findings_text.worst_first, 2)
        tallies.append(tally)
    return merged(tallies, findings_text.worst_first, 2)


def test_every_count_is_of_its_cluster() -> None:
    found = counted(
        [partition("a", "identical", "lagging", logs=3, proven=2), partition("b", "identical", unread=1, logs=2)],
        [partition("a", logs=1), partition("a", "identical", "identical", unread=2, logs=2, proven=1)],
    )
    assert found.rows == {("a", "replica_logs"): 6, ("a", "replica_verdicts"): 4, ("b", "replica_logs"): 2, ("b", "replica_verdicts"): 1}
    assert found.verdicts == {("a", "identical"): 3, ("a", "lagging"): 1, ("b", "identical"): 1}
    assert +found.records_unread == {"a": 2, "b": 1}
    assert +found.proven_healthy == {"a": 3}
    assert (found.partitions, found.audited) == ({"a": 2, "b": 1}, 4)


def test_a_follower_that_is_not_clean_has_no_unread_records() -> None:
    row = partition("a", "stale_tail", unread=1)
    row = replace(row, replica_verdicts=[replace(one, severity="error") for one in row.replica_verdicts])
    assert +counted([row]).records_unread == {}


def test_findings_that_somebody_knows_of_are_counted_apart_and_never_the_worst() -> None:
    loud, known = finding("committed_loss", "loud"), finding("stale_tail", "known", state="acknowledged")
    worse = finding("stale_tail", "worse", state="more-records")
    found = counted([partition("a", "committed_loss", found=(loud, known)), partition("b", "stale_tail", found=(worse,))])
    assert found.severities == {("a", "error"): 1, ("b", "error"): 1}
    assert found.acknowledged == {("a", "stale_tail"): 1}
    assert (found.findings, found.finding_count) == ({"a": 2, "b": 1}, 2)
    assert [(row["cluster_id"], row["topic"]) for row in found.worst] == [("a", "loud"), ("b", "worse")]


def test_files_come_through_and_no_more_than_the_worst_findings() -> None:
    many = [partition("a", "stale_tail", found=(finding("stale_tail", f"t{number}"),)) for number in range(5)]
    found = counted(many, [], files=(FILE,))
    assert found.files_of(FILE.table) == [FILE] * 2 and found.files_of("another") == []
    assert len(found.worst) == 2
    assert found.severities["a", "error"] == 5
