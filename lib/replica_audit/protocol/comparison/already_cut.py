"""A follower that has truncated since it was copied, according to its broker's own log: its copy holds what the broker no longer has."""

from __future__ import annotations

from dataclasses import replace

from replica_audit.model import BatchRun
from replica_audit.protocol.comparison.observed import ObservedTruncation
from replica_audit.protocol.epochs.epoch_table import truncate_from_end
from replica_audit.protocol.epochs.lineage import until
from replica_audit.protocol.exchange.replay import Truncation
from replica_audit.protocol.exchange.replica import Replica


def has_truncated(observed: ObservedTruncation | None, truncation: Truncation) -> bool:
    """Whether a broker logged the very cut that the rule gives for the copied files."""
    return observed is not None and truncation.truncation_offset is not None and observed.truncation_offset == truncation.truncation_offset


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
