"""What is told of a partition as a whole: once, after the last follower, and of one that has no follower."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from replica_audit.report.facts.explanation import explain
from replica_audit.report.facts.question import Question
from replica_audit.report.text.explanation_text import render
from tests.protocol.logs import compare, replica
from tests.report.audited import KEYS, Row, TablesInMemory, run_row, tables_of

ASKED = Question(topic="orders", partition=0)
BEGAN = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


def told(tables: dict[str, list[Row]], location: str = "warehouse", **asked: Any) -> str:
    text = render(explain(TablesInMemory(tables, location), dataclasses.replace(ASKED, **asked)))
    assert text.isascii()
    is_typed = re.compile(r"    kafka-\S+\.sh ")  # a command is never broken
    assert all((len(line) <= 80 or is_typed.match(line)) and line == line.rstrip() for line in text.splitlines())
    return text


def words(tables: dict[str, list[Row]], **asked: Any) -> str:
    return " ".join(told(tables, **asked).split())


def line(text: str, begin: str) -> list[str]:
    """The words of the one line that begins with these."""
    (found,) = (one.split() for one in text.splitlines() if " ".join(one.split()).startswith(begin))
    return found


def alone(**tables: list[Row]) -> dict[str, list[Row]]:
    """A run in which the partition has no follower."""
    return {"audit_runs": [run_row()], "replica_verdicts": [], "replica_logs": [], **tables}


def pair(**tables: list[Row]) -> dict[str, list[Row]]:
    """A follower that is cut, and more of its partition."""
    leader = replica(1, [(0, 0, 9), (2, 10, 19)], high_watermark=20)
    return tables_of(compare(leader, replica(2, [(0, 0, 14)], high_watermark=10, alive=False))) | tables


def role(broker: int, **changed: Any) -> Row:
    return (
        KEYS
        | {
            "broker_id": broker,
            "leader_id": 1,
            "leader_epoch": 2,
            "known_leader_id": 1,
            "known_leader_epoch": 2,
            "standing": "leader" if broker == 1 else "follower",
            "fetch_error": None,
            "in_isr": True,
            "in_elr": False,
            "fenced": False,
            "log_end_offset": 20,
            "high_watermark": 19,
            "isr_objection": None,
        }
        | changed
    )


def election(epoch: int, kind: str = "clean", **changed: Any) -> Row:
    return (
        KEYS
        | {
            "leader_epoch": epoch,
            "leader_id": 1 + epoch % 2,
            "election": kind,
            "began_at": BEGAN + timedelta(seconds=epoch),
            "start_offset": 10 * epoch,
            "given_up_offsets": None,
            "given_up_held_by": None,
        }
        | changed
    )


def impact(group: str, **changed: Any) -> Row:
    return (
        KEYS
        | {
            "group_id": group,
            "committed_offset": 15,
            "committed_leader_epoch": 0,
            "validation_result": "truncated",
            "reset_offset": 10,
            "nearest_offset": 10,
            "records_gone": 5,
            "records_reread": 0,
            "records_missed": 0,
            "history_rewritten": False,
            "affected": True,
            "reason": "truncated: the leader's epoch 0 ends at 10",
        }
        | changed
    )


def choice(broker: int, rank: int | None, **changed: Any) -> Row:
    return (
        KEYS
        | {
            "candidate_id": broker,
            "rank": rank,
            "is_leader": broker == 1,
            "in_isr": broker == 1,
            "last_epoch": 2,
            "log_end_offset": 20,
            "lost_bytes": 0,
            "followers_cut": 0,
            "followers_restarted": 0,
            "reason": "nothing is lost",
        }
        | changed
    )


def future(**changed: Any) -> Row:
    return (
        KEYS
        | {
            "broker_id": 1,
            "log_dir": "/logs/broker-1/data",
            "future_log_dir": "/logs/broker-1/data-2",
            "directory": "orders-0.0123-future",
            "protocol": "kip-279",
            "verdict": "lagging",
            "severity": "none",
            "lag_offsets": 7,
            "truncation_offset": None,
            "restart_offset": None,
            "removed_records": 0,
            "reason": "a clean prefix of the leader, 7 offsets behind",
        }
        | changed
    )


def test_it_is_told_once_after_the_last_follower() -> None:
    tables = pair(replica_roles=[role(1), role(2)], leader_epochs=[election(0, "created")])
    tables["replica_verdicts"].append(tables["replica_verdicts"][0] | {"follower_id": 3, "verdict": "inconclusive"})
    text = told(tables)
    heads = [part.splitlines()[0] for part in text.split(f"{'=' * 80}\n")]
    assert heads == ["orders-0: follower 2 of leader 1", "orders-0: follower 3 of leader 1", "orders-0: the partition"]
    assert told(tables, follower_id=3).count("orders-0: the partition\n\nThe replicas (broker 1 leads in epoch 2)\n") == 1


def test_a_warehouse_without_these_tables_tells_nothing_of_it() -> None:
    text = told(pair())
    assert ": the partition" not in text
    assert "=" * 80 not in text


def test_tables_without_rows_tell_nothing() -> None:
    assert told(pair(replica_roles=[], leader_epochs=[], consumer_impacts=[], what_if_leaders=[], future_replicas=[])) == told(pair())


def test_a_partition_with_one_replica_is_explained() -> None:
    text = told(alone(replica_roles=[role(1)]))
    assert text.startswith(
        "orders-0: the partition\n"
        "  There is no follower to explain: only broker 1 has a replica.\n"
        "  cluster   c\n"
        "  run       first of 2026-01-02\n"
        "  tables in warehouse\n\n"
        "The replicas (broker 1 leads in epoch 2)\n"
    )
    assert line(text, "1 leader") == ["1", "leader", "ISR", "no", "20", "19", "2", "1"]


def test_a_partition_without_a_replica_says_so() -> None:
    said = words(alone(consumer_impacts=[impact("g", validation_result="unknown", affected=None, reset_offset=None, records_gone=None)]))
    assert "There is no follower to explain: the input holds none of its replicas." in said
    assert "1 group with a committed offset: 1 unknown." in said
    assert "g 15 0 unknown ? ? 0 0 10" in said


def test_roles_tell_who_is_what_and_who_should_not_be_in_the_isr() -> None:
    roles = [
        role(3, standing="zombie-follower", in_isr=False, known_leader_epoch=1, fetch_error="FENCED_LEADER_EPOCH"),
        role(2, isr_objection="its broker is fenced", fenced=True),
        role(1),
        role(4, standing="down", in_isr=False, in_elr=True, fenced=None, known_leader_id=-1, log_end_offset=None, high_watermark=None),
    ]
    text = told(pair(replica_roles=roles))
    assert line(text, "1 leader ISR") == ["1", "leader", "ISR", "no", "20", "19", "2", "1"]
    assert line(text, "4 down") == ["4", "down", "ELR", "-", "-", "2", "nobody"]
    said = " ".join(text.split())
    assert "3 zombie- no 20 19 1 1 FENCED_LEADER_EPOCH follower" in said
    assert "zombie-follower: considers itself a follower, in an epoch that has ended; down: its broker does not run" in said
    assert "Broker 2 should not be in the ISR: its broker is fenced" in said
    assert "(nobody leads)" in words(pair(replica_roles=[role(1, leader_id=-1, leader_epoch=-1, standing="unknown")]))


def test_elections_stand_in_order_with_what_unclean_ones_gave_up() -> None:
    elections = [
        election(2, "unclean", given_up_offsets=5, given_up_held_by=[1, 3]),
        election(0, "created"),
        election(1, "leaderless", leader_id=-1, start_offset=None, began_at=None),
        election(3, "unclean", given_up_offsets=0, given_up_held_by=[]),
        election(4, "unclean", start_offset=None),
    ]
    text = told(pair(leader_epochs=elections))
    assert line(text, "0 1 created") == ["0", "1", "created", "2026-01-02", "03:04:05.678", "0"]
    assert line(text, "1 nobody") == ["1", "nobody", "leaderless", "-", "-"]
    said = " ".join(text.split())
    assert "2 1 unclean 2026-01-02 03:04:07.678 20 5, held by 1, 3 3 2 unclean 2026-01-02 03:04:08.678 30 nothing held" in said
    assert "4 1 unclean 2026-01-02 03:04:09.678 - not known 3 unclean elections. Lost in it:" in said
    clean = words(pair(leader_epochs=[election(0, "created")]))
    assert "lost in it" not in clean.lower()


def test_a_long_history_keeps_its_ends_and_the_last_unclean_elections() -> None:
    elections = [election(epoch, "unclean" if epoch in (20, 50) else "clean", given_up_offsets=0) for epoch in range(400)]
    text = told(pair(leader_epochs=elections))
    shown = text[text.index("Elections in the metadata log") :].split("2 unclean elections")[0]
    starts = [one.split()[0] for one in shown.splitlines()[3:] if one.strip()]
    assert starts == ["0", "1", "2", "...", "20", "...", "50", "...", *map(str, range(393, 400))]
    assert [one.split()[1] for one in shown.splitlines() if "left out" in one] == ["17", "29", "342"]
    assert "left out" not in told(pair(leader_epochs=elections[:16]))


def test_the_worst_groups_are_told_and_the_others_counted() -> None:
    impacts = [impact(f"lesser-{number}", records_gone=number) for number in range(1, 11)]
    impacts += [impact("worst", records_gone=99), impact("spared", affected=False, validation_result="valid")]
    text = told(pair(consumer_impacts=impacts))
    said = " ".join(text.split())
    assert "12 groups with a committed offset: 11 affected, 1 not affected." in said
    assert "and 1 more in the table consumer_impacts" in said
    unkept = " ".join(told(pair(consumer_impacts=impacts), location="").split())
    assert "and 1 more (not kept; audit writes all to the table consumer_impacts)" in unkept
    groups = text[text.index("Consumer groups") :]
    rows = [one.split()[0] for one in groups.splitlines() if "truncated  " in one]
    assert rows == ["worst", *(f"lesser-{number}" for number in range(10, 1, -1))]
    assert "spared" not in text
    assert "- worst, lesser-10, lesser-9, lesser-8, lesser-7 and 5 more: truncated:" in said


def test_what_cannot_be_told_of_a_group_is_not_told_as_nothing() -> None:
    impacts = [
        impact(
            "no-epoch",
            committed_leader_epoch=-1,
            validation_result="not-validated",
            reset_offset=None,
            nearest_offset=None,
            records_missed=3,
        ),
        impact("rewritten", validation_result="valid", history_rewritten=True, records_gone=None, records_missed=None),
        impact("perhaps", affected=None, records_gone=None),
    ]
    said = words(pair(consumer_impacts=impacts))
    assert "3 groups with a committed offset: 2 affected, 1 unknown." in said
    assert "no-epoch 15 none not- policy 5 0 3 - validated" in said
    assert "rewritten 15 0 valid, 10 ? 0 ? same rewritten" in said
    assert said.index(" no-epoch 15") < said.index(" rewritten 15") < said.index(" perhaps 15")


def test_groups_that_are_not_affected_are_only_counted() -> None:
    text = told(pair(consumer_impacts=[impact("g", affected=False)]))
    assert text.endswith("Consumer groups\n  1 group with a committed offset: 1 not affected.\n")


def test_large_offsets_and_long_names_fit() -> None:
    large = 123_456_789_012
    row = impact("team-" * 50, committed_offset=large, reset_offset=large, nearest_offset=large - 1, records_gone=5, records_missed=large)
    text = told(pair(consumer_impacts=[row], leader_epochs=[election(2**31 - 1, "unclean", start_offset=large, given_up_offsets=large)]))
    shown = text[text.index("Consumer groups") :].split("Offset, epoch")[0]
    assert "".join(one[2:].split("  ")[0].strip() for one in shown.splitlines()[4:]).count("team-") == 50
    assert all(len(re.findall(rf"\b{number}\b", shown)) == times for number, times in ((large, 3), (large - 1, 1)))


def test_each_replica_as_the_leader_is_ranked() -> None:
    choices = [
        choice(3, None, reason="cannot lead: it is damaged", last_epoch=-1),
        choice(
            1, 2, lost_bytes=500, followers_cut=1, followers_restarted=1, reason="9 records are lost, 0 of their offsets were committed"
        ),
        choice(2, 1, in_isr=True, lost_bytes=100, followers_cut=2, reason="4 records are lost, 0 of their offsets were committed"),
    ]
    text = told(pair(what_if_leaders=choices))
    assert line(text, "1 2 ISR")[:8] == ["1", "2", "ISR", "2", "20", "100", "2", "cut"]
    assert line(text, "2 1 leads")[:8] == ["2", "1", "leads", "2", "20", "500", "1", "cut,"]
    assert line(text, "- 3") == ["-", "3", "-", "20", "-", "-", "cannot", "lead:", "it", "is", "damaged"]
    order = [text.index(begin) for begin in ("  1     2 ", "  2     1 ", "  -     3 ")]
    assert order == sorted(order)


def test_it_is_one_sentence_where_it_does_not_matter_who_leads() -> None:
    text = told(pair(what_if_leaders=[choice(1, 1), choice(2, 2)]))
    assert text.endswith("Each replica as the leader, smallest loss first\n  Nothing is lost, whichever leads.\n")
    assert "whichever" not in told(pair(what_if_leaders=[choice(1, 1), choice(2, None, reason="cannot lead: x")]))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "a clean prefix of the leader, 7 offsets behind"),
        (
            {"verdict": "stale_tail", "severity": "warning", "reason": "truncates to 5", "truncation_offset": 5, "removed_records": 3},
            "stale_tail (warning): truncates to 5; 7 offsets behind; "
            "truncates to 5 by kip-279; 3 records of the future replica are truncated",
        ),
        ({"restart_offset": 6, "verdict": "x", "lag_offsets": 0, "reason": "r"}, "r; empties its log and starts at 6 by kip-279"),
        ({"log_dir": None}, "orders-0.0123-future, from a log directory that is not in the input to broker-1/data-2: lagging (none):"),
    ],
)
def test_moves_between_log_directories(changed: Row, said: str) -> None:
    assert said in words(pair(future_replicas=[future(**changed)]))


def test_paths_of_a_move_are_short() -> None:
    said = words(pair(future_replicas=[future()]))
    assert "broker 1: orders-0.0123-future, from broker-1/data to broker-1/data-2: lagging (none): a clean prefix" in said


def test_tables_of_the_partition_that_were_not_read_whole_are_named() -> None:
    tables = TablesInMemory(pair(replica_roles=[role(1)]))
    tables.cut_short = ["consumer_impacts"]
    text = render(explain(tables, ASKED))
    assert " ".join(text.split()).endswith("Some rows of these tables were not read: consumer_impacts. This explanation may be incomplete.")
