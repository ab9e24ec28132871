"""Whether an audit that compares records found what was planted, just where it was planted, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tests.kafka_lab.planted_records import OF_COMPACTED, Key, Kind, Planted

Row = dict[str, Any]
Tables = dict[str, list[Row]]
_CAUSES = {
    Kind.KEY_MISSING: "key-missing",
    Kind.OLD_KEY_MISSING: "key-missing-or-deleted",
    Kind.KEY_RESURRECTED: "key-resurrected",
    Kind.OTHER_VALUE: "other-value",
    Kind.TOMBSTONE_GONE: "tombstone-gone",
    Kind.MARKER_GONE: "marker-gone",
}
_MISMATCHES = {
    Kind.FLIPPED: ("content_mismatch", "other_records"),
    Kind.SPLIT: ("rebatched", "other_batching"),
    Kind.RECOMPRESSED: ("rebatched", "other_encoding"),
}


def by_follower(tables: Tables) -> dict[Key, Row]:
    """The rows of `replica_verdicts`."""
    return {(row["topic"], row["partition"], row["follower_id"]): row for row in tables["replica_verdicts"]}


def not_found(planted: Iterable[Planted], before: Tables, after: Tables) -> Iterator[str]:
    """What the audit of the copies says otherwise than was planted into them.

    Args:
        planted: at most one for a partition.
        before: the audit of the copies as they were.
        after: the audit of them with what was planted.
    """
    changed, was, now = {one.at: one for one in planted}, by_follower(before), by_follower(after)
    for key, one in changed.items():
        yield from (f"{one.kind} in {_name(key)} at {one.offset}: {text}" for text in _told(one, now[key], after["differences"]))
    for key, row in now.items():
        if key not in changed and row["verdict"] != was[key]["verdict"]:
            yield f"{_name(key)} was {was[key]['verdict']} and is {row['verdict']}, though nothing was planted there: {row['reason']}"


def _told(one: Planted, row: Row, differences: list[Row]) -> Iterator[str]:
    if one.kind in OF_COMPACTED:
        found = [
            (row["cause"], row["broker_id"], (row["leader"] or {}).get("offset"))
            for row in differences
            if (row["topic"], row["partition"], row["follower_id"]) == one.at
        ]
        causes = {_CAUSES[one.kind]}
        if one.kind is Kind.OLD_KEY_MISSING:
            causes.add("key-missing")  # proven, if the leader was in the ISR all along
        if row["verdict"] != "compaction_differs" or found not in [[(cause, one.at[2], one.offset)] for cause in causes]:
            yield f"{row['verdict']}: {row['reason']}; differences {found}"
        return
    verdict, kind = _MISMATCHES[one.kind]
    mismatch = row.get("mismatch") or {}
    at = (mismatch.get("record") or {}).get("offset") if one.kind is Kind.FLIPPED else (mismatch.get("leader") or {}).get("first_offset")
    if (row["verdict"], mismatch.get("kind"), at) != (verdict, kind, one.offset):
        yield f"{row['verdict']}: {row['reason']}; located {mismatch}"


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]} on broker {key[2]}"
