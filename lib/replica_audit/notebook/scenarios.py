"""Two logs of one partition played under every protocol, and the scenarios of KIP-101 and KIP-279; no warehouse is needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import altair as alt
import pandas as pd

from replica_audit.model import BatchHeader, BatchRun
from replica_audit.notebook.charts import ChartMark, Stretch, replicas_chart
from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.comparison.pair import Comparison, Effect
from replica_audit.protocol.epochs import lineage
from replica_audit.protocol.epochs.replica_log import LoadedLog, epochs_from_runs
from replica_audit.protocol.exchange.cuts import can_fail_to_append, lies_inside_a_batch, measure_removal
from replica_audit.protocol.exchange.replay import RULES, Truncation
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.verdict import judge
from replica_audit.rows.codes import Protocol

Batch = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One broker's log: batches as (leader epoch, base offset, last offset), ascending, from offset 0 on; and its high watermark."""

    broker: str
    batches: tuple[Batch, ...]
    high_watermark: int = 0

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.batches[-1][2] + 1 if self.batches else 0

    @property
    def headers(self) -> list[BatchHeader]:
        """The batches as their headers would tell them, one record for each offset."""
        return [_header(*batch) for batch in self.batches]

    def replica(self, number: int) -> Replica:
        """The log as the rules see it, as it would be loaded from its files."""
        runs = tuple(_run(*batch) for batch in self.batches)
        log = LoadedLog(log_start_offset=0, log_end_offset=self.end, first_segment_base=0, epochs=epochs_from_runs(runs), runs=runs)
        return Replica(broker_id=number, log=log, history=tuple(lineage.history_of_runs(runs)), high_watermark=self.high_watermark)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What one protocol does: the comparison, and what the follower holds once records flow again, up to the leader's end."""

    comparison: Comparison
    after: tuple[lineage.Span, ...]

    @property
    def truncation(self) -> Truncation:
        """The exchange and its cuts."""
        return self.comparison.effect.truncation

    @property
    def outcome(self) -> str:
        """Describe the follower's end state in a few words."""
        if self.truncation.stuck:
            return "never fetches again"
        if self.comparison.effect.fetcher_fails:
            return "the fetcher fails"
        if not self.comparison.still_diverged:
            return "agrees with the leader"
        missing = any(piece.right_epoch is None for piece in self._conflicts)
        differs = any(piece.right_epoch is not None for piece in self._conflicts)
        return " and ".join(["silently diverged"] * differs + ["records are missing for good"] * missing)

    @property
    def _conflicts(self) -> list[lineage.Piece]:
        leader = self.comparison.leader
        pieces = lineage.pieces(leader.history, self.after, 0, max((span.end_offset for span in self.after), default=0))
        return [piece for piece in pieces if piece.right_epoch is None or piece.left_epoch is None or lineage.differ(piece)]

    def stretches(self, row: str) -> list[Stretch]:
        """What the follower holds afterwards, for a plot."""
        conflicts = [(piece.first_offset, piece.end_offset) for piece in self._conflicts]
        borders = sorted({border for conflict in conflicts for border in conflict})
        drawn = []
        for span in self.after:
            inside = [border for border in borders if span.first_offset < border < span.end_offset]
            for first, end in zip([span.first_offset, *inside], [*inside, span.end_offset], strict=True):
                fate = "conflicts" if any(low <= first < high for low, high in conflicts) else "stays"
                drawn.append(Stretch(row, str(span.leader_epoch), first, end, fate))
        return drawn


@dataclass(frozen=True)
class Scenario:
    """A leader, and a follower that comes back. `table()`, `rounds(protocol)` and `plot()` show what each protocol does with it."""

    title: str
    leader: Log
    follower: Log

    @cached_property
    def played(self) -> dict[Protocol, Played]:
        """Result of each protocol."""
        return {protocol: _play(self.leader, self.follower, protocol) for protocol in RULES}

    def table(self) -> pd.DataFrame:
        """One row per protocol.

        Returns:
            protocol, truncation_offset (missing: not cut), removed_offsets (from the physical cut), round_trips, fetch_offset (where
            records flow again), outcome, verdict.
        """
        rows = [
            {
                "protocol": str(protocol),
                "truncation_offset": one.truncation.truncation_offset,
                "removed_offsets": 0
                if one.comparison.effect.physical_offset is None
                else self.follower.end - one.comparison.effect.physical_offset,
                "round_trips": one.truncation.round_trips,
                "fetch_offset": one.truncation.fetch_offset,
                "outcome": one.outcome,
                "verdict": str(judge(one.comparison).verdict),
            }
            for protocol, one in self.played.items()
        ]
        numbers = ("truncation_offset", "removed_offsets", "round_trips", "fetch_offset")
        return pd.DataFrame(rows).astype(dict.fromkeys(numbers, "Int64"))

    def rounds(self, protocol: str) -> pd.DataFrame:
        """Every request and answer under one protocol, in order.

        Returns:
            request, fetch_offset, requested_epoch, answered_epoch, answered_end_offset (exclusive), truncate_to; missing where there is
            none.
        """
        numbers = ["fetch_offset", "requested_epoch", "answered_epoch", "answered_end_offset", "truncate_to"]
        steps = self.played[Protocol(protocol)].truncation.steps
        rows = [{"request": str(step.request)} | {name: getattr(step, name) for name in numbers} for step in steps]
        return pd.DataFrame(rows, columns=["request", *numbers]).astype(dict.fromkeys(numbers, "Int64"))

    def plot(self) -> alt.LayerChart:
        """The leader, the follower as it comes back, and the follower after each protocol, with each cut."""
        before = f"follower {self.follower.broker}"
        rows = {protocol: f"after {protocol}" for protocol in RULES}
        leader = f"leader {self.leader.broker}"
        drawn = [*_held(leader, self.leader), *_held(before, self.follower)]
        noted = [ChartMark(before, "high watermark", self.follower.high_watermark, "of the follower")]
        said = []
        for protocol, one in self.played.items():
            drawn += one.stretches(rows[protocol])
            cut = one.truncation.truncation_offset
            if cut is not None:
                noted.append(ChartMark(rows[protocol], "cut", cut, str(protocol)))
            if one.comparison.effect.fetcher_fails:
                noted.append(ChartMark(rows[protocol], "fetch that fails", one.truncation.fetch_offset, "inside a batch of the leader"))
            said.append(f"{protocol}: {'nothing is cut' if cut is None else f'cut to {cut}'}, {one.outcome}")
        end = max(self.leader.end, self.follower.end)
        return replicas_chart(
            drawn,
            noted,
            rows=[leader, before, *rows.values()],
            shown=(0, end),
            title=self.title,
            description=f"{self.title}. {'; '.join(said)}.",
        )


def _play(leader_log: Log, follower_log: Log, protocol: Protocol) -> Played:
    leader, follower = leader_log.replica(1), follower_log.replica(2)
    truncation = RULES[protocol](leader.as_leader(), follower.as_follower())
    cut = truncation.truncation_offset
    physical = None if cut is None else measure_removal(follower_log.headers, cut, follower_log.end).physical_offset
    fails = can_fail_to_append(truncation) and lies_inside_a_batch(leader_log.headers, truncation.fetch_offset)
    effect = Effect(truncation=truncation, physical_offset=physical, fetcher_fails=fails)
    after = lineage.until(follower.history, follower_log.end if physical is None else physical)
    if not fails and not truncation.stuck:
        fetched = (span._replace(first_offset=max(span.first_offset, truncation.fetch_offset)) for span in leader.history)
        after += [span for span in fetched if span.first_offset < span.end_offset]
    context = Context(leader_epoch=leader_log.batches[-1][0] if leader_log.batches else -1)
    return Played(comparison=Comparison(leader=leader, follower=follower, context=context, effect=effect), after=tuple(after))


def _held(row: str, log: Log) -> Iterable[Stretch]:
    return [Stretch(row, str(epoch), base, last + 1, "stays") for epoch, base, last in log.batches]


def _run(epoch: int, base: int, last: int) -> BatchRun:
    return BatchRun(
        leader_epoch=epoch,
        first_offset=base,
        last_offset=last,
        batch_count=1,
        record_count=last - base + 1,
        size_bytes=1,
        min_timestamp_ms=0,
        max_timestamp_ms=0,
        magic=2,
        intact=True,
    )


def _header(epoch: int, base: int, last: int) -> BatchHeader:
    return BatchHeader(
        position=0,
        base_offset=base,
        last_offset=last,
        size_bytes=1,
        magic=2,
        leader_epoch=epoch,
        record_count=last - base + 1,
        max_timestamp_ms=0,
    )


def batches(epoch: int, first: int, last: int, size: int | None = None) -> tuple[Batch, ...]:
    """Offsets first to last, both inclusive, as batches of one epoch: of so many offsets each, or all in one."""
    size = size or last - first + 1
    return tuple((epoch, base, min(base + size - 1, last)) for base in range(first, last + 1, size))


def kip_101_1_restart() -> Scenario:
    """KIP-101, scenario 1, A restarts: it has m2, but its high watermark does not cover it yet."""
    m1_m2 = batches(0, 0, 1, 1)
    return Scenario(
        "KIP-101, scenario 1: A restarts",
        Log(broker="B", batches=m1_m2, high_watermark=2),
        Log(broker="A", batches=m1_m2, high_watermark=1),
    )


def kip_101_1_failover() -> Scenario:
    """KIP-101, scenario 1, then: A had dropped m2, led, and wrote m3 in its place. B comes back with the committed m2."""
    return Scenario(
        "KIP-101, scenario 1: B comes back to A, which dropped m2",
        Log(broker="A", batches=((0, 0, 0), (1, 1, 1)), high_watermark=2),
        Log(broker="B", batches=batches(0, 0, 1, 1), high_watermark=2),
    )


def kip_101_2() -> Scenario:
    """KIP-101, scenario 2: both fail hard. B had lost m2, leads first and writes m3; A comes back with m2 in the same place."""
    return Scenario(
        "KIP-101, scenario 2: after hard failures",
        Log(broker="B", batches=((0, 0, 0), (1, 1, 1)), high_watermark=1),
        Log(broker="A", batches=batches(0, 0, 1, 1), high_watermark=2),
    )


def kip_279_1(n: int = 20, leader_batch: int | None = None, follower_batch: int | None = None) -> Scenario:
    """KIP-279, scenario 1: A has 0..20 in epoch 1 and 21..30 in epoch 3, B 0..10 in epoch 1 and 11..n in epoch 2. B comes back.

    Args:
        n: the last offset of B, at least 11.
        leader_batch: how many offsets each of A's batches in 11..20 has; None for one batch.
        follower_batch: how many each of B's batches from 11 on has; None for one batch.
    """
    leader = (*batches(1, 0, 10), *batches(1, 11, 20, leader_batch), *batches(3, 21, 30))
    return Scenario(
        f"KIP-279, scenario 1, n = {n}",
        Log(broker="A", batches=leader, high_watermark=31),
        Log(broker="B", batches=(*batches(1, 0, 10), *batches(2, 11, n, follower_batch)), high_watermark=11),
    )


def kip_279_2() -> Scenario:
    """KIP-279, scenario 2: KIP-101's first scenario again. No answer may cut what may have been committed."""
    first = kip_101_1_restart()
    return Scenario("KIP-279, scenario 2: a restart with a high watermark that lags", first.leader, first.follower)


def kip_279_3(high_watermark: int = 0) -> Scenario:
    """KIP-279, scenario 3, fast fail-over: A has a record each of epochs 0 and 2, B of 1 and 3. A comes back."""
    return Scenario(
        "KIP-279, scenario 3: unclean elections in turn",
        Log(broker="B", batches=((1, 0, 0), (3, 1, 1)), high_watermark=2),
        Log(broker="A", batches=((0, 0, 0), (2, 1, 1)), high_watermark=high_watermark),
    )


def many_elections() -> Scenario:
    """Three epochs that the leader does not know: a round for each until both know the answered one."""
    return Scenario(
        "Elections in turn, three rounds",
        Log(broker="A", batches=(*batches(1, 0, 9, 5), (3, 10, 19), (5, 20, 29), (7, 30, 39)), high_watermark=40),
        Log(broker="B", batches=((1, 0, 4), (2, 5, 11), (4, 12, 24), (6, 25, 39)), high_watermark=5),
    )


def pair(
    leader: Sequence[Batch], follower: Sequence[Batch], *, high_watermark: int = 0, title: str = "A scenario of one's own"
) -> Scenario:
    """Make a scenario of two logs.

    Args:
        leader: the batches of the leader, as (leader epoch, base offset, last offset), from offset 0 on.
        follower: those of the follower that comes back.
        high_watermark: the follower's.
        title: of the plot.
    """
    return Scenario(title, Log(broker="A", batches=tuple(leader)), Log(broker="B", batches=tuple(follower), high_watermark=high_watermark))
