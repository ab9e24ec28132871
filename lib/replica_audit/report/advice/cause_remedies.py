"""What to do where a follower could not be compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from replica_audit.rows.codes import Cause
from replica_audit.rows.pairs import ReplicaVerdict


def inconclusive(verdict: ReplicaVerdict, save: str) -> Iterator[str]:  # noqa: C901 - one case for each cause
    """The steps, by the cause; `save` says how to keep the follower's files."""
    match verdict.cause:
        case Cause.NOT_COLLECTED:
            yield f"Copy the log directories of broker {verdict.follower_id}, too, and audit again."
        case Cause.LEADER_COPIED_EARLIER | Cause.FOLLOWER_COPIED_EARLIER:
            yield (
                "Copy both brokers again: from a storage snapshot of one instant (then set simultaneous_copies: true), or else the "
                "leader after the follower. Then audit again."
            )
        case Cause.NO_COMMON_RANGE:
            yield (
                f"Follower {verdict.follower_id} will empty its log and start at the leader's log start. Whether it holds what the "
                "leader once held can no longer be determined."
            )
            yield f"If its records matter, {save}: perhaps no other replica has them."
        case Cause.NO_EPOCHS:
            yield (
                "Records of the formats before v2 (message.format.version below 0.11) carry no epoch: compare the records themselves "
                "(kafka-dump-log.sh --print-data-log) if it matters."
            )
        case Cause.TEXT_NOT_WHOLE:
            yield "Dump again the segment that the reason names and keep the whole text, or copy the segment itself. Then audit again."
        case Cause.LEADER_UNKNOWN:
            yield (
                "Copy the leader's log directories too, or copy them again. If its own files cannot be read, keep every other replica as "
                "it is "
                "until you have chosen the one that leads: the first fetch from a leader that lost its log truncates them."
            )
        case Cause.RECORDS_NOT_COMPARED:
            yield (
                "The epochs agree. To compare the records, audit the segments themselves: texts of kafka-dump-log and collections have no "
                "records. Copy again what the reason names as unreadable."
            )
        case Cause.DELETED_WHILE_COPIED:
            yield (
                "Retention, DeleteRecords or the cleaner removed segments between the listing and the copy. Copy the directory again, with "
                "replica-audit collect, which retries by itself, or while the broker is stopped, with the hidden files of its log "
                "directory (.kafka_cleanshutdown shows that it is stopped). Then audit again. If it still has no "
                "segment, somebody removed the files of a running broker: move its leaderships to other brokers before you restart it."
            )
        case Cause.SEGMENTS_NOT_COPIED:
            yield (
                "Copy the directory again, with its .log files, and audit again; until then nothing is known about this replica, and "
                "nothing has to be rebuilt. If the broker has no .log files either, do not start it: it would begin with an empty log, and "
                "followers of an empty leader truncate all that they hold."
            )
        case Cause.TOPIC_ID_IN_DOUBT | Cause.UNKNOWN_BROKER:
            yield from _whose_it_is(verdict)
        case None:  # a run of an older version has it in its reason only
            yield "Fix what the reason names and audit again; until then nothing is known about this follower."
        case _ as never:
            assert_never(never)


def _whose_it_is(verdict: ReplicaVerdict) -> Iterator[str]:
    """What to find out where it is not known of which topic, or broker, a directory is."""
    if verdict.cause == Cause.UNKNOWN_BROKER:
        yield (
            f"Find out which broker the folder of broker {verdict.follower_id} is of: meta.properties of its log directories says it; copy "
            "that file, too. If the broker was taken out of the cluster, keep its directories until nobody needs their records."
        )
        return
    yield (
        "Move no directory away, and delete none: the logs with the other topic id may be all that is left of the records. Copy them, and "
        "keep KRaft brokers that hold them stopped: they set a log aside whose id the metadata does not know."
    )
    yield (
        "Ask the cluster for the topic id (kafka-topics.sh --describe), and find out whether the topic was deleted and made again. If not, "
        "the id of the metadata, or of the empty log, is the wrong one."
    )
