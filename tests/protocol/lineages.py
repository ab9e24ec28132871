"""Histories that real elections, writes, fetches and truncations lead to: what the rules are held against in property tests.

A record is told by (epoch, offset), for only one leader writes in an epoch. A fetching follower is cut to what it shares with its leader,
found by comparing records: nothing here asks an epoch table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from replica_audit.protocol.comparison.pair import Comparison
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.rows.codes import Protocol
from tests.protocol import logs

BROKERS = (1, 2, 3)


@dataclass
class Log:
    """One replica: batches as (epoch, base, last), the table that its broker keeps, its high watermark."""

    batches: list[logs.Batch] = field(default_factory=list)
    table: dict[int, int] = field(default_factory=dict)
    start: int = 0
    high_watermark: int = 0

    @property
    def end(self) -> int:
        return self.batches[-1][2] + 1 if self.batches else self.start

    @property
    def records(self) -> dict[int, int]:
        """Offset → epoch of everything held, also below the log start where a batch spans it."""
        return {offset: epoch for epoch, base, last in self.batches for offset in range(base, last + 1)}

    def append(self, batch: logs.Batch) -> None:
        self.batches.append(batch)
        self.table.setdefault(batch[0], batch[1])

    def cut(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch[2] < offset]
        self.table = {epoch: start for epoch, start in self.table.items() if start < offset}
        self.high_watermark = min(self.high_watermark, self.end)

    def trim(self, batches: int) -> None:
        """Retention: the oldest batches go; the epoch that covers the new start moves up to it."""
        self.batches, gone = self.batches[batches:], self.batches[:batches]
        if not gone:
            return
        self.start = gone[-1][2] + 1
        below = [epoch for epoch, start in self.table.items() if start <= self.start]
        self.table = {epoch: max(start, self.start) for epoch, start in self.table.items() if epoch not in below[:-1]}
        self.high_watermark = max(self.high_watermark, self.start)

    def restart(self, offset: int) -> None:
        self.batches, self.table, self.start, self.high_watermark = [], {}, offset, offset

    def replica(self, broker_id: int, **fields: Any) -> Replica:
        given = {"high_watermark": self.high_watermark, "alive": False} | fields
        return logs.replica(broker_id, self.batches, epochs=list(self.table.items()), start=self.start, end=self.end, **given)


@dataclass
class Partition:
    """Three replicas of a partition, with what was ever committed as (epoch, offset)."""

    replicas: dict[int, Log] = field(default_factory=lambda: {broker: Log() for broker in BROKERS})
    leader: int = 1
    epoch: int = 0
    isr: set[int] = field(default_factory=lambda: set(BROKERS))
    acknowledged: dict[int, int] = field(default_factory=dict)
    committed: set[tuple[int, int]] = field(default_factory=set)
    highest_start: int = 0

    @property
    def followers(self) -> list[int]:
        return [broker for broker in BROKERS if broker != self.leader]

    def elect(self, broker: int, bump: int) -> None:
        """An election that may be unclean: whoever is not in the ISR leads it alone."""
        if broker not in self.isr:
            self.isr = {broker}
        self.leader, self.epoch = broker, self.epoch + bump
        log = self.replicas[broker]
        log.table = {epoch: start for epoch, start in log.table.items() if start < log.end} | {self.epoch: log.end}
        self.acknowledged = {}
        self._commit()

    def elect_cleanly(self, broker: int, bump: int) -> None:
        if broker in self.isr:
            self.elect(broker, bump)

    def append(self, _broker: int, offsets: int) -> None:
        log = self.replicas[self.leader]
        log.append((self.epoch, log.end, log.end + offsets - 1))
        self._commit()

    def shrink(self, broker: int, _: int) -> None:
        if broker != self.leader:
            self.isr.discard(broker)
            self._commit()

    def trim(self, broker: int, batches: int) -> None:
        log = self.replicas[broker]
        log.trim(sum(batch[2] < log.high_watermark for batch in log.batches[:batches]))
        self.highest_start = max(self.highest_start, log.start)

    def fetch(self, broker: int, batches: int) -> None:
        if broker == self.leader:
            return
        log, leader = self.replicas[broker], self.replicas[self.leader]
        if log.end < leader.start:
            log.restart(leader.start)
        log.cut(self._parts(log, leader))
        for batch in [batch for batch in leader.batches if batch[2] >= log.end][:batches]:
            if batch[1] < log.end and log.batches:
                return  # the fetcher fails
            if batch[1] < log.end:
                log.restart(batch[1])
            log.append(batch)
        self.acknowledged[broker] = log.end
        if log.end >= max(leader.high_watermark, leader.table[self.epoch]):
            self.isr.add(broker)
        self._commit()
        log.high_watermark = max(log.high_watermark, min(leader.high_watermark, log.end))

    @staticmethod
    def _parts(log: Log, leader: Log) -> int:
        own, theirs = log.records, leader.records
        shared = range(max(log.start, leader.start), min(log.end, leader.end))
        return next((offset for offset in shared if own.get(offset) != theirs.get(offset)), min(log.end, leader.end))

    def _commit(self) -> None:
        """The leader moves its high watermark to what every member of the ISR is known to hold."""
        leader, others = self.replicas[self.leader], self.isr - {self.leader}
        if others <= self.acknowledged.keys():
            leader.high_watermark = max(leader.high_watermark, min([leader.end, *(self.acknowledged[other] for other in others)]))
        records = leader.records
        self.committed |= {(records[offset], offset) for offset in records if offset < leader.high_watermark}


def moments(draw: st.DrawFn, *, elections: str = "elect", retention: bool = False) -> Iterator[Partition]:
    """One partition at its beginning, and after each of some thirty events; arguments as of `partitions`."""
    kinds = [[elections], [elections, "append"], [elections, "append"], ["append"], ["fetch"], ["fetch"], ["shrink"]]
    events = st.tuples(st.sampled_from([*kinds, ["trim"]] if retention else kinds), st.sampled_from(BROKERS), st.integers(1, 3))
    partition = Partition()
    partition.elect(1, 0)
    yield partition
    for event, broker, amount in draw(st.lists(events, min_size=8, max_size=30)):
        for part in event:
            getattr(partition, part)(broker, amount)
        yield partition


@st.composite
def partitions(draw: st.DrawFn, *, elections: str = "elect", retention: bool = False) -> Partition:
    """A partition after some thirty events. `elections`: `elect`, where any replica may win, or `elect_cleanly`, where only the ISR may."""
    *_before, partition = moments(draw, elections=elections, retention=retention)
    if draw(st.booleans()):
        partition.elect_cleanly(draw(st.sampled_from(sorted(partition.isr))), 1)
    return partition


@st.composite
def batches(draw: st.DrawFn, *, gaps: bool = True, lowest_epoch: int = -1, count: int = 6) -> list[logs.Batch]:
    """Any batches that a file can hold: offsets ascend, epochs are what they are."""
    made: list[logs.Batch] = []
    offset = draw(st.integers(0, 4))
    for _ in range(draw(st.integers(0, count))):
        offset += draw(st.integers(0, 2)) if gaps else 0
        length = draw(st.integers(1, 4))
        made.append((draw(st.integers(lowest_epoch, 4)), offset, offset + length - 1))
        offset += length
    return made


@st.composite
def tables(draw: st.DrawFn, count: int = 5) -> list[tuple[int, int]]:
    """Any table that a broker can hold: epochs and starts ascend."""
    epoch, start = draw(st.integers(0, 3)), draw(st.integers(0, 6))
    made = []
    for _ in range(draw(st.integers(0, count))):
        made.append((epoch, start))
        epoch, start = epoch + draw(st.integers(1, 3)), start + draw(st.integers(1, 6))
    return made


def held(found: Replica) -> dict[int, int]:
    """Offset → epoch of a replica's history."""
    return {offset: span.leader_epoch for span in found.history for offset in range(span.first_offset, span.end_offset)}


@st.composite
def _replicas(draw: st.DrawFn, broker_id: int) -> Replica:
    found = draw(batches())
    end = found[-1][2] + 1 if found else draw(st.integers(0, 20))
    start = draw(st.integers(0, end)) if found else end
    known = logs.first_of_each_epoch(found)
    ascending = [entry for entry in known if all(entry.start_offset >= other.start_offset for other in known if other.epoch < entry.epoch)]
    return logs.replica(
        broker_id,
        found,
        epochs=draw(st.one_of(st.just(ascending), tables())),
        start=start,
        end=end,
        first_segment_base=draw(st.integers(0, start)),
        high_watermark=draw(st.one_of(st.none(), st.integers(0, 40))),
        cleaner_offset=draw(st.one_of(st.none(), st.none(), st.integers(0, 30))),
        alive=draw(st.sampled_from([None, True, False])),
        in_isr=draw(st.booleans()),
    )


@st.composite
def comparisons(draw: st.DrawFn) -> Comparison:
    """Any two replicas and up to two witnesses, under any protocol, whether or not any cluster could come to hold them."""
    leader, follower = draw(_replicas(1)), draw(_replicas(2))
    witnesses = [draw(_replicas(broker)) for broker in range(3, draw(st.integers(3, 5)))]
    return logs.compare(
        leader,
        follower,
        *witnesses,
        protocol=draw(st.sampled_from(list(Protocol))),
        leader_epoch=draw(st.integers(-1, 6)),
        compacted=draw(st.booleans()),
        simultaneous=draw(st.booleans()),
    )
