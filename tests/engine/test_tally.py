"""What is counted of partitions before their tables are written, by one task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from replica_audit.engine.tally import _TALLY, _of_task
from replica_audit.report.text import findings_text
from replica_audit.rows import COUNTED, REPLICA_LOGS, REPLICA_VERDICTS
from replica_audit.rows.arrow import OUTCOMES, WrittenFile
from replica_audit.rows.encoding import as_dict
from replica_audit.rows.findings import CheckedPartition, FoundFinding
from tests.rows.values import full_row

FILE = full_row(WrittenFile)


def finding(code: str, topic: str, *, state: str | None = None) -> dict[str, Any]:
    row = as_dict(full_row(FoundFinding)) | {"code": code, "severity": "error", "topic": topic}
    known = row["acknowledgement"]
    return row | {"acknowledgement": None if state is None else known | {"state": state}}


def partition(
    cluster: str, *verdicts: str, found: tuple[dict[str, Any], ...] = (), unread: int = 0, logs: int = 0, proven: int = 0
) -> dict[str, Any]:
    sizes = {REPLICA_LOGS.name: logs, REPLICA_VERDICTS.name: len(verdicts)}
    known = {"cluster_id": cluster, "sizes": [sizes.get(table.name, 0) for table in COUNTED], "verdicts": list(verdicts)}
    checked = [as_dict(replace(full_row(CheckedPartition), proven_pairs=proven))]
    return {name: None for name in OUTCOMES.names} | known | {"records_unread": unread, "found": list(found), "checked": checked}


def counted(*batches: list[dict[str, Any]]) -> pa.Table:
    taken = [name for name in OUTCOMES.names if name in ("cluster_id", "sizes", "verdicts", "records_unread", "checked", "found", "file")]
    schema = pa.schema([OUTCOMES.field(name) for name in taken])
    made = (pa.RecordBatch.from_pylist([{name: row.get(name) for name in taken} for row in rows], schema=schema) for rows in batches)
    return pa.Table.from_batches(_of_task(made, findings_text.worst_first, 2), _TALLY)


def counts(table: pa.Table) -> dict[tuple[str, str, str], int]:
    return {(row["cluster_id"], row["counted"], row["name"]): row["count"] for row in table.to_pylist() if row["count"]}


def test_every_count_is_of_its_cluster() -> None:
    found = counts(
        counted(
            [
                partition("a", "identical", "lagging", logs=3, proven=2),
                partition("b", "identical", unread=1, logs=2),
                {"file": as_dict(FILE)},
            ],
            [partition("a", logs=1), partition("a", "identical", unread=2, logs=2, proven=1)],
        )
    )
    assert found == {
        ("a", "rows", "replica_logs"): 6,
        ("a", "rows", "replica_verdicts"): 3,
        ("a", "verdict", "identical"): 2,
        ("a", "verdict", "lagging"): 1,
        ("a", "unread", "verdict"): 2,
        ("a", "proven", "verdict"): 3,
        ("a", "partitions", "rows"): 3,
        ("a", "partitions", "verdict"): 2,
        ("b", "rows", "replica_logs"): 2,
        ("b", "rows", "replica_verdicts"): 1,
        ("b", "verdict", "identical"): 1,
        ("b", "unread", "verdict"): 1,
        ("b", "partitions", "rows"): 1,
        ("b", "partitions", "verdict"): 1,
    }


def test_findings_that_somebody_knows_of_are_counted_apart_and_never_the_worst() -> None:
    loud, known = finding("committed_loss", "loud"), finding("stale_tail", "known", state="acknowledged")
    worse = finding("stale_tail", "worse", state="more-records")
    table = counted([partition("a", "committed_loss", found=(loud, known)), partition("b", "stale_tail", found=(worse,))])
    found = counts(table)
    assert found["a", "severity", "error"] == 1
    assert found["a", "acknowledged", "stale_tail"] == 1
    assert found["b", "severity", "error"] == 1
    assert ("b", "acknowledged", "stale_tail") not in found
    worst = [(row["cluster_id"], row["finding"]["topic"]) for row in table.to_pylist() if row["finding"]]
    assert worst == [("a", "loud"), ("b", "worse")]


def test_files_come_through_and_no_more_than_the_worst_findings() -> None:
    many = [partition("a", "stale_tail", found=(finding("stale_tail", f"t{number}"),)) for number in range(5)]
    table = counted([{"file": as_dict(FILE)}, *many], [], [{"file": as_dict(FILE)}])
    rows = table.to_pylist()
    assert [row["file"] for row in rows if row["file"]] == [as_dict(FILE)] * 2
    assert len([row for row in rows if row["finding"]]) == 2
    assert counts(table)["a", "severity", "error"] == 5
