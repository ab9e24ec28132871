"""Plans of random clusters, carried out in a simulation that knows nothing of the product's: sets of records, and who leads.

`python -m tests.recovery.hunt --total N` tries N clusters, and ends at the first one whose plan breaks a rule: its seed is printed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from replica_audit.config import Settings
from replica_audit.errors import AuditError
from replica_audit.local_run import triage
from replica_audit.past.recovery import recovery_facts
from replica_audit.past.run import PastRun
from replica_audit.protocol.exchange.replay import Protocol
from replica_audit.recovery.invariants import PlanDefectError
from replica_audit.recovery.plan import plan_of
from replica_audit.recovery.steps import Action, Copy, CorrectFile, Elect, GroupPolicy, Plan, PutBack, StartBroker, StopBroker, TakeOut
from tests.scenarios.disks import TOPIC, VERSIONS, Cluster, Disk

BROKERS = (1, 2, 3)
Batch = tuple[int, int, int]
Record = tuple[int, int]  # epoch, offset


@dataclass(kw_only=True)
class World:
    """What is really on the brokers' disks, whatever the copies look like. `unread`: brokers whose copies are damaged."""

    held: dict[int, list[Record]]
    leader: int
    isr: tuple[int, ...]
    running: set[int]
    crashed: frozenset[int]
    unread: set[int] = field(default_factory=set)
    is_guess: bool = False
    is_whole: bool = True
    copied: set[Record] = field(default_factory=set)
    started: set[int] = field(default_factory=set)


def random_cluster(random: Random) -> tuple[Cluster, World]:
    """Replicas that share a beginning, each with a tail of an epoch of its own, or none; somebody leads, or nobody."""
    common: list[Batch] = []
    offset, epoch = 0, 1
    for _batch in range(random.randint(1, 4)):
        size = random.randint(1, 3)
        common.append((epoch, offset, offset + size - 1))
        offset, epoch = offset + size, epoch + random.randint(0, 1)
    batches: dict[int, list[Batch]] = {}
    for place, broker in enumerate(random.sample(BROKERS, 3), 1):
        kept = common[: random.randint(max(1, len(common) - 1), len(common))]
        end = kept[-1][2] + 1
        tail = [] if random.random() < 0.4 else [(10 + place, end, end + random.randint(0, 3))]
        batches[broker] = [*kept, *tail]
    epochs = {broker: of[-1][0] for broker, of in batches.items()}
    leads = max(BROKERS, key=lambda broker: (epochs[broker], len(batches[broker])))
    nobody = random.random() < 0.4
    up = set() if nobody else {leads, *(broker for broker in BROKERS if random.random() < 0.3 and batches[broker] == batches[leads])}
    isr = (random.choice(BROKERS),) if nobody else tuple(sorted(up))
    crashed = frozenset(broker for broker in BROKERS if broker not in up and random.random() < 0.5)
    disks = {broker: Disk(batches=of, high_watermark=common[0][2] + 1, clean=broker not in crashed) for broker, of in batches.items()}
    cluster = Cluster(disks=disks, leader=-1 if nobody else leads, leader_epoch=20, isr=isr, up=tuple(sorted(up)))
    held = {broker: [(one, at) for one, first, last in of for at in range(first, last + 1)] for broker, of in batches.items()}
    return cluster, World(held=held, leader=cluster.leader, isr=isr, running=set(up), crashed=crashed)


def damage(random: Random, home: Path, world: World) -> str:
    """Damage the copies of a broker, or what says who leads; the brokers have their files still."""
    broker = random.choice(BROKERS)
    directory = home / f"broker-{broker}" / "data-0"
    kind = random.choice(("nothing", "nothing", "no segments", "garbled table", "garbled checkpoint", "no metadata", "twice"))
    if kind == "no segments":
        for path in (directory / f"{TOPIC}-0").glob("*.log"):
            path.unlink()
        world.unread.add(broker)
    elif kind == "garbled table":
        (directory / f"{TOPIC}-0" / "leader-epoch-checkpoint").write_text("none\n")
        world.is_whole = False
    elif kind == "garbled checkpoint":
        (directory / "replication-offset-checkpoint").write_text("none\n")
        world.unread.add(broker)
    elif kind == "no metadata":
        (home / "cluster-metadata.json").unlink()
        world.is_guess = True
    elif kind == "twice":
        (home / f"broker-{broker}-bak").mkdir()
        for path in sorted(directory.rglob("*")):
            target = home / f"broker-{broker}-bak" / "data-0" / path.relative_to(directory)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.is_file():
                target.write_bytes(path.read_bytes())
        world.unread.add(broker)
    return f"{kind} of broker {broker}"


class Broken(Exception):
    """A rule that a plan breaks, as the simulation sees it."""


def carry_out(plan: Plan, world: World) -> None:
    """Do what the plan says.

    Raises:
        Broken: it breaks a rule.
    """
    for step in plan.steps:
        for action in step.actions:
            _do(action, world)


def _do(action: Action, world: World) -> None:
    match action:
        case Copy(replicas):
            for *_key, broker in replicas:
                world.copied.update(world.held[broker])
        case StopBroker(broker):
            _untouched(world, broker)
            world.running.discard(broker)
        case CorrectFile((_topic, _partition, broker)):
            if broker in world.running or broker in world.started:
                raise Broken(f"a file of broker {broker} is corrected while it runs, or after its start")
        case StartBroker(broker):
            _start(world, broker)
        case Elect(_key, broker):
            _elect(world, broker)
        case TakeOut((_topic, _partition, broker)):
            _delete(world, broker)
        case PutBack((_topic, _partition, broker)):
            world.held[broker] = list(world.held[world.leader])


def _delete(world: World, broker: int) -> None:
    _untouched(world, broker)
    if broker not in world.running:
        raise Broken(f"broker {broker} does not run, and is to delete its replica")
    _remove(world, broker, [])


def _elect(world: World, broker: int) -> None:
    if broker not in world.running:
        raise Broken(f"broker {broker} is elected and does not run")
    if world.is_guess:
        raise Broken("an election on a guess")
    if world.leader != broker:
        _lead(world, broker)


def _untouched(world: World, broker: int) -> None:
    if broker in world.unread or (world.is_guess and broker not in world.running):
        raise Broken(f"broker {broker} is touched on a guess")


def _start(world: World, broker: int) -> None:
    _untouched(world, broker)
    if broker in world.started:
        raise Broken(f"broker {broker} is started twice")
    world.started.add(broker)
    world.running.add(broker)
    if world.leader >= 0 and world.leader != broker:
        _follow(world, broker)
    elif world.leader < 0 and broker in world.isr:
        _lead(world, broker)


def _lead(world: World, broker: int) -> None:
    world.leader = broker
    for other in sorted(world.running - {broker}):
        _follow(world, other)


def _follow(world: World, broker: int) -> None:
    leads = world.held[world.leader]
    common = [mine for mine, its in zip(world.held[broker], leads, strict=False) if mine == its]
    _remove(world, broker, common)


def _remove(world: World, broker: int, kept: list[Record]) -> None:
    elsewhere = {record for other, of in world.held.items() if other != broker for record in of} | world.copied
    lost = [record for record in world.held[broker] if record not in kept and record not in elsewhere]
    if lost:
        raise Broken(f"broker {broker} removes {lost}, which nobody else has and nobody copied")
    world.held[broker] = kept


def price(world: World, broker: int) -> int:
    """Records that no replica has once a broker leads and all others follow it."""
    return len({record for of in world.held.values() for record in of} - set(world.held[broker]))


def tried(seed: int, root: Path) -> str:
    """Try one cluster. Returns what it was.

    Raises:
        Broken: its plan breaks a rule.
        PlanDefectError: the product says so itself.
    """
    random = Random(seed)  # noqa: S311
    cluster, world = random_cluster(random)
    version = VERSIONS[Protocol.TRUNCATE_ON_FETCH]
    home = root / str(seed)
    for broker, disk in cluster.disks.items():
        cluster._write(home / f"broker-{broker}" / "data-0", broker, disk, version, up=broker in world.running)
    (home / "cluster-metadata.json").write_text(json.dumps(cluster._metadata(version, tuple(world.running))))
    kind = damage(random, home, world)
    run = PastRun(triage([str(home)], Settings(), tell=lambda event: None, run_id="now").tables, "now")
    before = {broker: price(world, broker) for broker in BROKERS}
    leaderless, is_whole = world.leader < 0, world.is_whole and not world.unread and not world.is_guess
    for facts in recovery_facts(run):
        plan = plan_of(facts, GroupPolicy.RE_READ)
        carry_out(plan, world)
        if leaderless and is_whole and world.leader >= 0 and not plan.crossed and before[world.leader] > min(before.values()):
            raise Broken(f"broker {world.leader} leads, which loses {before}")
    return kind


def main() -> int:
    """Try as many as are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--total", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    for seed in range(given.first, given.first + given.total):
        with tempfile.TemporaryDirectory() as folder:
            try:
                tried(seed, Path(folder))
            except (Broken, PlanDefectError, AuditError) as error:
                sys.stdout.write(f"seed {seed}: {type(error).__name__}: {error}\n")
                return 1
    sys.stdout.write(f"{given.total} clusters, no rule broken\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
