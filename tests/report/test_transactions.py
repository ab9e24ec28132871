"""What is told of transactions that are open on a leader, and of gaps in sequences: explanation, page, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from replica_audit.protocol.transactions.open_transactions import HangsBecause
from replica_audit.report.document import Block, Heading, Sentence
from replica_audit.report.facts.explanation import explain
from replica_audit.report.facts.question import Question
from replica_audit.report.layout.paragraphs import CommandLine
from replica_audit.report.page.partition import Section, section
from replica_audit.report.sections.transactions import in_short
from replica_audit.report.text.json_report import json_pieces
from replica_audit.rows.records import HangingTransaction
from tests.page.runs import page_data
from tests.report.audited import KEYS, Row, TablesInMemory
from tests.report.test_partition_text import alone, pair, told, words

BEGAN = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


def opened(**changed: Any) -> Row:
    return (
        KEYS
        | {
            "producer_id": 7,
            "producer_epoch": 3,
            "first_offset": 10,
            "last_offset": 14,
            "began_at": BEGAN,
            "last_written_at": BEGAN + timedelta(seconds=2),
            "last_stable_offset": 10,
            "elsewhere": [],
            "transactional_id": "pay",
            "coordinator_state": "CompleteAbort",
            "coordinator_epoch": 3,
            "timeout_ms": 60_000,
            "hangs_because": "coordinator-went-on",
            "waiting_groups": [],
            "may_be_committed": False,
            "coordinator_producer_id": 7,
            "abort_form": "start-offset",
            "marker_coordinator_epoch": None,
            "approaching_groups": [],
            "groups_beyond": [],
        }
        | changed
    )


def other(broker: int, standing: str, offset: int | None = None, *, removed: bool | None = None, outcome: str | None = None) -> Row:
    return {"broker_id": broker, "standing": standing, "marker_offset": offset, "is_removed": removed, "outcome": outcome}


def page(*rows: Row) -> Section:
    asked = Question(topic="orders", partition=0)
    return section(page_data().report, explain(TablesInMemory(alone(open_transactions=list(rows))), asked), "orders-0", "")


def test_nothing_open_is_not_mentioned() -> None:
    tables = pair()
    assert "Open transactions" not in told(tables), "also of a run whose tables lack this one"
    made = section(page_data().report, explain(TablesInMemory(tables), Question(topic="orders", partition=0)), "orders-0", "")
    assert (made.hanging, made.told) == ((), ())


@pytest.mark.parametrize("why", HangsBecause)
def test_one_that_hangs(why: HangsBecause) -> None:
    text = told(alone(open_transactions=[opened(hangs_because=str(why), waiting_groups=["billing"])]))
    said = " ".join(text.split())
    assert "The last stable offset is 10: consumers with read_committed do not get beyond it." in said
    assert "Group billing has committed there: with read_committed it is stuck." in said
    assert (
        "- Offsets 10..14: pay (producer 7, epoch 3), since 2026-01-02 03:04:05 UTC, last written 2026-01-02 03:04:07. It hangs: its"
        in said
    )
    assert "Its coordinator says CompleteAbort, producer epoch 3, timeout 60000 ms; no other replica shows it." in said
    assert "its producer takes it for committed" not in said
    made = page(opened(hangs_because=str(why)))
    assert "Offsets 10..14: pay (producer 7, epoch 3), since" in _said(made.hanging)


def _said(blocks: Iterable[Block]) -> str:
    return " ".join(block.text for block in blocks if isinstance(block, Sentence | Heading))


def test_every_reason_has_words() -> None:
    said = [told(alone(open_transactions=[opened(hangs_because=str(why))])) for why in HangsBecause]
    assert len(set(said)) == len(HangsBecause)
    assert not any(str(why) in text for why, text in zip(HangsBecause, said, strict=True))


def test_a_young_one_is_listed_and_nothing_is_to_be_done() -> None:
    row = opened(hangs_because=None, coordinator_state="Ongoing", last_written_at=BEGAN, may_be_committed=None)
    said = words(alone(open_transactions=[row]))
    assert "since 2026-01-02 03:04:05 UTC. It may still be ended, or nothing shows whether anybody will end it." in said
    assert "kafka-transactions" not in said
    made = page(row)
    assert not made.hanging
    assert _said(made.told).startswith("Open transactions The last stable offset is 10")
    assert "Offsets 10..14" in _said(made.told)


def test_what_may_be_committed_says_so() -> None:
    row = opened(coordinator_state="CompleteCommit", may_be_committed=True)
    told_ = (
        "Its coordinator says CompleteCommit: its producer takes it for committed, and once it is aborted read_committed consumers never"
    )
    assert told_ in words(alone(open_transactions=[row]))
    assert told_ in _said(page(row).hanging)


def test_other_replicas() -> None:
    others = [other(2, "open"), other(3, "finished", 15, removed=True), other(4, "finished", 16, removed=False), other(5, "not-there")]
    others.append(other(6, "finished"))
    said = words(alone(open_transactions=[opened(elsewhere=others)]))
    assert (
        "broker 2: open, too; broker 3: ended by a marker at offset 15, which it truncates, or has truncated, to follow the leader; "
        "broker 4: ended by a marker at offset 16; broker 5: its log holds nothing of the transaction; broker 6: ended by a marker."
    ) in said


def test_markers_that_contradict_each_other() -> None:
    others = [other(2, "finished", 15, outcome="committed"), other(3, "finished", 15, outcome="aborted"), other(4, "open")]
    row = opened(elsewhere=others, may_be_committed=True)
    said = words(alone(open_transactions=[row]))
    assert (
        "broker 2: committed by a marker at offset 15; broker 3: aborted by a marker at offset 15; broker 4: open, too; the markers" in said
    )
    assert "contradict each other, so consumers of these replicas have read different records." in said
    assert "The marker on broker 2 is a COMMIT: its producer takes it for committed" in said
    assert "contradict" not in words(alone(open_transactions=[opened(elsewhere=others[::2])]))


def test_groups_by_where_they_have_committed() -> None:
    row = opened(waiting_groups=["a", "b"], approaching_groups=["c"], groups_beyond=["d"])
    said = words(alone(open_transactions=[row]))
    assert (
        "Groups a, b have committed there: with read_committed they are stuck. Below it: c; with read_committed they will stop at it. "
        "Beyond it: d; they read with read_uncommitted, or have read from an earlier leader."
    ) in said


def test_the_transactional_id_has_changed_its_producer_id() -> None:
    said = words(alone(open_transactions=[opened(coordinator_producer_id=12, coordinator_epoch=0)]))
    assert "Its coordinator says CompleteAbort of producer 12, another id for the same transactional id, producer epoch 0, timeout" in said


def test_what_is_not_known() -> None:
    unknown = dict.fromkeys(
        (
            "coordinator_producer_id",
            "transactional_id",
            "coordinator_state",
            "coordinator_epoch",
            "timeout_ms",
            "began_at",
            "last_written_at",
        )
    )
    said = words(alone(open_transactions=[opened(**unknown, may_be_committed=None)]))
    assert "- Offsets 10..14: producer 7, epoch 3. It hangs" in said
    assert "No __transaction_state in the input names its producer" in said
    assert "Whether its records should have been committed is not known" in said


def test_many_are_cut_short_those_that_hang_first() -> None:
    rows = [opened(first_offset=n, last_offset=n, hangs_because=None) for n in range(10, 30)]
    rows.append(opened(first_offset=40, last_offset=40))
    text = told(alone(open_transactions=rows))
    listed = [line.split(":")[0] for line in text.splitlines() if line.startswith("  - Offset")]
    assert listed == ["  - Offset 40", *(f"  - Offset {n}" for n in range(10, 19))]
    assert "11 more transactions in the table open_transactions" in " ".join(text.split())


def test_hostile_names_are_shown_as_escapes() -> None:
    row = opened(transactional_id="a\x1b[31m", waiting_groups=["b\nc"])
    text = told(alone(open_transactions=[row]))
    assert "\x1b" not in text
    made = page(row)
    assert made.hanging
    assert not {"\x1b", "\n"} & set(_said(made.hanging))


def test_a_list_of_findings_says_it_in_short() -> None:
    row = {name: value for name, value in opened(may_be_committed=True, waiting_groups=("g",)).items() if name not in KEYS}
    one = HangingTransaction(**row)
    alone_, save = in_short([one], "orders", 0)
    assert alone_.startswith("why: its coordinator completed it")
    assert alone_.endswith("Group g has committed there: with read_committed it is stuck.")
    assert save.startswith("save first: ")
    end, line = list(in_short([replace(one, may_be_committed=False)], "orders", 0))[1:]
    assert end == "to end it:"
    assert line == "kafka-transactions.sh --bootstrap-server BROKER:PORT abort --topic orders --partition 0 --start-offset 10"
    assert isinstance(line, CommandLine)
    assert next(iter(in_short([one, one], "orders", 0))).startswith("why the first: ")


def gap(**changed: Any) -> Row:
    return (
        KEYS
        | {
            "broker_id": 1,
            "producer_id": 7,
            "producer_epoch": 0,
            "sequence_before": 4,
            "sequence_after": 9,
            "missing_records": 4,
            "last_offset_before": 4,
            "first_offset_after": 8,
            "written_after": BEGAN,
            "written_before": BEGAN + timedelta(minutes=1),
            "is_certain": True,
            "doubt": None,
            "held_by": [],
        }
        | changed
    )


def test_gaps_on_the_page_and_in_the_explanation() -> None:
    tables = alone(sequence_gaps=[gap(), gap(first_offset_after=20, doubt="time-unknown", is_certain=False, sequence_before=None)])
    said = words(tables)
    assert "last sequence 4 at offset 4, next 9 at offset 8, written between 2026-01-02 03:04:05 and 2026-01-02 03:05:05 UTC" in said
    made = section(page_data().report, explain(TablesInMemory(tables), Question(topic="orders", partition=0)), "orders-0", "")
    shown = _said(made.told)
    assert shown.startswith(
        "Records missing from producers' sequences 4 records of producer 7 (epoch 0): last sequence 4 at offset 4, next 9"
    )
    assert "certain, and no replica has them" in shown
    assert "last sequence none in this epoch" in shown


class Lists:
    """Rows as a run has them."""

    def __init__(self, transactions: list[Row], gaps: list[Row]) -> None:
        self.transactions, self.gaps = transactions, gaps

    def findings(self, statuses: tuple[str, ...], *, acknowledged: bool = False) -> Iterator[Row]:
        yield from ()

    def open_transactions(self) -> list[Row]:
        return self.transactions

    def sequence_gaps(self) -> list[Row]:
        return self.gaps


def test_as_json() -> None:
    written = json.loads("".join(json_pieces(page_data().report, Lists([opened()], [gap(), gap()]))))
    assert [row["began_at"] for row in written["open_transactions"]] == [BEGAN.isoformat()]
    assert [row["missing_records"] for row in written["sequence_gaps"]] == [4, 4]
    assert list(written)[-6:] == ["open_transactions", "sequence_gaps", "acknowledged", "findings", "unconfirmed", "resolved"]
    empty = json.loads("".join(json_pieces(page_data().report, Lists([], []))))
    assert (empty["open_transactions"], empty["sequence_gaps"]) == ([], [])
