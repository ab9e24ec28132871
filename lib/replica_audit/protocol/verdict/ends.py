"""What endangers a replica at the end of its log, though nothing there differs from its leader.

Sources: LogManager.loadLogs (after a clean stop a log is not recovered), LogLoader and LogSegment.append (what is appended then lies behind
whatever bytes are there), UnifiedLog.maybeIncrementHighWatermark and Partition.maybeAdvanceHighWatermark (a high watermark passes neither
the log's end nor that of a member of the ISR).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from replica_audit.protocol.exchange.replica import Replica

FETCH_FAILS = (
    "its log ends at {offset}, inside one of its leader's batches: it fetches that batch again and again, cannot append it "
    "(UnexpectedAppendOffsetException), and never comes back into the ISR by itself"
)


class FailedFetch(NamedTuple):
    """A fetch that a running follower failed at for good: at `offset`, inside a batch of its leader; its files end at `end`.

    `leader_start` is where the leader's log starts. `is_inside`: its files, too, end inside that batch. `line` is the place of the failure
    in the broker's own log; None: its checkpointed high watermark tells it, which lies beyond the end of its files and inside the batch,
    where a log ends in memory alone, after a truncation.
    """

    offset: int
    end: int
    leader_start: int
    is_inside: bool
    line: str | None

    @property
    def reason(self) -> str:
        """The finding in one sentence."""
        shown = "as its own checkpointed high watermark shows" if self.line is None else f"according to {self.line}"
        if self.end < self.leader_start:
            once_restarted = f"empties its log, and starts again at {self.leader_start}"
        else:
            once_restarted = f"fetches from {self.end}{', which is inside the batch, too' if self.is_inside else ''}"
        return (
            f"its fetcher failed at {self.offset}, {shown}, and its files end at {self.end}: it does not fetch, and stays out of the ISR, "
            f"until its broker restarts; then it {once_restarted}"
        )


class LostEnd(NamedTuple):
    """A log that ends below `reached`, exclusive, up to where its records had been committed or written. `known_by`: whose file says so."""

    broker_id: int
    end: int
    reached: int
    known_by: int

    @property
    def reason(self) -> str:
        """The finding in one sentence."""
        whose = "its own" if self.known_by == self.broker_id else f"broker {self.known_by}'s"
        return (
            f"its log ends at {self.end}, and by {whose} checkpoints it had reached {self.reached}: offsets {self.end}..{self.reached - 1} "
            "are gone from it, or its copy is short; if it is elected, they are lost"
        )


def lost_ends(replicas: Iterable[Replica], *, leader_id: int, electable: Collection[int], agreeing: Collection[int]) -> list[LostEnd]:
    """The replicas that lack what they held, as far as no copy of another moment can explain it.

    By its own checkpoints: of a broker that was stopped cleanly, or that can be elected cleanly. One that crashed may have lost what it had
    not flushed, and fetches it again. By the high watermark of another one: of those that can be elected cleanly.

    Args:
        replicas: of a partition, those that can be read.
        leader_id: who leads, or is taken to.
        electable: who can be elected cleanly, by metadata of after the brokers did their last; empty if that is not known.
        agreeing: the followers whose logs are clean prefixes of the leader's.
    """
    usable = {replica.broker_id: replica for replica in replicas if not replica.unreadable}
    alike = [usable[broker] for broker in (leader_id, *agreeing) if broker in usable and usable[broker].lost_end is None]
    committed, known_by = max(((one.high_watermark or 0, one.broker_id) for one in alike if one.is_at_rest), default=(0, -1))
    found = []
    for broker, replica in sorted(usable.items()):
        end, own, is_electable = replica.log.log_end_offset, replica.lost_end, broker in electable
        may_be = not (replica.stopped_cleanly or is_electable or replica.alive)  # a crash may have taken it
        if own is not None and not may_be:
            found.append(LostEnd(broker, end, own, broker))
        elif is_electable and replica.is_at_rest and broker in agreeing and end < committed:
            found.append(LostEnd(broker, end, committed, known_by))
    return found


def torn_sentence(path: str, byte_offset: int | None, detail: str) -> str:
    """The finding about an end that is no batch, of a broker that was stopped cleanly."""
    return (
        f"its broker was stopped cleanly, and {path} ends in bytes that are no whole batch (byte {byte_offset}: {detail}): the broker does "
        "not recover the log when it starts, and what it appends behind them cannot be read"
    )


def gone_sentence(broker_id: int, end: int, committed: int) -> str:
    """The finding about records that had been committed and that no log holds."""
    return (
        f"the high watermark in the checkpoint of broker {broker_id} is {committed}, and no replica's log reaches beyond {end}: offsets "
        f"{end}..{committed - 1} had been committed and are gone"
    )


def electable_by(
    isr: Collection[int], elr: Collection[int], leader_copy_isr: Collection[int] | None, states: Mapping[int, str]
) -> set[int]:
    """Who can be elected cleanly, as far as metadata of after the brokers' last doings says it; empty if there is none.

    Args:
        isr: by the metadata known last.
        elr: likewise.
        leader_copy_isr: by the leader's own copy of the metadata log, which is of the moment of its files; None without one.
        states: of the brokers by the metadata; of one that it sees run it may be older than its files.
    """
    if leader_copy_isr is not None:
        return set(leader_copy_isr) or set(elr)
    members = set(isr) or set(elr)
    return members if all(states.get(broker) in ("down", "paused", "stopped") for broker in members) else set()
