"""Records that a start removes in words: how many, which of them were committed, and how their transactions ended."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.rows.pair_structs import RecordsByTransaction
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.words import count


def lost_text(records: int, committed: int | None, split: RecordsByTransaction | None) -> str:
    """So many lost records: transaction markers are counted apart, for no consumer ever gets them.

    Args:
        records: that are lost, markers among them.
        committed: offsets that are proven to have been committed; None if that is not known.
        split: the records by transaction; None if that is not known.
    """
    markers = 0 if split is None else split.markers
    said = [count(records - markers, "record")] if records > markers or not markers else []
    said += [count(markers, "transaction marker")] if markers else []
    proven = [f"{committed if committed <= records - markers else count(committed, 'offset')} committed"] if committed else []
    kinds = [] if split is None or (split.is_plain and committed is not None) else [", ".join(_kinds(split))]
    parts = "; ".join([*filter(None, kinds), *proven])
    return f"{' and '.join(said)}{f' ({parts})' if parts else ''}"


def of_transactions(verdict: ReplicaVerdict) -> str | None:
    """What a follower loses, by transaction; None where none of it is known to be of one."""
    split = verdict.lost_by_transaction
    return None if split is None or split.is_plain else lost_text(split.total, 0, split)


def _kinds(split: RecordsByTransaction) -> Iterator[str]:
    numbers = (
        (split.committed, "of committed transactions"),
        (split.plain, "plain"),
        (split.aborted, "aborted"),
        (split.open, "open"),
        (split.unknown, "unknown"),
    )
    for number, kind in numbers:
        if number:
            yield f"{number} {kind}"
