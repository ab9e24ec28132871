"""Reading batches of a replica again, where its runs do not tell enough: what a cut takes, and whether fetching then fails."""

from __future__ import annotations

from dataclasses import replace

from replica_audit.errors import DumpLogError
from replica_audit.formats.locations import located
from replica_audit.formats.replica_reader import batches_from
from replica_audit.formats.tree_walk import cannot_read
from replica_audit.model import Problem
from replica_audit.protocol.cuts import Removal, can_fail_to_append, lies_inside_a_batch, measure_removal
from replica_audit.protocol.exchange import Truncation
from replica_audit.protocol.replica import Replica
from replica_audit.transforms.replicas import Loaded


class UnreadBatches(Exception):
    """The batches of a replica could not be read again: `problem`, of broker `broker_id`."""

    def __init__(self, replica: Loaded, error: OSError | DumpLogError) -> None:
        """Tell of a replica, and of what happened."""
        super().__init__(str(error))
        self.broker_id, self.problem = replica.broker_id, _unread(replica, error)


_REMEDY = "audit again, best a copy: the file was there when it was scanned; until then, records and bytes that go are not known"


def removal(follower: Loaded, replica: Replica, truncation: Truncation) -> Removal | None:
    """What a truncation takes of the follower's log; None if nothing.

    Raises:
        UnreadBatches: what the log held when it was scanned.
    """
    start = replica.log.log_start_offset if truncation.restart_offset is not None else truncation.truncation_offset
    if start is None or (truncation.restart_offset is not None and replica.empty):
        return None
    start = max(start, replica.log.log_start_offset)  # a cut below the log start takes what there is
    try:
        return measure_removal(batches_from(follower.files_in_log, start, follower.scanned), start, replica.log.log_end_offset)
    except (OSError, DumpLogError) as error:
        raise UnreadBatches(follower, error) from None


def fetcher_fails(leader: Loaded, replica: Replica, truncation: Truncation) -> bool:
    """Whether the follower's next fetch begins inside one of the leader's batches, `replica` being the leader.

    Raises:
        UnreadBatches: what the log held when it was scanned.
    """
    offset = truncation.fetch_offset
    if not can_fail_to_append(truncation) or offset >= replica.log.log_end_offset:
        return False
    try:
        found = batches_from(leader.files_in_log, offset, leader.scanned)
        at = next((batch for batch in found if batch.last_offset >= offset), None)
    except (OSError, DumpLogError) as error:
        raise UnreadBatches(leader, error) from None
    return at is not None and lies_inside_a_batch([at], offset)


def _unread(replica: Loaded, error: OSError | DumpLogError) -> Problem:
    path = located(replica.files.log_dir) / replica.files.directory
    if isinstance(error, DumpLogError):
        return Problem(path=str(path), kind="dump", code="cannot-read", detail=error.reason, remedy=_REMEDY, line=error.line)
    return replace(cannot_read(located(error.filename) if error.filename else path, "segment", error), remedy=_REMEDY)
