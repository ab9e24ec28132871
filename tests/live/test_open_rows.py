"""The comparison of `hanging` fires where the audit and the brokers differ, and only there. No broker is started here."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.kafka_lab.hanging import Known, Led, Living, Open, OpenOn
from tests.kafka_lab.open_rows import commands, compare

_AT_MS = 1_700_000_000_000
_HANGS, _GOES_ON = Open("orders", 0, 7, 4), Open("orders", 0, 8, 6)
_SAID = Living(
    hanging=frozenset({_HANGS}),
    hanging_long=frozenset({_HANGS}),
    open=frozenset(OpenOn(one, broker, 3, _AT_MS) for one in (_HANGS, _GOES_ON) for broker in (1, 2)),
    coordinators=frozenset(
        {Known("a", 7, 4, "TransactionState.COMPLETE_COMMIT", 60_000, -1, ()), Known("b", 8, 3, "ONGOING", 60_000, 5, ())}
    ),
    led=frozenset({Led("orders", 0, 1, 0, 4, 9), Led("quiet", 0, 1, 0, 5, 5)}),
)


def _row(one: Open, name: str, state: str, epoch: int, because: str | None) -> dict[str, Any]:
    return {
        **one._asdict(),
        "first_offset": one.start_offset,
        "last_offset": one.start_offset + 1,
        "producer_epoch": 3,
        "last_written_at": datetime.fromtimestamp(_AT_MS / 1000, UTC),
        "last_stable_offset": 4,
        "transactional_id": name,
        "coordinator_state": state,
        "coordinator_epoch": epoch,
        "timeout_ms": 60_000,
        "hangs_because": because,
        "elsewhere": [{"broker_id": 2, "standing": "open"}],
    }


_ROWS = [_row(_HANGS, "a", "CompleteCommit", 4, "past-timeout"), _row(_GOES_ON, "b", "Ongoing", 3, None)]


_LOGS = [{"topic": "orders", "partition": 0, "broker_id": broker, "log_start_offset": 0} for broker in (1, 2)]


def _wrong(rows: list[dict[str, Any]], said: Living = _SAID, *, tells_time: bool = True) -> list[str]:
    return compare({"open_transactions": rows, "replica_logs": _LOGS}, said, tells_time=tells_time).wrong


def test_what_is_equal_differs_in_nothing() -> None:
    assert not _wrong(_ROWS)
    assert not _wrong([_ROWS[0] | {"hangs_because": None}, _ROWS[1]], tells_time=False), "copies do not say when they were taken"
    told = compare({"open_transactions": _ROWS, "replica_logs": _LOGS}, _SAID, tells_time=True).counts
    assert told["long told by find-hanging, past-timeout"] == told["not told by find-hanging, left open"] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"hangs_because": None},
        {"first_offset": 3},
        {"producer_epoch": 2},
        {"last_stable_offset": 5},
        {"last_written_at": datetime.fromtimestamp(_AT_MS / 1000 + 1, UTC)},
        {"coordinator_state": "Ongoing"},
        {"transactional_id": None},
        {"elsewhere": [{"broker_id": 2, "standing": "finished"}]},
    ],
)
def test_a_row_that_is_not_as_the_brokers_say_is_told(change: dict[str, Any]) -> None:
    assert _wrong([_ROWS[0] | change, _ROWS[1]])


def test_what_only_one_side_has_is_told() -> None:
    assert len(_wrong(_ROWS[:1])) == 1
    assert len(_wrong([*_ROWS, _row(Open("quiet", 0, 9, 1), "c", "Ongoing", 3, None)])) == 1
    assert len(_wrong([_ROWS[0], _ROWS[1] | {"hangs_because": "coordinator-went-on"}])) == 1, "find-hanging does not tell it"
    stands = replace(_SAID, led=_SAID.led | {Led("quiet", 1, 1, 0, 3, 5)})
    assert len(_wrong(_ROWS, stands)) == 1


def test_below_the_log_start_a_collection_cannot_tell_what_is_remembered() -> None:
    """And of a log start inside of a batch the leader gives the base offset of that."""
    said = replace(_SAID, led=frozenset({Led("orders", 0, 1, 6, 5, 9)}))
    rows = [row | {"last_stable_offset": 6} for row in (_ROWS[0] | {"hangs_because": None}, _ROWS[1])]
    assert not _wrong(rows, said)
    forgotten = replace(said, open=frozenset(one for one in said.open if one.open != _HANGS), hanging=frozenset(), hanging_long=frozenset())
    assert not _wrong(rows, forgotten)
    assert _wrong(rows, replace(forgotten, led=frozenset({Led("orders", 0, 1, 0, 6, 9)})))


def test_the_lines_of_a_report_are_found_however_it_wraps_them() -> None:
    line = "kafka-transactions.sh --bootstrap-server BROKER:PORT abort\n   --topic orders --partition 0\n --start-offset 4"
    assert commands(f"to end it: {line}, then more; again {line}") == [
        ["abort", "--topic", "orders", "--partition", "0", "--start-offset", "4"]
    ]
    assert not commands("kafka-transactions.sh find-hanging")
