"""The elections that the metadata log lists: where each epoch began, what an unclean one gave up, which were preferred ones.

Sources: KIP-101 (an epoch begins at the log end of the replica that is elected), UnifiedLog.maybeIncrementLogStartOffset (the log start
moves the first entry of a table).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replica_audit.model import Election, PartitionMetadata
from replica_audit.protocol.cluster.metadata_image import ElectionKind
from replica_audit.protocol.epochs.lineage import Span, lacking, until
from replica_audit.protocol.exchange import alternatives
from replica_audit.protocol.exchange.replica import Replica


class Beginning(NamedTuple):
    """The offset at which an epoch began; only an upper bound where `is_exact` is False: a log start may have moved the entry."""

    start_offset: int
    is_exact: bool


def beginnings(replicas: Sequence[Replica]) -> dict[int, Beginning]:
    """Where each epoch began, by the first table that has it, or by batches that lie before that.

    Args:
        replicas: of one topic, those whose tables count first in front.
    """
    found: dict[int, Beginning] = {}
    for replica in replicas:
        log_start = replica.log.log_start_offset
        for epoch, start in replica.log.epochs:
            found.setdefault(epoch, Beginning(start, start > log_start or log_start == 0))
    for replica in replicas:
        for span in replica.history:
            told = found.get(span.leader_epoch)
            if told is not None and span.first_offset < told.start_offset:
                is_first = span.first_offset == replica.history[0].first_offset > 0
                found[span.leader_epoch] = Beginning(span.first_offset, not is_first)
    return found


def given_up(election: Election, start: int, replicas: Sequence[Replica], *, compacted: bool = False) -> dict[int, list[Span]]:
    """What the elected leader did not have, and which replicas still hold it.

    The log with which a replica was elected is what it holds below the epoch's start, as long as its table still begins the epoch there:
    any later cut would have taken the entry. Without that log, or where it cannot be read to its end, only what others hold from the start
    on is known to have been given up.

    Args:
        election: that gave something up.
        start: where its epoch began, inclusive.
        replicas: of one topic.
        compacted: whether batches may be missing anywhere.

    Returns:
        For each broker that holds any, spans of its log, of earlier epochs.
    """
    elected = next((one for one in replicas if one.broker_id == election.leader_id), None)
    if elected is not None and (elected.unreadable or (election.leader_epoch, start) not in elected.log.epochs):
        elected = None
    found = {}
    for replica in replicas:
        spans = [span for span in _lacked(elected, replica, start, compacted=compacted) if 0 <= span.leader_epoch < election.leader_epoch]
        if spans:
            found[replica.broker_id] = spans
    return found


def _lacked(elected: Replica | None, replica: Replica, start: int, *, compacted: bool) -> list[Span]:
    end = replica.log.log_end_offset
    if elected is None:
        return list(lacking(replica.history, (), max(start, replica.log.log_start_offset), end))
    first = max(elected.log.log_start_offset, replica.log.log_start_offset)
    missing_from = start if compacted and elected.cleaner_offset is None else min(elected.cleaner_offset or 0, start)
    return list(lacking(replica.history, until(elected.history, start), first, end, missing_from=missing_from))


def with_preference(metadata: PartitionMetadata) -> list[alternatives.PreferredElection]:
    """The metadata log's elections, ascending, each with whether it was a preferred one.

    It is if it is clean and makes the first replica the leader, its predecessor being in the ISR.
    """
    found = []
    before = -1
    for election in metadata.elections:
        preferred = election.kind == ElectionKind.CLEAN and before in election.electable and (election.leader_id,) == metadata.replicas[:1]
        found.append(
            alternatives.PreferredElection(
                leader_epoch=election.leader_epoch, leader_id=election.leader_id, preferred=preferred, isr=election.electable
            )
        )
        before = election.leader_id
    return found
