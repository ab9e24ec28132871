"""What comparing the records of a pair gave, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from replica_audit.partition.pairs.pair import Measured, Pair, PairKeys
from replica_audit.partition.pairs.shown_keys import ShownKeys, shown_keys
from replica_audit.protocol.comparison.compaction import KeyRecord, RecordComparison
from replica_audit.tables.compaction import CompactionDifference, SurvivingRecord
from replica_audit.tables.runs import ReportedProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRows:
    """Rows of `compaction_differences`, and what could not be read again to show keys."""

    differences: tuple[CompactionDifference, ...]
    problems: tuple[ReportedProblem, ...]


def record_rows(pair: Pair, measured: Measured, *, show_keys: bool) -> RecordRows:
    """The rows of a pair whose records were compared; none of one whose were not.

    Args:
        pair: of two replicas.
        measured: the same.
        show_keys: whether keys may be shown as text.
    """
    found = measured.comparison.records
    shown = shown_keys(pair, found) if show_keys else ShownKeys(texts={})
    return RecordRows(
        differences=tuple(_differences(pair.keys, found, shown.texts)),
        problems=tuple(ReportedProblem.of(one.broker_id, one.problem) for one in shown.unread),
    )


def _differences(keys: PairKeys, found: RecordComparison | None, texts: Mapping[tuple[int, int], str]) -> Iterator[CompactionDifference]:
    for differing in found.found if found else ():
        for one in differing.worst:
            yield CompactionDifference(
                topic=keys.topic,
                partition=keys.partition,
                leader_id=keys.leader_id,
                follower_id=keys.follower_id,
                cause=str(differing.cause),
                broker_id=differing.broker_id,
                key_hash=one.shown_hash,
                leader=_surviving(one.leader),
                follower=_surviving(one.follower),
                key=texts.get((one.key_high, one.key_low)),
            )


def _surviving(record: KeyRecord | None) -> SurvivingRecord | None:
    if record is None:
        return None
    return SurvivingRecord(offset=record.offset, timestamp_ms=record.timestamp_ms, is_tombstone=record.is_tombstone)
