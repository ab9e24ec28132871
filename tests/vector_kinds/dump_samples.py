"""Vectors of one segment, its batches as Kafka sees them, and what the kafka-dump-log of several versions prints of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from replica_audit.errors import DumpLogError
from replica_audit.formats.dump import dump_log
from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.model import BatchHeader, Damage

Row = dict[str, Any]
FIELDS = {
    "position": "position",
    "base_offset": "base_offset",
    "last_offset": "last_offset",
    "size": "size_bytes",
    "magic": "magic",
    "leader_epoch": "leader_epoch",
    "crc": "crc",
    "valid": "crc_valid",
    "codec": "codec",
    "transactional": "is_transactional",
    "control": "is_control",
    "max_timestamp": "max_timestamp_ms",
    "producer_id": "producer_id",
    "producer_epoch": "producer_epoch",
    "base_sequence": "base_sequence",
    "records": "record_count",
}
# What early versions do not print: isControl up to 2.0.0, count up to 1.1.
PRINTED_AS = {"control": b"isControl: ", "records": b"count: "}
IMPOSSIBLE_LENGTH = {"zero-filled-tail", "bad-batch-length", "bad-batch-header"}


def run(row: Row, folder: Path) -> None:
    """Hold the raw segment and every text of a row against the row's batches."""
    check_raw(row, folder)
    for version, modes in row["outputs"].items():
        for mode, name in modes.items():
            check_text(row, folder, version, mode, name)


def check_raw(row: Row, folder: Path) -> None:
    """The segment itself: batches, where they end, and why."""
    segment, expect = folder / row["segment"], row["expect"]
    found, damage = _split(read_batches(segment))
    _assert_batches("raw segment", found, expect["batches"], set())
    _assert_ending("raw segment", damage, expect)
    whole = segment.stat().st_size == expect["valid_bytes"]
    assert (damage is None) == whole, f"raw segment: {damage}, valid bytes {expect['valid_bytes']}"


def check_text(row: Row, folder: Path, version: str, mode: str, name: str) -> None:
    """One text: batches and ending as in the segment, as far as this version and mode tell them; else the error that names the remedy."""
    where, expect = f"{version} {mode}", row["expect"]
    path = text_path(folder, row["segment"], name)
    text = path.read_bytes()
    assert dump_log.looks_like_dump(text[:4096]), f"{where}: not recognised as a dump"
    try:
        with path.open("rb") as stream:
            found_sections = list(dump_log.sections(stream))
            assert len(found_sections) == 1, f"{where}: {len(found_sections)} sections instead of one"
            found, damage = _split(dump_log.batches(stream, found_sections[0]))
    except DumpLogError as error:
        assert _tells_no_batches(version, mode, expect["batches"]), f"{where}: {error}"
        assert "again" in error.reason, f"{where}: the error names no remedy: {error}"
        assert error.line is not None, f"{where}: the error names no line: {error}"
        return
    unprinted = {key for key, label in PRINTED_AS.items() if label not in text}
    wanted = expect["batches"]
    if mode != "shallow" and len(found) < len(wanted):
        # deep iteration dies at the records of a batch with a wrong CRC; whether stderr was captured or not
        first_bad = next((i for i, batch in enumerate(wanted) if not batch["valid"]), len(wanted))
        assert len(found) > first_bad, f"{where}: {len(found)} of {len(wanted)} batches"
        _assert_batches(where, found, wanted[: len(found)], unprinted)
        return
    _assert_batches(where, found, wanted, unprinted)
    if expect["fatal"] and damage is None:
        assert b"Exception" not in text, f"{where}: the error in the text is overlooked"
    elif mode != "print-data-log" or damage is None or damage.code != "dump-malformed":  # contents may look like a batch behind a hole
        _assert_ending(where, damage, expect)


def text_path(folder: Path, segment: str, name: str) -> Path:
    """Where a text is: its name is relative to the vectors' folder, or to the folder of all samples above the segment's."""
    candidates = (folder / name, (folder / segment).parent.parent / name)
    return next((path for path in candidates if path.exists()), candidates[0])


def _split(items: Iterable[BatchHeader | Damage]) -> tuple[list[BatchHeader], Damage | None]:
    everything = list(items)
    damages = [item for item in everything if isinstance(item, Damage)]
    assert damages == [item for item in everything[-1:] if isinstance(item, Damage)], f"damage that is not the last item: {damages}"
    return [item for item in everything if isinstance(item, BatchHeader)], damages[0] if damages else None


def _tells_no_batches(version: str, mode: str, wanted: list[Row]) -> bool:
    """Record lines replace batch lines before 2.2; 0.10 knows no magic 2."""
    number = tuple(int(part) for part in version.split(".")[:2])
    return (mode != "shallow" and number < (2, 2)) or (number < (0, 11) and any(batch["magic"] == 2 for batch in wanted))


def _assert_batches(where: str, found: list[BatchHeader], wanted: list[Row], unprinted: set[str]) -> None:
    assert len(found) == len(wanted), f"{where}: {len(found)} batches instead of {len(wanted)}"
    for index, (batch, want) in enumerate(zip(found, wanted, strict=True)):
        for key in FIELDS.keys() & want.keys() - unprinted:
            got = getattr(batch, FIELDS[key])
            assert got == want[key], f"{where}: batch {index}, {key}: {got}, Kafka {want[key]}"


def _assert_ending(where: str, damage: Damage | None, expect: Row) -> None:
    trailing = expect["invalid_trailing_bytes"]
    if not trailing and not expect["fatal"]:
        assert damage is None, f"{where}: {damage} in a whole segment"
        return
    codes = IMPOSSIBLE_LENGTH if expect["fatal"] else {"torn-batch" if trailing > 17 else "trailing-bytes"}
    assert damage is not None, f"{where}: no damage found, expected one of {sorted(codes)}"
    assert damage.code in codes, f"{where}: {damage}, expected one of {sorted(codes)}"
    assert damage.byte_offset == expect["valid_bytes"], f"{where}: {damage}, valid bytes {expect['valid_bytes']}"
