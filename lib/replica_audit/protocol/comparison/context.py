"""What is known of a partition besides its logs, and what that says of the leader's copy."""

from __future__ import annotations

from dataclasses import dataclass, field

from replica_audit.protocol.comparison.commitment import CommitHistory
from replica_audit.protocol.comparison.touched import TouchedBy
from replica_audit.protocol.epochs.epoch_table import latest_epoch
from replica_audit.protocol.exchange.replica import Replica


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the metadata and the capture tell of a partition. `leader_epoch` is the metadata's, -1 if unknown.

    `leader_is_inferred`: nobody says who leads, so what the leader holds proves nothing of what it can send.
    `enters_epoch_at_once`: leaders write their epoch to the table when they are elected (KAFKA-7415), not with their first record.
    `compacted`: batches may be missing anywhere. `simultaneous`: all brokers were copied at one instant. `clean_elections`: the leader
    epochs whose elections, by the metadata log, gave nothing up. `commits`: its leaders and their ISRs. `leads_by_choice`: the leader is
    one that somebody might elect, so what its log holds decides, however it came to be short. `touched`: what may have left its replicas
    with other keys, if it is compacted.
    """

    leader_epoch: int = -1
    leader_is_inferred: bool = False
    enters_epoch_at_once: bool = False
    compacted: bool = False
    simultaneous: bool = False
    clean_elections: frozenset[int] = frozenset()
    commits: CommitHistory = field(default_factory=CommitHistory)
    leads_by_choice: bool = False
    touched: TouchedBy | None = None

    def gaps_count(self, *replicas: Replica) -> bool:
        """Whether it is evidence that one of them lacks batches: no cleaner took any, and all segments could be read."""
        return not self.compacted and not any(one.is_partly_read for one in replicas)


def copied_before_its_election(leader: Replica, context: Context) -> bool:
    """Whether the leader's copy does not know the epoch that it leads in: the log may since have been truncated.

    Nor does the copy of a broker that was stopped cleanly: a broker that stops leads nothing any more, so it was elected later.
    A log without a batch and an epoch is a follower's that has just begun, or that retention emptied: on a running broker, and above 0,
    where retention of its leader was faster.
    """
    latest, is_running = latest_epoch(leader.log.epochs), bool(leader.alive)
    if latest < 0 and leader.history:
        latest = leader.history[-1].leader_epoch  # retention has just taken all entries, or the file is wrong
    has_begun = not leader.history and (leader.log.log_start_offset > 0 or (is_running and leader.checkpoint_known))
    is_of_before = (is_running or leader.stopped_cleanly) and not context.simultaneous
    return is_of_before and context.enters_epoch_at_once and (latest >= 0 or has_begun) and latest < context.leader_epoch
