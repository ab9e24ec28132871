"""Plans of random clusters, carried out in a simulation that knows nothing of the product's: sets of records, and who leads.

`python -m tests.recovery.hunt --total N` tries N clusters, and prints the seed of each one whose plan breaks a rule.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from replica_audit.config import Settings
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.local_run import triage
from replica_audit.past.recovery import recovery_facts
from replica_audit.past.run import PastRun
from replica_audit.recovery.facts import PartitionKey, keys_of
from replica_audit.recovery.plan import plan_of
from replica_audit.recovery.steps import (
    Action,
    Copy,
    CorrectFile,
    Elect,
    GroupPolicy,
    Plan,
    PutBack,
    SetAside,
    StartBroker,
    StopBroker,
    TakeOut,
    partitions_of,
)
from replica_audit.rows.codes import Protocol
from tests.formats import kafka_files as kf
from tests.recovery.seeds import count_broken, parser_of_seeds
from tests.scenarios.disks import TOPIC, VERSIONS, Cluster, Disk, Version

BROKERS = (1, 2, 3)
_COMMITTED = 10_000  # what a committed record weighs
Batch = tuple[int, int, int]
Record = tuple[int, int]  # epoch, offset


@dataclass(kw_only=True)
class Partition:
    """What is really on the brokers' disks of one partition, and who leads it (-1: nobody)."""

    held: dict[int, list[Record]]
    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


@dataclass(kw_only=True)
class World:
    """A cluster of one topic, whatever the copies look like. `unread`: brokers whose copies are damaged.

    `by_itself`: the controller elects whoever runs; `by_topic`: an unclean election is one of all partitions of the topic.
    """

    partitions: dict[int, Partition]
    running: set[int]
    crashed: frozenset[int]
    by_itself: bool = False
    by_topic: bool = False
    unread: set[int] = field(default_factory=set)
    is_guess: bool = False
    is_whole: bool = True
    copied: set[tuple[int, Record]] = field(default_factory=set)
    empty: set[tuple[int, int]] = field(default_factory=set)
    started: set[int] = field(default_factory=set)


def _random_logs(random: Random) -> dict[int, list[Batch]]:
    """Replicas that share a beginning, each with a tail of an epoch of its own, or none."""
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
    return batches


def random_cluster(random: Random) -> tuple[dict[int, Cluster], World]:
    """One to three partitions of which somebody leads each, or nobody; all brokers may be stopped."""
    up = set(random.sample(BROKERS, random.choice((0, 0, 1, 1, 2))))
    crashed = frozenset(broker for broker in BROKERS if broker not in up and random.random() < 0.5)
    by_itself, is_old = random.random() < 0.2, random.random() < 0.25
    clusters: dict[int, Cluster] = {}
    partitions: dict[int, Partition] = {}
    for number in range(random.randint(1, 3)):
        batches = _random_logs(random)
        replicas = tuple(random.sample(BROKERS, random.choice((2, 3, 3))))
        ends = {broker: (of[-1][0], of[-1][2]) for broker, of in batches.items()}
        leads = max((broker for broker in replicas if broker in up), key=ends.__getitem__, default=-1)
        if up and not by_itself and random.random() < 0.4:
            leads = -1
        behind = {broker for broker in replicas if broker in up and leads >= 0 and batches[broker] != batches[leads]}
        for broker in behind:  # whoever runs has followed
            batches[broker] = list(batches[leads])
        isr = (
            tuple(sorted(up & {*replicas}))
            if leads >= 0
            else (random.choice([broker for broker in replicas if broker not in up] or [replicas[0]]),)
        )
        if leads < 0 and isr[0] in up:
            leads = isr[0]
            isr = (leads,)
            for broker in up & {*replicas}:
                batches[broker] = list(batches[leads])
        disks = {
            broker: Disk(batches=batches[broker], high_watermark=batches[broker][0][2] + 1, clean=broker not in crashed)
            for broker in replicas
        }
        configs = {"unclean.leader.election.enable": "true"} if by_itself else {}
        clusters[number] = Cluster(disks=disks, leader=leads, leader_epoch=20, isr=isr, up=tuple(sorted(up)), configs=configs)
        held = {broker: [(one, at) for one, first, last in batches[broker] for at in range(first, last + 1)] for broker in replicas}
        partitions[number] = Partition(held=held, leader=leads, isr=isr, replicas=replicas)
    return clusters, World(partitions=partitions, running=set(up), crashed=crashed, by_itself=by_itself, by_topic=is_old)


def _written(home: Path, clusters: dict[int, Cluster], world: World) -> None:
    """All partitions below the same log directories, and what the metadata says of them."""
    version = Version("2.3.1", "2.3-IV1") if world.by_topic else VERSIONS[Protocol.TRUNCATE_ON_FETCH]
    topics: list[dict[str, Any]] = []
    marks: dict[int, list[tuple[str, int, int]]] = {}
    metadata: dict[str, Any] = {}
    for number, cluster in clusters.items():
        for broker, disk in cluster.disks.items():
            path = home / f"broker-{broker}" / "data-0"
            cluster._write(path, broker, disk, version, up=broker in world.running)
            (path / f"{TOPIC}-0").rename(path / f"being-{number}")
            marks.setdefault(broker, []).append((TOPIC, number, disk.high_watermark))
        metadata = cluster._metadata(version, tuple(world.running))
        (one,) = metadata["topics"]
        (partition,) = one["partitions"]
        topics.append(one | {"partitions": [partition | {"partition": number, "replicas": list(world.partitions[number].replicas)}]})
    for broker, offsets in marks.items():
        path = home / f"broker-{broker}" / "data-0"
        for being in sorted(path.glob("being-*")):
            being.rename(path / f"{TOPIC}-{being.name.rpartition('-')[2]}")
        (path / log_dir.HIGH_WATERMARKS).write_bytes(kf.checkpoint(offsets))
        (path / log_dir.LOG_STARTS).write_bytes(kf.checkpoint([]))
    brokers = [{"id": broker, "state": "up" if broker in world.running else "down"} for broker in BROKERS if broker in marks]
    of_topic = topics[0] | {"partitions": [partition for one in topics for partition in one["partitions"]]}
    (home / log_dir.CLUSTER_METADATA).write_text(json.dumps(metadata | {"brokers": brokers, "topics": [of_topic]}))


def damage(random: Random, home: Path, world: World) -> str:
    """Damage the copies of a broker, or what says who leads; the brokers have their files still."""
    broker = random.choice([one for one in BROKERS if (home / f"broker-{one}").is_dir()])
    directory = home / f"broker-{broker}" / "data-0"
    kind = random.choice(("nothing", "nothing", "no segments", "garbled table", "garbled checkpoint", "no metadata", "twice"))
    replicas = sorted(directory.glob(f"{TOPIC}-*"))
    if kind == "no segments":
        for path in directory.glob(f"{TOPIC}-*/*.log"):
            path.unlink()
        world.unread.add(broker)
    elif kind == "garbled table":
        (random.choice(replicas) / "leader-epoch-checkpoint").write_text("none\n")
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
            for _topic, number, broker in replicas:
                world.copied.update((number, record) for record in world.partitions[number].held.get(broker, ()))
        case StopBroker(broker):
            _untouched(world, broker)
            world.running.discard(broker)
        case CorrectFile((_topic, _partition, broker)):
            if broker in world.running or broker in world.started:
                raise Broken(f"a file of broker {broker} is corrected while it runs, or after its start")
        case StartBroker(broker):
            _start(world, broker)
        case Elect((_topic, number), broker):
            _elect(world, number, broker)
        case _:
            _do_anew(action, world)


def _do_anew(action: Action, world: World) -> None:
    """What makes a replica fetch all of its log."""
    match action:
        case TakeOut((_topic, number, broker)):
            _delete(world, number, broker)
        case SetAside((_topic, number, broker)):
            _set_aside(world, number, broker)
        case PutBack((_topic, number, broker)):
            one = world.partitions[number]
            one.held[broker] = list(one.held[one.leader])


def _delete(world: World, number: int, broker: int) -> None:
    _untouched(world, broker)
    if broker not in world.running:
        raise Broken(f"broker {broker} does not run, and is to delete its replica")
    _remove(world, number, broker, [])


def _set_aside(world: World, number: int, broker: int) -> None:
    _untouched(world, broker)
    if broker in world.running or broker in world.started:
        raise Broken(f"a directory of broker {broker} is moved while it runs, or after its start")
    _remove(world, number, broker, [])
    world.empty.add((number, broker))


def _elect(world: World, number: int, broker: int) -> None:
    if broker not in world.running:
        raise Broken(f"broker {broker} is elected and does not run")
    if world.is_guess:
        raise Broken("an election on a guess")
    if world.partitions[number].leader == broker:
        return
    if world.by_topic:  # the setting is allowed before the broker starts
        _elect_any(world)
    else:
        _lead(world, number, _first_running(world, number))
    if world.partitions[number].leader != broker:
        raise Broken(f"broker {world.partitions[number].leader} is elected, and not {broker}")


def _first_running(world: World, number: int) -> int:
    return next(broker for broker in world.partitions[number].replicas if broker in world.running)


def _elect_any(world: World) -> None:
    for number, one in world.partitions.items():
        if one.leader < 0 and world.running & {*one.replicas}:
            _lead(world, number, _first_running(world, number))


def _untouched(world: World, broker: int) -> None:
    if broker in world.unread or (world.is_guess and broker not in world.running):
        raise Broken(f"broker {broker} is touched on a guess")


def _start(world: World, broker: int) -> None:
    _untouched(world, broker)
    if broker in world.started:
        raise Broken(f"broker {broker} is started twice")
    world.started.add(broker)
    world.running.add(broker)
    for number, one in world.partitions.items():
        if broker not in one.replicas:
            continue
        if (number, broker) in world.empty:
            if one.leader in (-1, broker) and (broker in one.isr or world.by_itself):
                raise Broken(f"broker {broker} may lead {TOPIC}-{number} with an empty log")
            one.held[broker] = list(one.held[one.leader]) if one.leader in world.running else []
        elif one.leader >= 0 and one.leader != broker:
            _follow(world, number, broker)
        elif one.leader < 0 and broker in one.isr:
            _lead(world, number, broker)
    if world.by_itself:
        _elect_any(world)


def _lead(world: World, number: int, broker: int) -> None:
    one = world.partitions[number]
    one.leader = broker
    for other in sorted((world.running & {*one.replicas}) - {broker}):
        _follow(world, number, other)


def _follow(world: World, number: int, broker: int) -> None:
    one = world.partitions[number]
    common = [mine for mine, its in zip(one.held[broker], one.held[one.leader], strict=False) if mine == its]
    _remove(world, number, broker, common)


def _remove(world: World, number: int, broker: int, kept: list[Record]) -> None:
    one = world.partitions[number]
    elsewhere = {record for other, of in one.held.items() if other != broker for record in of}
    lost = [
        record for record in one.held[broker] if record not in kept and record not in elsewhere and (number, record) not in world.copied
    ]
    if lost:
        raise Broken(f"broker {broker} removes {lost} of {TOPIC}-{number}, which nobody else has and nobody copied")
    one.held[broker] = kept


def price(one: Partition, broker: int) -> int:
    """Records that no replica has once a broker leads and all others follow it.

    Any number of others weighs less than one that the ISR held where that is a single replica: all of its records were committed.
    """
    lost = {record for of in one.held.values() for record in of} - set(one.held[broker])
    committed = lost & set(one.held[one.isr[0]]) if one.leader < 0 and len(one.isr) == 1 else set()
    return len(lost) + _COMMITTED * len(committed)


def tried(seed: int, root: Path) -> str:
    """Try one cluster. Returns what it was.

    Raises:
        Broken: its plan breaks a rule.
        PlanDefectError: the product says so itself.
    """
    random = Random(seed)  # noqa: S311
    clusters, world = random_cluster(random)
    home = root / str(seed)
    _written(home, clusters, world)
    kind = damage(random, home, world)
    run = PastRun(triage([str(home)], Settings(), tell=lambda event: None, run_id="now").tables, "now")
    before = {(number, broker): price(one, broker) for number, one in world.partitions.items() for broker in one.replicas}
    leaderless = [number for number, one in world.partitions.items() if one.leader < 0]
    is_whole = world.is_whole and not world.unread and not world.is_guess
    for facts in recovery_facts(run):
        plan = plan_of(facts, GroupPolicy.RE_READ)
        if silent := keys_of(facts.verdicts) - _told(plan):
            raise Broken(f"of {sorted(silent)} something was found, and the plan has neither a step nor a word")
        carry_out(plan, world)
        led = [number for number in leaderless if world.partitions[number].leader >= 0]
        lost = sum(before[number, world.partitions[number].leader] for number in led)
        if is_whole and led == leaderless and lost > (least := least_of_all_orders(world, led, before)):
            raise Broken(f"the new leaders lose {lost} records together, and another order {least}: {before}")
    return kind


def least_of_all_orders(world: World, numbers: Sequence[int], prices: Mapping[tuple[int, int], int]) -> int:
    """What the partitions lose together at least: brokers are started in any order, and elections asked for after any start."""
    return min(sum(_least_of(world, number, order, prices) for number in numbers) for order in itertools.permutations(BROKERS))


def _least_of(world: World, number: int, order: Sequence[int], prices: Mapping[tuple[int, int], int]) -> int:
    one = world.partitions[number]
    least: list[int] = []
    for place, broker in enumerate(order):
        if broker in one.replicas and (broker in one.isr or world.by_itself):
            return min([*least, prices[number, broker]])  # it leads as soon as it runs
        first = next((replica for replica in one.replicas if replica in order[: place + 1]), None)
        if first is not None and not world.by_topic:
            least.append(prices[number, first])
    return min(least)


def _told(plan: Plan) -> set[PartitionKey]:
    """The partitions of which a plan does something, or says that it does not."""
    done = {key for step in plan.steps for action in step.actions for key in partitions_of(action)}
    return done | {(place[0], place[1]) for one in plan.refusals for place in one.of}


def main() -> int:
    """Try as many as are asked for."""
    given = parser_of_seeds(__doc__, total=1000).parse_args()
    broken = count_broken(given, tried, Broken)
    sys.stdout.write(f"{given.total} clusters, {broken or 'no'} rule{'s'[: broken > 1]} broken\n")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
