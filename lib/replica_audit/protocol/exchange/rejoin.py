"""Whether a follower can come back into the ISR, and if not, which line of which `leader-epoch-checkpoint` keeps it out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from replica_audit.protocol.epochs.epoch_table import EMPTY, assign, epoch_for_offset, latest_epoch
from replica_audit.protocol.epochs.lineage import epoch_at
from replica_audit.protocol.epochs.replica_log import began_since
from replica_audit.protocol.exchange.catch_up import refusal, wrong_lines
from replica_audit.protocol.exchange.replay import Protocol, Truncation
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.exchange.replica_state import ReplicaState
from replica_audit.protocol.exchange.truncation import RULES
from replica_audit.rows.pairs import RefusedFetch, WrongCheckpointLine


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
