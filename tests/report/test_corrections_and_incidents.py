"""What is said of a wrong leader-epoch-checkpoint and of what the brokers' own logs show."""

from __future__ import annotations

from typing import Any

import pytest

from replica_audit.report.facts.explanation import explain
from replica_audit.report.facts.question import Question
from replica_audit.report.text.explanation_text import render
from tests.protocol.logs import compare, replica
from tests.report.audited import KEYS, Row, TablesInMemory, tables_of

ASKED = Question(topic="orders", partition=0)
RIGHT = "0\n2\n0 0\n2 10\n"


def pair(*, wrong: int | None = None, content: str = RIGHT, state: str = "empty", verdict: str | None = None) -> dict[str, list[Row]]:
    """Leader 1 and follower 2; the checkpoint of broker `wrong` is to be corrected."""
    leader = replica(1, [(0, 0, 9), (2, 10, 19)], high_watermark=20)
    tables = tables_of(compare(leader, replica(2, [(0, 0, 9), (2, 10, 14)], high_watermark=10, alive=False)))
    for row in tables["replica_logs"]:
        if row["broker_id"] == wrong:
            row |= {"corrected_checkpoint": content, "checkpoint_state": state}
    if verdict:
        tables["replica_verdicts"][0] |= {"verdict": verdict}
    return tables


def told(tables: dict[str, list[Row]], location: str = "warehouse") -> str:
    text = render(explain(TablesInMemory(tables, location), ASKED))
    assert all(len(line) <= 80 and line == line.rstrip() for line in text.splitlines())
    return text


@pytest.mark.parametrize("wrong", [1, 2])
def test_the_lines_are_printed_as_in_the_file(wrong: int) -> None:
    text = told(pair(wrong=wrong))
    assert f"Corrected leader-epoch-checkpoint of broker {wrong}\n  0\n  2\n  0 0\n  2 10\n" in text


def test_a_long_table_is_cut_and_the_table_named() -> None:
    content = "0\n100\n" + "".join(f"{epoch} {epoch}\n" for epoch in range(100))
    text = told(pair(wrong=2, content=content))
    assert "  57 57\n" in text
    assert "  58 58\n" not in text
    assert "and 42 more lines in replica_logs.corrected_checkpoint" in text
    unkept = " ".join(told(pair(wrong=2, content=content), location="").split())
    assert "and 42 more lines (not kept; audit writes all to replica_logs.corrected_checkpoint)" in unkept


def test_a_right_file_is_not_spoken_of() -> None:
    text = told(pair())
    assert "Corrected" not in text
    assert "is wrong" not in text


def incident(line: int, **changed: Any) -> Row:
    return (
        KEYS
        | {
            "broker_id": 2,
            "kind": "removed_below_high_watermark",
            "logged_at": f"2026-01-02 03:04:{line:02d},000",
            "severity": "warning",
            "summary": f"according to /logs/broker-2/server.log, line {line}, broker 2 truncated to 10",
            "path": "/logs/broker-2/server.log",
            "line": line,
        }
        | changed
    )


def test_incidents_in_the_order_of_their_times() -> None:
    text = told(pair() | {"logged_incidents": [incident(9), incident(3, kind="unclean_election", logged_at=None)]})
    said = " ".join(text.split())
    assert "According to the brokers' server.log" in said
    assert said.index("line 3,") < said.index("line 9,")
    assert "Committed records that a truncation removed are gone from that replica" in said
    alone = told(pair() | {"logged_incidents": [incident(3, kind="unclean_election")]})
    assert "Committed records that" not in alone
    assert "According to the brokers'" not in told(pair())


def test_of_many_incidents_the_last() -> None:
    rows = pair() | {"logged_incidents": [incident(line) for line in range(1, 14)]}
    text = told(rows)
    assert "3 earlier incidents in the table logged_incidents" in text
    unkept = " ".join(told(rows, location="").split())
    assert "3 earlier incidents (not kept; audit writes all to the table logged_incidents)" in unkept
    assert "line 4," in text
    assert "line 3," not in text
