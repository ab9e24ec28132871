"""Steps of a recovery on the partitions of a run, from its tables: who then leads, who truncates to where, what is lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pandas as pd

from replica_audit.errors import UsageError
from replica_audit.model import BatchRun
from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.epochs.epoch_table import table
from replica_audit.protocol.epochs.lineage import Span, history_of_runs, history_of_table
from replica_audit.protocol.epochs.replica_log import LoadedLog
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.simulation import (
    NOBODY,
    Action,
    Elect,
    LoseDisk,
    Order,
    ReplaceCheckpoint,
    RestoreCopy,
    Simulation,
    Situation,
    StartBroker,
    StopBroker,
    orders,
    simulate,
)
from replica_audit.protocol.verdict.partition_findings import ElectionType
from replica_audit.rows.codes import Protocol
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.replicas import EpochStartOffset, ReplicaLog, ReplicaRole, SegmentEpoch
from replica_audit.rows.what_if import WhatIfLeader
from replica_audit.storage.warehouse.arrow_tables import ArrowTables


def simulated_replica(
    row: ReplicaLog, segments: Iterable[SegmentEpoch] | None, epochs: Iterable[EpochStartOffset], *, alive: bool, in_isr: bool
) -> Replica:
    """A replica as the audit loaded it, as far as the tables keep it.

    `segments` is None where another directory of the partition, such as one to be deleted, is in the same log directory: the rows of both
    cannot be told apart, and the table in effect says what the log holds.
    """
    start, end = row.log_start_offset or 0, row.log_end_offset or 0
    entries = table(sorted((one.leader_epoch, one.start_offset) for one in epochs if one.broker_id == row.broker_id and one.in_effect))
    bases: tuple[int, ...] = (start,)
    if segments is None:
        runs = tuple(_run_of(span) for span in history_of_table(entries, start, end))
    else:
        mine = (one for one in segments if (one.broker_id, one.log_dir) == (row.broker_id, row.log_dir) and one.first_offset < end)
        own = sorted(mine, key=lambda one: one.first_offset)
        runs, bases = tuple(_run(one) for one in own), tuple(sorted({one.segment_base_offset for one in own}))
    log = LoadedLog(
        log_start_offset=start,
        log_end_offset=end,
        first_segment_base=min([start, *bases]),
        epochs=entries,
        runs=runs,
        segment_bases=bases,
    )
    return Replica(
        broker_id=row.broker_id,
        log=log,
        history=tuple(history_of_runs(runs)),
        high_watermark=row.high_watermark,
        cleaner_offset=row.cleaner_offset,
        topic_id=row.topic_id,
        unreadable=row.unreadable_reason,
        alive=alive,
        in_isr=in_isr,
    )


def _run(one: SegmentEpoch) -> BatchRun:
    run = _run_of(Span(one.leader_epoch, one.first_offset, one.last_offset + 1))
    return run._replace(batch_count=one.batch_count, record_count=one.record_count, size_bytes=one.size_bytes)


def _run_of(span: Span) -> BatchRun:
    count = span.end_offset - span.first_offset
    return BatchRun(
        leader_epoch=span.leader_epoch,
        first_offset=span.first_offset,
        last_offset=span.end_offset - 1,
        batch_count=1,
        record_count=count,
        size_bytes=count,
        min_timestamp_ms=0,
        max_timestamp_ms=0,
        magic=2 if span.leader_epoch >= 0 else 1,
        intact=True,
    )


_STEP = re.compile(r"(start|stop|correct|gone) (\d+)|elect (\d+)( unclean)?|restore (\d+) from (\d+)")
_RUN = {"leader", "follower", "zombie-leader", "zombie-follower", "ahead", "behind"}
_NUMBERS = {
    name: "Int64"
    for name in ("step", "leader_id", "follower_id", "truncation_offset", "restart_offset", "lost_offsets", "lost_committed", "at_stake")
}


class PartitionSimulator:
    """One partition of a run, ready to be simulated.

    Proven to have been committed is here what lies below a checkpointed high watermark; what the metadata log proves besides is in
    `what_if_leaders`. Cuts are taken to lie between batches.
    """

    def __init__(self, tables: ArrowTables, run_id: str, cluster_id: str, topic: str, partition: int) -> None:
        """Read the partition's replicas.

        Raises:
            UsageError: a table cannot be read.
        """
        keys: dict[str, str | int | None] = {"run_id": run_id, "cluster_id": cluster_id, "topic": topic, "partition": partition}
        directories = tables.rows("replica_logs", ReplicaLog, **keys)
        logs = [row for row in directories if row.state == "current"]
        places = Counter((row.broker_id, row.log_dir) for row in directories)
        segments = tables.rows("segment_epochs", SegmentEpoch, **keys)
        epochs = tables.rows("epoch_start_offsets", EpochStartOffset, **keys)
        roles = {row.broker_id: row for row in tables.rows("replica_roles", ReplicaRole, **keys)}
        rules = tables.rows("replica_verdicts", ReplicaVerdict, **keys)
        self.corrected = {row.broker_id: row.corrected_checkpoint for row in logs if row.corrected_checkpoint is not None}
        self.protocol = Protocol(rules[0].protocol) if rules else Protocol.TRUNCATE_ON_FETCH
        runs = {broker for broker, row in roles.items() if row.standing in _RUN}
        replicas = {
            row.broker_id: simulated_replica(
                row,
                segments if places[row.broker_id, row.log_dir] == 1 else None,
                epochs,
                alive=row.broker_id in runs,
                in_isr=row.broker_id in roles and roles[row.broker_id].in_isr,
            )
            for row in logs
            if row.log_start_offset is not None and row.log_end_offset is not None
        }
        role = next(iter(roles.values()), None)
        choices = tables.rows("what_if_leaders", WhatIfLeader, **keys) if role and role.leader_id == NOBODY else []
        crashed = {row.candidate_id for row in choices if row.election == ElectionType.UNCLEAN}  # the controller takes them off the ELR
        self.situation = Situation(
            replicas=replicas,
            assigned=tuple(sorted({*replicas, *roles})),
            running=frozenset(runs),
            isr=frozenset(broker for broker, row in roles.items() if row.in_isr),
            elr=frozenset(broker for broker, row in roles.items() if row.in_elr and broker not in crashed),
            leader_id=role.leader_id if role and role.leader_id in replicas and role.leader_id in runs else NOBODY,
            leader_epoch=role.leader_epoch if role else -1,
        )
        compacted = any(row.compacted for row in rules) or any(row.cleaner_offset is not None for row in logs)
        self.context = Context(leader_epoch=self.situation.leader_epoch, compacted=compacted)

    def simulate(self, steps: Iterable[str | Action]) -> Simulation:
        """Apply steps one after the other; `steps` as for `Run.simulate`."""
        actions = [self._action(step) if isinstance(step, str) else step for step in steps]
        return simulate(self.situation, actions, protocol=self.protocol, context=self.context)

    def all_down(self) -> list[Order]:
        """Every order in which the partition could be brought back if all its brokers were stopped now."""
        situation = replace(self.situation, running=frozenset(), leader_id=NOBODY)
        return orders(situation, protocol=self.protocol, context=self.context)

    def orders(self) -> pd.DataFrame:
        """The ways to bring the partition back, the one that loses least first; none where somebody leads.

        Returns:
            leader_id, election (clean, unclean), steps, lost_offsets, lost_committed, not_caught_up, diverged (brokers).
        """
        found = orders(self.situation, protocol=self.protocol, context=self.context)
        rows = [
            {
                "leader_id": one.leader_id,
                "election": "clean" if one.is_clean else "unclean",
                "steps": ", ".join(said(outcome.action) for outcome in one.simulation.outcomes),
                "lost_offsets": one.simulation.lost_offsets,
                "lost_committed": sum(one.simulation.committed.values()),
                "not_caught_up": one.simulation.not_caught_up,
                "diverged": one.simulation.diverged,
            }
            for one in found
        ]
        names = ["leader_id", "election", "steps", "lost_offsets", "lost_committed", "not_caught_up", "diverged"]
        return pd.DataFrame(rows, columns=names).astype({name: _NUMBERS[name] for name in names if name in _NUMBERS})

    def _action(self, step: str) -> Action:
        found = _STEP.fullmatch(" ".join(step.split()))
        if found is None:
            raise UsageError(
                f"step {step!r}: give 'start 1', 'stop 1', 'elect 1', 'elect 1 unclean', 'correct 1', 'restore 1 from 2' or 'gone 1'"
            )
        verb, broker, elected, unclean, restored, source = found.groups()
        if elected:
            return Elect(int(elected), unclean=bool(unclean))
        if restored:
            return RestoreCopy(int(restored), int(source))
        if verb == "gone":
            return LoseDisk(int(broker))
        if verb != "correct":
            return StartBroker(int(broker)) if verb == "start" else StopBroker(int(broker))
        content = self.corrected.get(int(broker))
        if content is None:
            raise UsageError(f"step {step!r}: the leader-epoch-checkpoint of broker {broker} needs no correction, or none can be made")
        lines = [tuple(map(int, line.split())) for line in content.splitlines()[2:]]
        return ReplaceCheckpoint(int(broker), table((epoch, start) for epoch, start in lines))


def frame_of(done: Simulation, **keys: str | int) -> list[dict[str, object]]:
    """A row for each step and running follower, or one for a step without any; `keys` come first."""
    rows: list[dict[str, object]] = []
    for number, outcome in enumerate(done.outcomes, 1):
        step: dict[str, object] = {
            **keys,
            "step": number,
            "action": said(outcome.action),
            "not_done": None if outcome.not_done is None else str(outcome.not_done),
            "leader_id": outcome.situation.leader_id,
            "online": outcome.situation.is_online,
            "lost_offsets": outcome.lost_offsets,
            "lost_committed": sum(outcome.committed.values()),
        }
        followed: list[dict[str, object]] = [
            {
                "follower_id": broker,
                "truncation_offset": one.truncation_offset,
                "restart_offset": one.restart_offset,
                "caught_up": one.caught_up,
                "diverged": one.diverged,
            }
            for broker, one in sorted(outcome.followed.items())
        ]
        rows += [step | one for one in followed] or [step]
    return rows


def simulated_frame(rows: Sequence[dict[str, object]], keys: Sequence[str]) -> pd.DataFrame:
    """The rows of `frame_of`, with nullable types."""
    names = [*keys, "step", "action", "not_done", "leader_id", "online", "follower_id", "truncation_offset", "restart_offset", "caught_up"]
    made = pd.DataFrame(rows, columns=[*names, "diverged", "lost_offsets", "lost_committed"])
    flags = dict.fromkeys(("online", "caught_up", "diverged"), "boolean")
    return made.astype({name: kind for name, kind in (_NUMBERS | flags).items() if name in made.columns})


def said(action: Action) -> str:
    """Return a step as the caller writes it."""
    match action:
        case StartBroker():
            return f"start {action.broker_id}"
        case StopBroker():
            return f"stop {action.broker_id}"
        case Elect():
            return f"elect {action.broker_id}{' unclean' if action.unclean else ''}"
        case LoseDisk():
            return f"gone {action.broker_id}"
        case ReplaceCheckpoint():
            return f"correct {action.broker_id}"
        case RestoreCopy():
            return f"restore {action.broker_id} from {action.copy_of}"
