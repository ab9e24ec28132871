"""A controller, three brokers and one partition over time: what their metadata log and logs then tell, and what had really been committed.

Written after the behaviour of Kafka, not after the rules under test: a leader acts on the ISR that it has learned of, a controller on
sessions that end, and between the two lies time in which either may be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from replica_audit.protocol.cluster.cluster_history import ClusterHistory, Moment
from replica_audit.protocol.cluster.metadata_image import (
    NO_LEADER_CHANGE,
    BrokerFenced,
    BrokerRegistered,
    ConfigSet,
    MetadataImage,
    MetadataRecord,
    PartitionChanged,
    PartitionSet,
    Position,
    TopicCreated,
)
from replica_audit.protocol.comparison.commitment import CommitHistory
from replica_audit.protocol.exchange.replica import Replica
from tests.protocol import logs

BROKERS = (1, 2, 3)
TICK_MS, SESSION_MS, CHECK_MS = 250, 3000, 750
TOPIC_ID = "Qp6JWkXMQF-e2A5xW3-mBQ"


@dataclass
class Broker:
    """A process and its disk; what is below `# memory` dies with the process."""

    runs: bool = True
    frozen: bool = False
    fenced: bool = False
    contact_ms: int = 0
    records: list[int] = field(default_factory=list)  # the epoch of each offset
    table: dict[int, int] = field(default_factory=dict)
    checkpoint: int = 0
    # memory
    leads: int = -1  # the epoch in which it takes itself for the leader
    isr: frozenset[int] = frozenset()
    known_leader: tuple[int, int] = (-1, -1)
    ends: dict[int, int] = field(default_factory=dict)
    high_watermark: int = 0

    @property
    def acts(self) -> bool:
        return self.runs and not self.frozen


class World:
    """The partition orders-0; `passed` is every (epoch, offset) that a leader's high watermark passed."""

    def __init__(self, min_isr: int | None) -> None:
        self.image, self.now, self.offset = MetadataImage(), 1_700_000_000_000, 0
        self.brokers = {broker: Broker(contact_ms=self.now) for broker in BROKERS}
        self.leader, self.epoch, self.isr = 1, 0, frozenset(BROKERS)
        self.min_isr = min_isr or 1
        self.passed: set[tuple[int, int]] = set()
        self._write(*(BrokerRegistered(broker, fenced=True) for broker in BROKERS))
        self._write(*(BrokerFenced(broker, False) for broker in BROKERS))
        settings = [] if min_isr is None else [ConfigSet(2, "orders", "min.insync.replicas", str(min_isr))]
        created = PartitionSet(0, TOPIC_ID, BROKERS, BROKERS, 1, 0, 0, recovering=False, elr=(), last_known_elr=())
        self._write(TopicCreated("orders", TOPIC_ID), *settings, created)
        self._learn()

    def _write(self, *records: MetadataRecord) -> None:
        """One batch."""
        for record in records:
            self.image.apply(record, Position(self.offset, 1, self.now))
            self.offset += 1
        self.now += 1

    # ------------------------------------------------------------------------------------------------------- time

    def wait(self, _broker: int, ticks: int) -> None:
        """Brokers learn first what was written before, then the controller looks for those that are silent."""
        for _ in range(ticks):
            self.now += TICK_MS
            self._learn()
            for broker in self.brokers.values():
                if broker.acts:
                    broker.contact_ms = self.now
            if self.now % CHECK_MS < TICK_MS:
                for name, broker in self.brokers.items():
                    if not broker.fenced and self.now - broker.contact_ms > SESSION_MS:
                        self._fence(name)

    def _learn(self) -> None:
        for name, broker in self.brokers.items():
            if not broker.acts:
                continue
            if broker.fenced:
                self._unfence(name)
            broker.known_leader = (self.epoch, self.leader)
            if self.leader != name:
                broker.leads = -1
                continue
            if broker.leads != self.epoch:
                broker.leads, broker.ends = self.epoch, dict.fromkeys(BROKERS, 0)
                broker.table[self.epoch] = len(broker.records)
            broker.isr = self.isr
            self._advance(name)

    def _fence(self, name: int) -> None:
        broker, before = self.brokers[name], (self.leader, self.isr)
        broker.fenced = True
        rest = self.isr - {name}
        alive = sorted(other for other in rest if not self.brokers[other].fenced)
        if self.leader == name:
            self.epoch += 1
            self.leader, self.isr = (alive[0], rest) if alive else (-1, self.isr if self.isr == {name} else rest)
        elif rest and name in self.isr:
            self.isr = rest
        changed = [self._change(before)] if (self.leader, self.isr) != before else []
        self._write(*changed, BrokerFenced(name, True))

    def _unfence(self, name: int) -> None:
        broker, before = self.brokers[name], (self.leader, self.isr)
        broker.fenced = False
        broker.contact_ms = self.now
        if self.leader < 0:  # uncleanly, if need be
            self.epoch += 1
            self.leader, self.isr = name, self.isr if name in self.isr and len(self.isr) == 1 else frozenset({name})
        changed = [self._change(before)] if (self.leader, self.isr) != before else []
        self._write(BrokerFenced(name, False), *changed)

    def _change(self, before: tuple[int, frozenset[int]]) -> PartitionChanged:
        leader = NO_LEADER_CHANGE if self.leader == before[0] else self.leader
        return PartitionChanged(0, TOPIC_ID, tuple(sorted(self.isr)), leader, None, None, None, None)

    # ---------------------------------------------------------------------------------------------------- brokers

    def append(self, name: int, count: int) -> None:
        """Whoever takes itself for the leader accepts what it is sent."""
        broker = self.brokers[name]
        if broker.acts and broker.leads >= 0:
            broker.records += [broker.leads] * count
            self._advance(name)

    def fetch(self, name: int, _: int) -> None:
        """A follower is cut to what it shares with its leader, fetches all, and joins the ISR."""
        broker = self.brokers[name]
        epoch, leads = broker.known_leader
        leader = self.brokers.get(leads)
        if not broker.acts or leader is None or leads == name or not leader.acts or leader.leads != epoch:
            return
        shared = next((at for at, (own, its) in enumerate(zip(broker.records, leader.records, strict=False)) if own != its), None)
        shared = min(len(broker.records), len(leader.records)) if shared is None else shared
        # the fetch tells the leader where the follower is; what it answers counts with the next one
        leader.ends[name] = shared
        broker.records = [*leader.records]
        broker.table = {e: broker.records.index(e) for e in dict.fromkeys(broker.records)}
        broker.high_watermark = min(leader.high_watermark, len(broker.records))
        broker.checkpoint = min(broker.checkpoint, shared)
        caught_up = shared >= max(leader.high_watermark, leader.table[epoch])
        if caught_up and name not in self.isr and not broker.fenced and (self.epoch, self.leader) == (epoch, leads):
            before = self.leader, self.isr
            self.isr |= {name}
            self._write(self._change(before))
            leader.isr = self.isr
        self._advance(leads)

    def _advance(self, name: int) -> None:
        broker = self.brokers[name]
        if broker.leads < 0 or len(broker.isr) < self.min_isr:
            return
        reached = min([len(broker.records), *(broker.ends[member] for member in broker.isr if member != name)])
        broker.high_watermark = max(broker.high_watermark, reached)
        self.passed |= {(broker.records[offset], offset) for offset in range(broker.high_watermark)}

    def write_down(self, name: int, _: int) -> None:
        """replication-offset-checkpoint."""
        if self.brokers[name].acts:
            self.brokers[name].checkpoint = self.brokers[name].high_watermark

    def kill(self, name: int, _: int) -> None:
        broker = self.brokers[name]
        dead = Broker(runs=False, fenced=broker.fenced, contact_ms=broker.contact_ms)
        self.brokers[name] = replace(dead, records=broker.records, table=broker.table, checkpoint=broker.checkpoint)

    def start(self, name: int, _: int) -> None:
        """A broker whose session goes on is refused until it ends."""
        broker = self.brokers[name]
        if not broker.runs and broker.fenced:
            broker.runs, broker.high_watermark = True, min(broker.checkpoint, len(broker.records))
            self._write(BrokerRegistered(name, fenced=True))

    def freeze(self, name: int, _: int) -> None:
        self.brokers[name].frozen = self.brokers[name].runs

    def resume(self, name: int, _: int) -> None:
        self.brokers[name].frozen = False

    # ---------------------------------------------------------------------------------------------------- in the end

    def replicas(self) -> dict[int, Replica]:
        """The logs as they lie on disk."""
        found = {}
        for name, broker in self.brokers.items():
            epochs = sorted((epoch, start) for epoch, start in broker.table.items())
            batches = [(epoch, offset, offset) for offset, epoch in enumerate(broker.records)]
            found[name] = logs.replica(name, batches, epochs=epochs, end=len(broker.records), high_watermark=broker.checkpoint)
        return found

    def history(self) -> CommitHistory:
        """What the metadata log tells; the copies are simultaneous."""
        end = Moment(self.offset, 1, self.now)
        (metadata,) = self.image.partitions(1, self.offset)
        cluster = ClusterHistory(
            broker_events=tuple(self.image.broker_events),
            min_isr=tuple(self.image.min_isr.of_brokers),
            end=end,
            release=(4, 3),
            release_is_exact=True,
        )
        return CommitHistory.of(metadata, cluster, simultaneous=True, is_outdated=False)
