"""Whether a follower ever catches up: its fetches replayed beyond the first records, until it holds all that the leader holds.

A fetch brings batches of one segment of the leader, no more than `replica.fetch.max.bytes`. What the follower appends goes into its epoch
table, and its next fetch carries the last appended epoch, which the leader looks up in its own. A leader whose table lacks an epoch of its
own batches refuses there: it answers OFFSET_OUT_OF_RANGE forever, or names an earlier epoch, so that the follower truncates what it has
just fetched, and fetches it again. Where in an epoch a fetch ends does not matter: sent back to its first batch, the follower gets out only
if one fetch reaches beyond it. Sources: Partition.readRecords, AbstractFetcherThread.processFetchRequest and fetchOffsetAndTruncate,
LocalLog.read, LeaderEpochFileCache (4.2.0).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter

from replica_audit.model import BatchRun
from replica_audit.protocol.epochs.epoch_table import appended
from replica_audit.protocol.epochs.replica_log import LoadedLog
from replica_audit.protocol.exchange.replay import OffsetOutOfRange, Protocol, Replay, Step, Truncation, diverging_epoch
from replica_audit.protocol.exchange.replica_state import ReplicaState
from replica_audit.rows.codes import EpochRequest
from replica_audit.rows.pairs import RefusedFetch, WrongCheckpointLine

FETCH_BYTES = 1 << 20  # the default of replica.fetch.max.bytes


def refusal(leader: ReplicaState, log: LoadedLog, truncation: Truncation) -> RefusedFetch | None:
    """Replay a follower until it has caught up; None if it does. Whether one with an empty log is refused, too, is not asked here.

    Args:
        leader: the leader's side of the exchange.
        log: the leader's, for its batches.
        truncation: the exchange up to the first records.
    """
    if truncation.stuck:
        return _last_answer(truncation, before_records=True)
    if truncation.protocol is not Protocol.TRUNCATE_ON_FETCH:
        return None  # later fetches carry no epoch: once records flow, they go on
    follower = truncation.follower_after
    place = bisect_right(log.runs, follower.log_end_offset - 1, key=attrgetter("last_offset"))
    if all(_accepts(leader, run) for run in log.runs[place:]):
        return None
    return _Fetches(leader, log).refused(follower, place)


def wrong_lines(leader: ReplicaState, log: LoadedLog) -> tuple[WrongCheckpointLine, ...]:
    """The lines for which a leader refuses fetches of what its own log holds: epochs that it lacks, and entries that begin too early.

    An entry above its first batch, or without one, refuses nothing by itself: compaction and elections leave such.
    """
    starts = {run.leader_epoch: run.first_offset for run in reversed(log.runs)}
    known = {entry.epoch for entry in leader.epochs}
    found: dict[int, WrongCheckpointLine] = {}
    for run in (run for run in log.runs if run.last_offset >= log.log_start_offset and not _accepts(leader, run)):
        epoch = run.leader_epoch
        if epoch not in known:
            found[epoch] = WrongCheckpointLine(epoch=epoch, start_offset=max(starts[epoch], log.log_start_offset), found_offset=None)
        later = next((entry for entry in leader.epochs if entry.epoch > epoch), None)
        if later is not None and later.start_offset <= run.last_offset:
            start = starts.get(later.epoch)
            found[later.epoch] = WrongCheckpointLine(epoch=later.epoch, start_offset=start, found_offset=later.start_offset)
    return tuple(line for _epoch, line in sorted(found.items()))


def _accepts(leader: ReplicaState, run: BatchRun) -> bool:
    """Whether a follower that has fetched a whole run may go on; then it may from every offset inside."""
    return run.magic < 2 or run.leader_epoch < 0 or _answer_is_records(leader, run.last_offset + 1, run.leader_epoch)


def _answer_is_records(leader: ReplicaState, offset: int, epoch: int) -> bool:
    try:
        return diverging_epoch(leader, offset, epoch) is None
    except OffsetOutOfRange:
        return False


def _last_answer(truncation: Truncation, *, before_records: bool) -> RefusedFetch:
    """The last refused fetch of an exchange, as it comes again and again."""
    step = next(step for step in reversed(truncation.steps) if step.request is EpochRequest.FETCH)
    return _refused(step, truncation, before_records=before_records)


def _refused(step: Step, truncation: Truncation, *, before_records: bool) -> RefusedFetch:
    """A fetch that the leader refused, and where the exchange then ended."""
    return RefusedFetch(
        fetch_offset=step.fetch_offset or 0,
        requested_epoch=step.requested_epoch,
        answered_epoch=step.answered_epoch,
        answered_end_offset=None if step.out_of_range else step.answered_end_offset,
        back_to_offset=truncation.fetch_offset,
        before_records=before_records,
        fresh_replica_too=False,
    )


class _Fetches:
    """A follower's fetches from one leader, run by run."""

    def __init__(self, leader: ReplicaState, log: LoadedLog) -> None:
        self.leader, self.log, self.runs = leader, log, log.runs

    def refused(self, follower: ReplicaState, place: int) -> RefusedFetch | None:
        """Append the leader's runs from a place on, until one is refused from which no fetch leads on."""
        while place < len(self.runs):
            follower = _with(follower, self.runs[place])
            if not _accepts(self.leader, self.runs[place]):
                sent_back = Replay(Protocol.TRUNCATE_ON_FETCH, self.leader, follower).fetch_until_records(sends_epoch=True)
                beyond = None if sent_back.stuck else self._beyond(place, sent_back.fetch_offset)
                if beyond is None:
                    return self._refusal(sent_back)
                for run in self.runs[place + 1 : beyond + 1]:
                    follower = _with(follower, run)
                place = beyond
            place += 1
        return None

    def _beyond(self, place: int, back_to: int) -> int | None:
        """The next run from which the follower may go on, if one fetch can bring some of it with all from where it was sent back to."""
        size = 0
        for other in self._in_segment(place):
            run = self.runs[other]
            if other > place and _accepts(self.leader, run):
                return other if size + run.size_bytes // max(run.batch_count, 1) <= FETCH_BYTES else None
            held = run.last_offset + 1 - run.first_offset
            size += run.size_bytes * (run.last_offset + 1 - min(max(run.first_offset, back_to), run.last_offset + 1)) // held
        return None

    def _in_segment(self, place: int) -> Iterator[int]:
        """The places of a run and of those after it in its segment."""
        end = self.log.segment_end(self.runs[place].first_offset)
        for other in range(place, len(self.runs)):
            if self.runs[other].first_offset >= end:
                return
            yield other

    def _refusal(self, sent_back: Truncation) -> RefusedFetch:
        if sent_back.stuck:
            return _last_answer(sent_back, before_records=False)
        return _refused(sent_back.steps[0], sent_back, before_records=False)


def _with(follower: ReplicaState, run: BatchRun) -> ReplicaState:
    """The follower once it has appended the run, or the rest of it."""
    first = max(run.first_offset, follower.log_end_offset)
    epochs = appended(follower.epochs, run.leader_epoch, first, run.magic)
    return replace(follower, log_end_offset=run.last_offset + 1, epochs=epochs)
