"""Vectors about one epoch table: operations, lookups, tables rebuilt from batches, truncation inside a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from replica_audit.protocol.epochs import epoch_table as et
from replica_audit.protocol.epochs.replica_log import truncate_batches

Row = dict[str, Any]


def _pairs(entries: et.EpochTable) -> list[list[int]]:
    return [list(entry) for entry in entries]


def _apply(entries: et.EpochTable, op: Row, *, kip101: bool) -> tuple[et.EpochTable, Any]:
    match op["op"]:
        case "assign":
            entries = (et.kip101_assign if kip101 else et.assign)(entries, op["epoch"], op["start"])
        case "truncate_from_end":
            entries = et.truncate_from_end(entries, op["offset"])
        case "truncate_from_start":
            entries = et.truncate_from_start(entries, op["offset"])
        case "clear":
            entries = et.EMPTY
        case "end_offset_for" if kip101:
            return entries, et.kip101_end_offset_for(entries, op["epoch"], op["leo"])
        case "end_offset_for":
            return entries, list(et.end_offset_for(entries, op["epoch"], op["leo"]))
        case "epoch_for_offset":
            return entries, et.epoch_for_offset(entries, op["offset"])
        case "entries_in_range":
            return entries, _pairs(et.entries_in_range(entries, op["start"], op["end"]))
        case other:
            raise AssertionError(f"unknown op {other}")
    return entries, _pairs(entries)


def epoch_table(row: Row, _folder: Path, *, kip101: bool = False) -> None:
    expect = row["expect"]
    try:
        entries = et.table(row["table"]) if kip101 else et.load(row["table"])
    except ValueError:
        assert "load_error" in expect, "load raised"
        return
    assert "load_error" not in expect, "load did not raise"
    assert _pairs(entries) == expect["loaded"]
    results = []
    for op in row["ops"]:
        try:
            entries, result = _apply(entries, op, kip101=kip101)
        except ValueError:
            result = {"error": "raised"}
        results.append(result)
    for index, (got, want) in enumerate(zip(results, expect["results"], strict=True)):
        if isinstance(want, dict) and "error" in want:
            assert isinstance(got, dict), f"op {index}: {got} where Kafka raises"
        else:
            assert got == want, f"op {index} {row['ops'][index]}: {got}, Kafka {want}"
    assert _pairs(entries) == expect["table"]


def epoch_table_kip101(row: Row, folder: Path) -> None:
    epoch_table(row, folder, kip101=True)


def table_from_batches(row: Row, _folder: Path) -> None:
    on_disk = et.load(row.get("checkpoint") or [])
    appended, recovered = on_disk, on_disk
    for batch in row["batches"]:
        fields = (batch["leader_epoch"], batch["base_offset"], batch.get("magic", 2))
        appended = et.appended(appended, *fields)
        recovered = et.recovered(recovered, *fields)
    assert _pairs(appended) == row["expect"]["append_path"]
    assert _pairs(recovered) == row["expect"]["recovery_path"]


def batch_truncation(row: Row, _folder: Path) -> None:
    ranges = [(b["base_offset"], b["last_offset"]) for b in row["batches"]]
    entries = et.EMPTY
    for batch in row["batches"]:
        entries = et.appended(entries, batch["leader_epoch"], batch["base_offset"], batch.get("magic", 2))
    ranges, log_end_offset = truncate_batches(ranges, row["truncate_to"])
    entries = et.truncate_from_end(entries, log_end_offset)
    then = row.get("then")
    if isinstance(then, dict) and "append" in then:
        for batch in then["append"]:
            ranges.append((batch["base_offset"], batch["last_offset"]))
            entries = et.appended(entries, batch["leader_epoch"], batch["base_offset"], batch.get("magic", 2))
            log_end_offset = batch["last_offset"] + 1
    elif then == "restart":
        log_end_offset = ranges[-1][1] + 1 if ranges else row["batches"][0]["base_offset"]
        entries = et.truncate_from_end(entries, log_end_offset)
    else:
        assert then is None, f"unknown continuation {then}"
    expect = row["expect"]
    assert log_end_offset == expect["log_end_offset"]
    assert [list(r) for r in ranges] == expect["batches"]
    assert _pairs(entries) == expect["table"]
