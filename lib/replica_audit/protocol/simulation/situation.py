"""One partition between two steps: what its brokers' directories hold, which of them run, who leads; and the steps that change it.

The rules of elections are those of the KRaft controller (PartitionChangeBuilder, ReplicationControlManager): a member of the ISR, or of the
ELR where the ISR is empty, is elected as soon as its broker runs; anyone else only if an unclean election is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from replica_audit.protocol.epochs.epoch_table import EpochTable
from replica_audit.protocol.exchange.replica import Replica

NOBODY = -1


@dataclass(frozen=True, slots=True)
class StartBroker:
    """Start a broker: it leads if it may be elected cleanly and nobody leads; else it follows, as soon as somebody does."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class StopBroker:
    """Stop a broker in order; if it leads, the first running member of the ISR takes over."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class Elect:
    """Elect a replica whose broker runs, as kafka-leader-election.sh does; `unclean`: also one that is not in the ISR."""

    broker_id: int
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class ReplaceCheckpoint:
    """Write another leader-epoch-checkpoint into the directory of a broker that is stopped."""

    broker_id: int
    epochs: EpochTable


@dataclass(frozen=True, slots=True)
class RestoreCopy:
    """Put the audited copy of a replica, of the same broker or another, into the directory of a broker that is stopped."""

    broker_id: int
    copy_of: int


@dataclass(frozen=True, slots=True)
class LoseDisk:
    """A broker is gone for good, running or not: nobody has its replica any more. Its audited copy may still be restored elsewhere."""

    broker_id: int


Action = StartBroker | StopBroker | Elect | ReplaceCheckpoint | RestoreCopy | LoseDisk


class NotDone(StrEnum):
    """Why a step cannot be done."""

    NO_REPLICA = "no-replica"
    UNREADABLE = "unreadable"
    RUNS_ALREADY = "runs-already"
    DOES_NOT_RUN = "does-not-run"
    MUST_BE_STOPPED = "must-be-stopped"
    NOT_IN_ISR = "not-in-isr"
    LEADS_ALREADY = "leads-already"
    LEADER_RUNS = "leader-runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A partition between two steps.

    `replicas` holds what each broker's directory holds, `assigned` the partition's brokers in the order of their assignment; of one that is
    in no `replicas` nothing is known. `leader_id` is -1 where nobody leads; a leader's table has its epoch.
    """

    replicas: Mapping[int, Replica]
    assigned: tuple[int, ...]
    running: frozenset[int]
    isr: frozenset[int]
    elr: frozenset[int] = frozenset()
    leader_id: int = NOBODY
    leader_epoch: int = -1

    @property
    def electable(self) -> frozenset[int]:
        """Who may be elected cleanly."""
        return self.isr or self.elr

    @property
    def is_online(self) -> bool:
        """Whether somebody leads."""
        return self.leader_id != NOBODY

    @property
    def followers(self) -> tuple[int, ...]:
        """The brokers that run and fetch from the leader, in the order of their assignment."""
        if not self.is_online:
            return ()
        others = (broker for broker in self.assigned if broker in self.running and broker != self.leader_id)
        return tuple(broker for broker in others if broker in self.replicas and not self.replicas[broker].unreadable)
