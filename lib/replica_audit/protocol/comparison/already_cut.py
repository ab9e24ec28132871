"""A follower that has truncated since it was copied, according to its broker's own log: its copy holds what the broker no longer has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from replica_audit.model import BatchRun, Election
from replica_audit.protocol.cluster.log_events import millis_of
from replica_audit.protocol.comparison.observed import ObservedCut, ObservedTruncation
from replica_audit.protocol.epochs.epoch_table import truncate_from_end
from replica_audit.protocol.epochs.lineage import until
from replica_audit.protocol.exchange.replay import Truncation
from replica_audit.protocol.exchange.replica import Replica

_FARTHEST_AHEAD_MS = 14 * 3_600_000  # of UTC a zone's clock can be
_SOON_MS = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """When a broker must have cut a replica for its copy to hold what is gone from the broker.

    `newest_ms`: the newest timestamp of the batches that the cut takes, None where one has none. `last_epoch`: the newest epoch of them.
    `succeeded_at_ms`: when the first later epoch began, by the metadata log, None if that is not known. `log_end_offset`: of the
    copy, exclusive. `until_ms`: when the audit began, later than any line.
    """

    newest_ms: int | None
    last_epoch: int
    succeeded_at_ms: int | None
    log_end_offset: int
    until_ms: int

    @classmethod
    def of(cls, replica: Replica, offset: int, elections: Iterable[Election], until_ms: int) -> Since:
        """For the cut of a copied replica at an offset, with what the metadata log tells of the partition's epochs."""
        taken = [run for run in replica.log.runs if run.last_offset >= offset]
        last_epoch = max((run.leader_epoch for run in taken), default=-1)
        began = [one.timestamp_ms for one in elections if one.leader_epoch > last_epoch >= 0 and one.timestamp_ms >= 0]
        is_timed = all(run.min_timestamp_ms >= 0 for run in taken)
        return cls(
            newest_ms=max((run.max_timestamp_ms for run in taken), default=None) if is_timed else None,
            last_epoch=last_epoch,
            succeeded_at_ms=min(began, default=None),
            log_end_offset=replica.log.log_end_offset,
            until_ms=until_ms,
        )

    def covers(self, cut: ObservedCut) -> bool:
        """Whether a broker logged a cut after the batches were written that it takes; in doubt it did not.

        The line must be newer than all of them, and than the epoch that came after theirs, and not of a time yet to come. A line whose zone
        is not known counts as UTC. Producers set the timestamps of most topics, so something else must bear it out: that the later epoch is
        known, by the metadata log or by what the broker told before it cut; that its log ended where the copy does; or that the line
        came so soon after the newest batch that no other time can be meant.
        """
        moment = millis_of(cut.time) if cut.time_ms is None else cut.time_ms
        if moment is None or self.newest_ms is None:
            return False
        latest = self.until_ms if cut.time_ms is not None else self.until_ms + _FARTHEST_AHEAD_MS
        is_borne_out = (
            self.succeeded_at_ms is not None
            or (cut.leader_epoch is not None and cut.leader_epoch > self.last_epoch)
            or cut.log_end_offset == self.log_end_offset
            or moment - self.newest_ms < _SOON_MS
        )
        return max(self.newest_ms, self.succeeded_at_ms or 0) < moment <= latest and is_borne_out


def has_truncated(observed: ObservedTruncation | None, truncation: Truncation, since: Since | None) -> bool:
    """Whether a broker logged the very cut that the rule gives for the copied files, and after they were written."""
    if observed is None or since is None:
        return False
    if truncation.restart_offset is not None:
        return observed.restart is not None and observed.restart.offset == truncation.restart_offset and since.covers(observed.restart)
    cut = observed.last_cut
    return cut is not None and cut.offset == truncation.truncation_offset and since.covers(cut)


def as_truncated(replica: Replica, offset: int, physical_offset: int) -> Replica:
    """The replica as it is on its broker once it was cut, before it fetches: its log ends at `offset`, its files at `physical_offset`.

    One whose files end where they began is empty, and begins at the offset.
    """
    log = replica.log
    begins = offset if physical_offset <= log.log_start_offset else min(log.log_start_offset, offset)
    cut = replace(
        log,
        log_start_offset=begins,
        log_end_offset=offset,
        epochs=truncate_from_end(log.epochs, offset),
        runs=tuple(_shortened(run, physical_offset) for run in log.runs if run.first_offset < physical_offset),
    )
    high_watermark = None if replica.high_watermark is None else min(replica.high_watermark, offset)
    return replace(replica, log=cut, history=tuple(until(replica.history, physical_offset)), high_watermark=high_watermark)


def _shortened(run: BatchRun, end_offset: int) -> BatchRun:
    return run._replace(last_offset=min(run.last_offset, end_offset - 1))
