"""What the replicas tell of the elections that the metadata log lists: where each epoch began, and what an unclean one gave up.

Sources: KIP-101 (an epoch begins at the log end of the replica that is elected), UnifiedLog.maybeIncrementLogStartOffset (the log start
moves the first entry of a table).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replica_audit.model import Election
from replica_audit.protocol.comparison import Replica
from replica_audit.protocol.lineage import Span


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


def given_up(election: Election, start: int, replicas: Sequence[Replica]) -> dict[int, list[Span]]:
    """What the elected leader did not have, and which replicas still hold it.

    Args:
        election: that gave something up.
        start: where its epoch began, inclusive.
        replicas: of one topic.

    Returns:
        For each broker that holds any, spans of its log at or above the start, of earlier epochs.
    """
    found = {}
    for replica in replicas:
        first = max(start, replica.log.log_start_offset)
        spans = [
            span._replace(first_offset=max(span.first_offset, first))
            for span in replica.history
            if 0 <= span.leader_epoch < election.leader_epoch and span.end_offset > first
        ]
        if spans:
            found[replica.broker_id] = spans
    return found
