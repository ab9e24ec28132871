"""The scenarios of KIP-101 and KIP-279, to be played under every protocol; no warehouse is needed."""

from __future__ import annotations

from collections.abc import Sequence

from replica_audit.notebook.replay import Batch, Log, Scenario


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
    """A scenario of one's own.

    Args:
        leader: the batches of the leader, as (leader epoch, base offset, last offset), from offset 0 on.
        follower: those of the follower that comes back.
        high_watermark: the follower's.
        title: of the plot.
    """
    return Scenario(title, Log(broker="A", batches=tuple(leader)), Log(broker="B", batches=tuple(follower), high_watermark=high_watermark))
