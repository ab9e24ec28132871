"""What an operator does where the batches of two logs are not the same though their offsets and epochs are."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.report.facts.explanation import Explanation


def rebatched(refetch: str) -> Iterator[str]:
    """Logs with the same records in other batches; `refetch`: how the follower fetches again."""
    yield (
        "The records need no repair: they are the same on both, and consumers see no difference whichever replica leads. "
        "But replication never rewrites batches."
    )
    yield (
        "Find out what did: files that were restored from elsewhere or by a tool, or an unnoticed truncation, after which the "
        "producer sent the same records again."
    )
    yield f"To get the same bytes on both: {refetch}."


def content_mismatch(explanation: Explanation, refetch: str) -> Iterator[str]:
    """Logs of equal offsets and epochs with other bytes."""
    yield (
        "No truncation removes this: offsets and epochs agree, and the broker that wrote other bytes will serve them as soon as it leads. "
        "Neither copy is the right one by itself; the leader's is what consumers read now."
    )
    yield f"Read both batches{_places(explanation)} and copy both directories away before you change anything."
    yield f"Then let the follower take the leader's version, or the reverse: {refetch}."
    yield (
        "Find the cause: truncation by high watermark (inter.broker.protocol.version below 0.11), a leader that lost its tail and came "
        "back without an election, or files that were changed by hand or restored from a backup."
    )


def _places(explanation: Explanation) -> str:
    """How to print what differs: the files and where in them."""
    found = explanation.verdict.mismatch
    sides = [side for side in (found.leader, found.follower) if side is not None and side.byte_offset is not None] if found else []
    if not sides:
        return " (kafka-dump-log.sh --print-data-log)"
    files = " and ".join(f"--files {side.path}, position {side.byte_offset}" for side in sides)
    return f" (kafka-dump-log.sh --print-data-log {files})"
