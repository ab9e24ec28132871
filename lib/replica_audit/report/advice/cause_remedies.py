"""What to do where a follower could not be compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from replica_audit.protocol.verdict.verdict import Cause
from replica_audit.report.facts.explained_rows import ExplainedVerdict


def inconclusive(verdict: ExplainedVerdict, save: str) -> Iterator[str]:
    """The steps, by the cause; `save` says how to keep the follower's files."""
    match verdict.cause:
        case Cause.NOT_COLLECTED:
            yield f"Copy the log directories of broker {verdict.follower_id}, too, and audit again."
        case Cause.LEADER_COPIED_EARLIER | Cause.FOLLOWER_COPIED_EARLIER:
            yield (
                "Copy both brokers again, at one instant if the storage has snapshots (then set simultaneous_copies: true), else the "
                "leader after the follower; and audit again."
            )
        case Cause.NO_COMMON_RANGE:
            yield (
                f"Follower {verdict.follower_id} will empty its log and start at the leader's log start. Whether it holds what the "
                "leader once held can no longer be determined."
            )
            yield f"If its records matter, {save}: nobody else may have them."
        case Cause.NO_EPOCHS:
            yield (
                "Records of the formats before v2 (message.format.version below 0.11) carry no epoch: compare the records themselves "
                "(kafka-dump-log.sh --print-data-log) where it matters."
            )
        case Cause.TEXT_NOT_WHOLE:
            yield "Dump the segment that the reason names again and keep the whole text, or copy the segment itself; and audit again."
        case Cause.LEADER_UNKNOWN:
            yield (
                "Copy the leader's log directories, too, or again. If its own files cannot be read, keep every other replica as it is "
                "until you have chosen which of them leads: the first fetch from a leader that lost its log cuts them."
            )
        case Cause.RECORDS_NOT_COMPARED:
            yield (
                "The epochs agree. To compare the records, audit the segments themselves: texts of kafka-dump-log and collections do not "
                "hold them. What the reason names as unreadable, copy again."
            )
        case Cause.DELETED_WHILE_COPIED:
            yield (
                "Retention, or DeleteRecords, deleted what was listed before it could be copied. Copy the directory again, with "
                "replica-audit collect, which looks again by itself, or while the broker is stopped; and audit again. If it still has no "
                "segment, somebody removed the files of a running broker: move its leaderships to others before you restart it."
            )
        case None:  # a run of an older version has it in its reason only
            yield "Remove what the reason names, and audit again; until then nothing is known of this follower."
        case _ as never:
            assert_never(never)
