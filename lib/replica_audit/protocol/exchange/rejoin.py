"""Whether a follower catches up and can come back into the ISR, and what a corrected `leader-epoch-checkpoint` changes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

from replica_audit.model import BatchRun
from replica_audit.protocol.epochs.epoch_table import EMPTY, EpochTable, appended, assign, epoch_for_offset, latest_epoch
from replica_audit.protocol.epochs.lineage import epoch_at
from replica_audit.protocol.epochs.replica_log import LoadedLog, began_since
from replica_audit.protocol.exchange.replay import RULES, OffsetOutOfRange, Replay, Step, Truncation, diverging_epoch
from replica_audit.protocol.exchange.replica import Replica, ReplicaState
from replica_audit.rows.codes import EpochRequest, Protocol
from replica_audit.rows.pairs import RefusedFetch, WrongCheckpointLine

# Whether a follower ever catches up: its fetches replayed beyond the first records, until it holds all that the leader holds. A fetch
# brings batches of one segment of the leader, no more than `replica.fetch.max.bytes`. What the follower appends goes into its epoch table,
# and its next fetch carries the last appended epoch, which the leader looks up in its own. A leader whose table lacks an epoch of its own
# batches refuses there: it answers OFFSET_OUT_OF_RANGE forever, or names an earlier epoch, so that the follower truncates what it has just
# fetched, and fetches it again. Where in an epoch a fetch ends does not matter: sent back to its first batch, the follower gets out only
# if one fetch reaches beyond it. Sources: Partition.readRecords, AbstractFetcherThread.processFetchRequest and fetchOffsetAndTruncate,
# LocalLog.read, LeaderEpochFileCache (4.2.0).


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CannotRejoin:
    """Why a follower never catches up.

    `broker_id` is whose checkpoint holds the wrong `lines`, None where none is known to be wrong.
    """

    refusal: RefusedFetch
    broker_id: int | None
    lines: tuple[WrongCheckpointLine, ...]


def cannot_rejoin(
    leader: Replica, follower: Replica, truncation: Truncation, *, leader_epoch: int, simultaneous: bool
) -> CannotRejoin | None:
    """Replay the follower until it has caught up; None if it does, or if the copies do not prove that it does not.

    Args:
        leader: of the partition.
        follower: whose fetcher does not fail before.
        truncation: the exchange up to the first records.
        leader_epoch: the metadata's, -1 if unknown.
        simultaneous: all brokers were copied at one instant.
    """
    if follower.alive and follower.in_isr:
        return None  # it fetches: there is nothing to rejoin
    state, believed = leader.as_leader(), _file_is_what_it_knows(leader, follower, leader_epoch, simultaneous=simultaneous)
    found = refusal(state, leader.log, truncation)
    if found is None and believed and leader.log.epochs_on_disk:
        state = replace(state, epochs=leader.log.epochs_on_disk)
        found = refusal(state, leader.log, RULES[truncation.protocol](state, follower.as_follower()))
    if found is not None and not leader.alive:
        state = elected(state, leader, follower, leader_epoch)
        found = refusal(state, leader.log, RULES[truncation.protocol](state, follower.as_follower()))
    if found is None or (leader.alive and not state.epochs and not believed):
        return None
    lines, broker_id = wrong_lines(state, leader.log), leader.broker_id
    if lines and leader.alive and not simultaneous:
        lines = tuple(line for line in lines if not _is_of_a_newer_table(line, leader))
        if not lines:
            return None
    if not lines:
        lines, broker_id = _own_wrong_line(follower, found), follower.broker_id
    found = replace(found, fresh_replica_too=_refuses_a_fresh_one(leader, state))
    return CannotRejoin(refusal=found, broker_id=broker_id if lines else None, lines=lines)


def elected(state: ReplicaState, leader: Replica, follower: Replica, leader_epoch: int) -> ReplicaState:
    """A leader that does not run, as it will lead: in an epoch above all others, which its table then has at its log end."""
    latest = [latest_epoch(side.log.epochs) for side in (leader, follower)]
    written = [span.leader_epoch for side in (leader, follower) for span in side.history]
    return replace(state, epochs=assign(state.epochs, max([leader_epoch, *latest, *written]) + 1, state.log_end_offset))


def _file_is_what_it_knows(leader: Replica, follower: Replica, leader_epoch: int, *, simultaneous: bool) -> bool:
    """Whether a running leader's table lacks what its file lacks, though a file may have been copied before the batches.

    It does where a running follower stays out of the ISR, and the metadata already knew the newest epoch that the file lacks; not if
    the copy does not know the epoch that its broker leads in: it is of before its election, and the metadata of after it.
    """
    if simultaneous or not follower.alive or follower.in_isr:
        return simultaneous
    newest = max((run.leader_epoch for run in leader.log.runs), default=-1)
    return 0 <= newest <= leader_epoch <= max(newest, latest_epoch(leader.log.epochs))


def _is_of_a_newer_table(line: WrongCheckpointLine, leader: Replica) -> bool:
    """Whether the line is explained by a table that was copied after the log.

    It is of an epoch that began since; or lacks one of which the log is cut off, because a newer epoch begins at or below it.
    """
    if line.found_offset is not None:
        return line.epoch > max((run.leader_epoch for run in leader.log.runs), default=-1)
    began = began_since(leader.log.epochs, leader.log.runs)
    return began is not None and line.start_offset is not None and began <= line.start_offset


def _own_wrong_line(follower: Replica, found: RefusedFetch) -> tuple[WrongCheckpointLine, ...]:
    """The follower's own latest line, where its batches are of another epoch."""
    entries = follower.as_follower().epochs
    if not entries or not found.before_records:
        return ()
    last = entries[-1]
    held = epoch_at(follower.history, max(last.start_offset, follower.log.log_start_offset))
    is_right = held is None or held == epoch_for_offset(entries, max(last.start_offset, follower.log.log_start_offset))
    return () if is_right else (WrongCheckpointLine(epoch=last.epoch, start_offset=None, found_offset=last.start_offset),)


def _refuses_a_fresh_one(leader: Replica, state: ReplicaState) -> bool:
    """Whether a follower that starts with an empty log is refused as well, so that removing its directory does not help."""
    start = state.log_start_offset
    empty = ReplicaState(log_start_offset=start, log_end_offset=start, epochs=EMPTY, high_watermark=start, first_segment_base=start)
    return refusal(state, leader.log, RULES[Protocol.TRUNCATE_ON_FETCH](state, empty)) is not None


# What a corrected `leader-epoch-checkpoint` heals: every follower replayed until it has caught up with a leader that has the right table.
# Sources: UnifiedLog (a broker loads the file when it starts), Partition.makeLeader (who is elected enters its epoch at the log end), and
# the exchange as `replay` and `catch_up` have it.


class Rejoin(NamedTuple):
    """A follower with a leader, both as they have started with corrected files; `catches_up`: its fetches go on to the leader's end."""

    leader: Replica
    follower: Replica
    truncation: Truncation
    catches_up: bool


def with_table(replica: Replica, epochs: EpochTable) -> Replica:
    """The replica once its broker has started with other lines in its file."""
    return replace(replica, log=replace(replica.log, epochs=epochs, epochs_on_disk=EMPTY), alive=False, unreadable=None)


def rejoins(
    leader_id: int, replicas: Sequence[Replica], corrected: Mapping[int, EpochTable], protocol: Protocol, leader_epoch: int
) -> list[Rejoin]:
    """Every follower of a leader, once the corrected tables are in place.

    Args:
        leader_id: who leads; a leader with a corrected file was restarted, so it leads in an epoch above all others.
        replicas: those of the partition that have a log; one that cannot be read and is not corrected is left out.
        corrected: the tables of corrected files, by broker.
        protocol: that the cluster runs.
        leader_epoch: the metadata's, -1 if unknown.
    """
    sides = {one.broker_id: with_table(one, corrected[one.broker_id]) if one.broker_id in corrected else one for one in replicas}
    leader = sides.pop(leader_id, None)
    if leader is None or leader.unreadable:
        return []
    found = []
    for follower in (one for one in sides.values() if not one.unreadable):
        state = leader.as_leader() if leader.alive else elected(leader.as_leader(), leader, follower, leader_epoch)
        truncation = RULES[protocol](state, follower.as_follower())
        found.append(Rejoin(leader, follower, truncation, refusal(state, leader.log, truncation) is None))
    return found
