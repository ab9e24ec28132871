"""What was checked and compared of a cluster's input, and what was not, in lines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from replica_audit.report.facts.run_report import Cluster, OldestCapture
from replica_audit.words import count


def checks(cluster: Cluster) -> Iterator[str]:
    """What the summary says of a cluster's collections and their CRCs, if its input is such, and of records that were not compared."""
    if cluster.oldest_capture is not None:
        yield _of_captures(cluster.oldest_capture)
    if cluster.oldest_check is not None or cluster.never_checked:
        yield _of_crcs(cluster.oldest_check, cluster.never_checked)
    if cluster.records_unread:
        yield (
            f"records of {count(cluster.records_unread, 'follower')} not compared: the input does not hold them (collections and texts); "
            "the rest was, as with --compare content. To compare records, copy the segments; else leave --compare records out"
        )


def _of_captures(oldest: OldestCapture) -> str:
    """How old the input is; nothing else shows that a collector has stopped."""
    said = f"collections: the oldest is of {_minute(oldest.captured_at)} (broker {oldest.broker_id})"
    days = oldest.days_before
    return f"{said}, {count(days, 'day')} before this run: does its collector still run?" if days > 0 else said


def _minute(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _of_crcs(oldest: datetime | None, never: int) -> str:
    """When they were last verified.

    Args:
        oldest: when that segment was verified whose last check is the longest ago; None if none was.
        never: how many replicas have a segment that never was.
    """
    parts = [] if oldest is None else [f"the oldest check is of {_minute(oldest)}"]
    if never:
        parts.append(f"of {count(never, 'replica')} not all segments were ever verified")
    return f"CRCs of collected segments: {'; '.join(parts)}"
