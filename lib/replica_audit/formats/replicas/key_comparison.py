"""The keys of two replicas side by side, as hashes: those that are equal pass as columns of numbers, of the others the protocol decides."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from operator import attrgetter

import numpy as np

from replica_audit.formats.replicas.keyed_records import FLAGS, HIGH, LOW, OFFSET, TIMESTAMP, VALUE, by_key, newest
from replica_audit.formats.segment.hashed_records import BROKER_TIME, MARKER, PENDING, TOMBSTONE, Rows
from replica_audit.protocol.comparison.compaction import (
    NOTHING,
    CompactionCause,
    ComparedLogs,
    KeyDifference,
    KeyRecord,
    KeyState,
    key_difference,
    marker_difference,
)
from replica_audit.protocol.comparison.differing_keys import MOST_KEYS, DifferingKey, DifferingKeys

_Key = tuple[int, int]


def compare_keys(logs: ComparedLogs, leader: Rows, follower: Rows) -> list[DifferingKeys]:
    """The keys in which a pair differs.

    Args:
        logs: the pair.
        leader: rows (`hashed_records.ROW`) of the leader, all that there are of the keys that are compared.
        follower: those of the follower.
    """
    sides = [rows[rows[:, OFFSET] < log.end_offset] for rows, log in ((leader, logs.leader), (follower, logs.follower))]
    is_marker = [rows[:, FLAGS] & MARKER != 0 for rows in sides]
    markers, records = ([rows[wanted] for rows, wanted in zip(sides, which, strict=True)] for which in (is_marker, [~m for m in is_marker]))
    kept = [_without_undecided(own, other, logs.end_offset) for own, other in (records, records[::-1])]
    differences = (*_of_keys(logs, *kept), *_of_markers(logs, *markers))
    counts: Counter[tuple[CompactionCause | None, int]] = Counter()
    found: defaultdict[tuple[CompactionCause | None, int], list[DifferingKey]] = defaultdict(list)
    for key, one in differences:
        counts[one.cause, one.broker_id] += 1
        found[one.cause, one.broker_id].append(DifferingKey(*key, one.leader, one.follower))
        if len(found[one.cause, one.broker_id]) > 10 * MOST_KEYS:
            found[one.cause, one.broker_id] = nsmallest(MOST_KEYS, found[one.cause, one.broker_id], key=attrgetter("offset"))
    return [
        DifferingKeys(*why, counts[why], tuple(nsmallest(MOST_KEYS, keys, key=attrgetter("offset")) if why[0] else ()))
        for why, keys in found.items()
    ]


def _without_undecided(own: Rows, other: Rows, end_offset: int) -> Rows:
    """Without the records of transactions whose end was not found, except those that the other replica holds, too.

    There the other segment tells how the transaction ended, or neither does: then they are the same on both. Those beyond the end of the
    comparison stay as well: such a record may have replaced an older one of its key.
    """
    undecided = own[:, FLAGS] & PENDING != 0
    return own[~undecided | (own[:, OFFSET] >= end_offset) | np.isin(own[:, OFFSET], other[:, OFFSET])] if undecided.any() else own


def _of_keys(logs: ComparedLogs, leader: Rows, follower: Rows) -> Iterator[tuple[_Key, KeyDifference]]:
    bounds = np.array([logs.end_offset], np.int64)
    sides = [newest(rows, bounds) for rows in (leader, follower)]
    below = [rows[rows[:, OFFSET] < logs.end_offset] for rows in sides]
    differing = _differing_keys(*below)
    states = [_states(rows[np.isin(_mixed(rows), differing)], logs.end_offset) for rows in sides]
    for key in sorted({*states[0], *states[1]}):
        found = key_difference(logs, states[0].get(key, NOTHING), states[1].get(key, NOTHING))
        if found is not None:
            yield key, found


def _mixed(rows: Rows) -> Rows:
    """64 bits of each key's hash, enough to choose rows by."""
    mixed: Rows = rows[:, HIGH] ^ rows[:, LOW] * 31
    return mixed


def _differing_keys(left: Rows, right: Rows) -> Rows:
    """Of two tables that hold each key once the keys whose rows are not the same in both."""
    rows = np.concatenate([left, right])
    rows = rows[by_key(rows)]
    rows[:, FLAGS] &= TOMBSTONE
    same = np.ones(max(len(rows) - 1, 0), bool)
    for column in (HIGH, LOW, OFFSET, VALUE, FLAGS):
        same &= rows[1:, column] == rows[:-1, column]
    alone = np.ones(len(rows), bool)
    alone[1:] &= ~same
    alone[:-1] &= ~same
    return np.unique(_mixed(rows[alone]))


def _states(rows: Rows, end: int) -> dict[_Key, KeyState]:
    """The rows of few keys, each of which has one below the end at most, and one above."""
    found: dict[_Key, KeyState] = {}
    for row in rows.tolist():
        key, before = (row[HIGH], row[LOW]), found.get((row[HIGH], row[LOW]), NOTHING)
        record = _record(row)
        newest_of_all = record if before.newest is None or record.offset > before.newest.offset else before.newest
        found[key] = KeyState(newest_of_all, record if record.offset < end else before.below_end)
    return found


def _record(row: list[int]) -> KeyRecord:
    return KeyRecord(row[OFFSET], row[TIMESTAMP], bool(row[FLAGS] & TOMBSTONE), row[VALUE], bool(row[FLAGS] & BROKER_TIME))


def _of_markers(logs: ComparedLogs, leader: Rows, follower: Rows) -> Iterator[tuple[_Key, KeyDifference]]:
    opened, markers = ([rows[(rows[:, FLAGS] & PENDING != 0) == wanted] for rows in (leader, follower)] for wanted in (True, False))
    for leads, rows, others, theirs in ((True, *markers, opened[1]), (False, *markers[::-1], opened[0])):
        for row in _sorted(rows[~np.isin(rows[:, OFFSET], others[:, OFFSET])].tolist()):
            record, holds = _record(row), _holds_records(row, others, theirs)
            found = marker_difference(logs, *((record, None) if leads else (None, record)), holds_records=holds)
            if found is not None:
                yield (row[HIGH], row[LOW]), found


def _holds_records(marker: list[int], others: Rows, opened: Rows) -> bool:
    """Whether a replica that lacks a marker holds records that only this one ended: its producer's, with no other marker between."""
    before = opened[(opened[:, HIGH] == marker[HIGH]) & (opened[:, OFFSET] < marker[OFFSET])]
    if not len(before):
        return False
    last = before[:, OFFSET].max()
    return not ((others[:, HIGH] == marker[HIGH]) & (others[:, OFFSET] > last) & (others[:, OFFSET] < marker[OFFSET])).any()


def _sorted(rows: Iterable[list[int]]) -> list[list[int]]:
    return sorted(rows, key=lambda row: row[OFFSET])
