"""What a corrected `leader-epoch-checkpoint` heals: every follower replayed until it has caught up with a leader that has the right table.

Sources: UnifiedLog (a broker loads the file when it starts), Partition.makeLeader (who is elected enters its epoch at the log end), and the
exchange as `replay` and `catch_up` have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from replica_audit.protocol.epochs.epoch_table import EMPTY, EpochTable
from replica_audit.protocol.exchange.catch_up import refusal
from replica_audit.protocol.exchange.rejoin import elected
from replica_audit.protocol.exchange.replay import Protocol, Truncation
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.exchange.truncation import RULES


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
