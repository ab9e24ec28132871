"""What is shown of a run as soon as its replicas are compared: the worst first, named so that it can be found."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from replica_audit.report.text.findings_text import ORDERED_BY, lines, worst_first

LOSS = {"code": "committed_loss", "severity": "critical", "topic": "orders", "partition": 3, "broker_id": 2, "cluster_id": "a"}
LOST: dict[str, Any] = LOSS | {"removed_committed": 10, "records_lost": 12, "summary": "10 of the removed offsets were committed"}


def ordered(*rows: dict[str, Any]) -> list[int]:
    names = {name: [row[name] for row in rows] for name in ORDERED_BY}
    places: list[int] = worst_first(pa.table(names)).to_pylist()
    return places


@pytest.mark.parametrize(
    "worse",
    [
        {"code": "offline_partition", "severity": "warning", "broker_id": -1},
        {"removed_committed": 11, "records_lost": 0},
        {"records_lost": 13},
        {"cluster_id": "A"},
        {"topic": "orderR"},
        {"partition": 1},
        {"broker_id": 1},
    ],
)
def test_what_is_worse_comes_first(worse: dict[str, Any]) -> None:
    assert ordered(LOST, LOST | worse) == [1, 0]
    assert ordered(LOST | worse, LOST) == [0, 1]


def test_severity_goes_before_what_is_lost_and_nothing_known_comes_last() -> None:
    unknown = LOST | {"removed_committed": None, "records_lost": None}
    warning = LOST | {"code": "inconclusive", "severity": "warning", "removed_committed": 1000}
    assert ordered(warning, unknown, LOST) == [2, 1, 0]


def test_a_line_names_the_replica_and_the_cluster_if_there_are_several() -> None:
    assert list(lines([LOST], 1, {"a": "prod"})) == [
        "critical: committed_loss: orders-3, broker 2: 10 of the removed offsets were committed"
    ]
    (line, rest) = lines([LOST | {"broker_id": -1}], 4, {"a": "prod", "b": "test"})
    assert line == "critical: committed_loss: orders-3 (prod): 10 of the removed offsets were committed"
    assert rest == "and 3 more; the summary follows"


def test_of_no_findings_there_is_no_line() -> None:
    assert list(lines([], 0, {"a": "prod"})) == []
