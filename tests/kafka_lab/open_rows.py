"""What the audit says of open transactions, held against what the living brokers say of the same state."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.kafka_lab.hanging import Known, Living, Open

Row = dict[str, Any]
Tables = dict[str, list[Row]]
_COMMAND = re.compile(r"kafka-transactions\.sh --bootstrap-server BROKER:PORT (abort --topic \S+ --partition \d+ --start-offset \d+)")


@dataclass(slots=True)
class Compared:
    """What was compared: transactions that are open on leaders, and what the audit says of those that the tool tells; `wrong` differ."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __iadd__(self, other: Compared) -> Compared:
        """Add up."""
        self.counts += other.counts
        self.wrong += other.wrong
        return self


def compare(tables: Tables, said: Living, *, tells_time: bool) -> Compared:
    """Hold the rows of `open_transactions` against the brokers, and those that hang against `kafka-transactions.sh find-hanging`.

    Args:
        tables: of an audit of copies.
        said: what the brokers said of the same state.
        tells_time: whether the copies say when they were taken, as collections do: else that a transaction has outlived its time is
            not known, however long ago it was written to.
    """
    result = Compared()
    leaders = {(one.topic, one.partition): one for one in said.led}
    opened = {(*one.open, one.producer_epoch): one for one in said.open if _leads(leaders, one.open, one.broker_id)}
    rows = {(*_open(row), row["producer_epoch"]): row for row in tables["open_transactions"] if (row["topic"], row["partition"]) in leaders}
    result.wrong += [f"open on its leader, and the audit has no row: {key}" for key in opened.keys() - rows.keys()]
    # whether a broker remembers one that lies below its log start is told by producer snapshots, which no collection has
    gone = [key for key in rows.keys() - opened.keys() if rows[key]["last_offset"] >= leaders[key[:2]].start_offset]
    result.wrong += [f"the audit has a row, and it is not open on its leader: {key}" for key in gone]
    starts = {(row["topic"], row["partition"], row["broker_id"]): row["log_start_offset"] for row in tables["replica_logs"]}
    known = {one.producer_id: one for one in said.coordinators}
    for key in rows.keys() & opened.keys():
        row, place = rows[key], leaders[key[:2]]
        result.wrong += [f"{key}: {text}" for text in _facts(row, known.get(row["producer_id"]))]
        if _milliseconds(row["last_written_at"]) != opened[key].last_timestamp_ms:
            result.wrong.append(f"{key}: last_written_at {row['last_written_at']}, by its leader {opened[key].last_timestamp_ms}")
        # of a log start inside of a batch a broker gives the base offset of that
        if row["last_stable_offset"] != max(place.start_offset, place.last_stable_offset):
            result.wrong.append(f"{key}: last_stable_offset {row['last_stable_offset']}, its leader gives {place.last_stable_offset}")
        result.wrong += [f"{key}: {text}" for text in _elsewhere(row, said, starts)]
    stuck = {(row["topic"], row["partition"]) for row in rows.values()}
    result.wrong += [
        f"{one.topic}-{one.partition} stands still at {one.last_stable_offset}, and the audit has nothing open there"
        for one in said.led
        if one.last_stable_offset < one.end_offset and (one.topic, one.partition) not in stuck
    ]
    result += _hanging(rows, {key[:4] for key in opened}, said, tells_time=tells_time)
    result.counts["open"] += len(opened)
    return result


def _hanging(rows: dict[tuple[Any, ...], Row], opened: set[tuple[Any, ...]], said: Living, *, tells_time: bool) -> Compared:
    result, starts = Compared(), {(one.topic, one.partition): one.start_offset for one in said.led}
    for key, row in rows.items():
        at, because = Open(*key[:4]), row["hangs_because"]
        if at not in opened:
            continue
        told = "long" if at in said.hanging_long else "young" if at in said.hanging else None
        result.counts[f"{told or 'not'} told by find-hanging, {because or 'left open'}"] += 1
        if because and not told:
            result.wrong.append(f"{key}: the audit says that it hangs ({because}), find-hanging does not")
        is_below = row["last_offset"] < starts[key[:2]]
        result.counts["below the log start"] += is_below
        if told == "long" and tells_time and not because and not is_below:
            result.wrong.append(f"{key}: find-hanging tells it, the audit does not say that it hangs: {row}")
    return result


def _leads(leaders: dict[tuple[str, int], Any], at: Open, broker: int) -> bool:
    place = leaders.get((at.topic, at.partition))
    return place is not None and place.leader_id == broker


def _open(row: Row) -> Open:
    return Open(row["topic"], row["partition"], row["producer_id"], row["first_offset"])


def _facts(row: Row, known: Known | None) -> Iterator[str]:
    """The coordinator's words; those of a producer id that it does not know any more are none."""
    ours = (row["transactional_id"], row["coordinator_state"], row["coordinator_epoch"], row["timeout_ms"])
    state = "".join(word.capitalize() for word in known.state.rpartition(".")[2].split("_")) if known else None
    theirs = (known.transactional_id, state, known.producer_epoch, known.timeout_ms) if known else (None,) * 4
    if ours != theirs:
        yield f"of its coordinator the audit has {ours}, the coordinator says {theirs}"


def _elsewhere(row: Row, said: Living, starts: dict[tuple[str, int, int], int]) -> Iterator[str]:
    """Followers that run: what stands open there by their own word. The row tells of their logs: of one below the log start too."""
    asked = {one.broker_id for one in said.open} | {one.leader_id for one in said.led}
    held = {(one.open.topic, one.open.partition, one.open.producer_id, one.broker_id) for one in said.open}
    for other in row["elsewhere"]:
        is_open = (row["topic"], row["partition"], row["producer_id"], other["broker_id"]) in held
        is_below = row["last_offset"] < starts[row["topic"], row["partition"], other["broker_id"]]
        if other["broker_id"] in asked and not is_below and is_open != (other["standing"] == "open"):
            yield f"{other['standing']} on broker {other['broker_id']}, which {'holds' if is_open else 'does not hold'} it open"


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def commands(report: str) -> list[list[str]]:
    """The lines in a report that end what hangs: the words after the address."""
    return sorted(line.split() for line in set(_COMMAND.findall(" ".join(report.split()))))
