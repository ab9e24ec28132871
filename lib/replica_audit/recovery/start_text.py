"""What a start does to a replica, in words: why it is not safe, and which records it removes, by commitment and transaction."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.rows.pairs import RecordsByTransaction, ReplicaVerdict
from replica_audit.rows.starts import StartBecause
from replica_audit.words import count

SAID_OF = {
    StartBecause.TORN_END: "ends in half a batch after a clean stop: what is appended behind cannot be read",
    StartBecause.DOES_NOT_LOAD: "its log is damaged",
    StartBecause.BECOMES_STRAY: "its log is set aside (-stray)",
    StartBecause.DELETES: "a log with -delete, which the start deletes, has records that nobody else holds",
    StartBecause.OTHERS_TRUNCATE: "it leads at once, and running followers truncate what it does not hold: elect one of those that hold it",
    StartBecause.CANNOT_FOLLOW: "never catches up",
    StartBecause.STAYS_DIVERGED: "stays diverged, and Kafka does not notice",
    StartBecause.OTHER_RECORDS: "holds other records than the leader at the same offsets",
}
"""What is said of a replica whose broker is not to start as it is."""


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
