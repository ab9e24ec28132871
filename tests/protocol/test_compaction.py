"""Key by key comparison of compacted logs, held against a model of brokers that write, fetch, clean and are copied.

The model follows Cleaner (4.2.0) and KIP-534; it knows nothing of the rule that it tests.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from replica_audit.protocol.comparison.compaction import (
    NOTHING,
    CompactionCause,
    ComparedLogs,
    KeptLog,
    KeyDifference,
    KeyRecord,
    KeyState,
    key_difference,
    marker_difference,
)

RETENTION = 40
LEADER, FOLLOWER = 1, 2
WORLDS = 4_000


@dataclass(frozen=True)
class Written:
    """A record as the leader appended it. `horizon` is set by the first cleaning that sees a tombstone or marker."""

    offset: int
    time: int
    key: str
    value: int | None
    aborted: bool = False
    marker: bool = False
    horizon: int | None = None
    stamped: int | None = None  # the time that its producer gave it, if that counts


@dataclass
class Broker:
    """One replica: what it holds, where its log ends, how far it was cleaned."""

    log: list[Written] = field(default_factory=list)
    end: int = 0
    cleaned: int = 0

    def clean(self, until: int, now: int) -> None:
        """One round: the offset map covers all below `until`, as it does over several rounds."""
        newest = {one.key: one.offset for one in self.log if one.offset < until and not one.aborted and not one.marker}
        kept = []
        for one in self.log:
            if one.offset >= until:
                kept.append(one)
                continue
            if one.aborted or (not one.marker and newest[one.key] != one.offset):
                continue
            if one.marker or one.value is None:
                if one.horizon is None:
                    one = replace(one, horizon=now + RETENTION)
                elif one.horizon <= now:
                    continue
            kept.append(one)
        self.log, self.cleaned = kept, max(self.cleaned, until)


@dataclass
class Copy:
    """A replica's files as they were copied."""

    log: list[Written]
    end: int
    cleaned: int
    time: int


@dataclass
class World:
    """A leader and a follower, driven by chance."""

    chance: random.Random
    now: int = 1_000
    leader: Broker = field(default_factory=Broker)
    follower: Broker = field(default_factory=Broker)
    written: list[Written] = field(default_factory=list)
    value: int = 0

    def write(self) -> None:
        key = f"k{self.chance.randrange(6)}"
        kind = self.chance.random()
        self.value += 1
        value = None if kind < 0.25 else self.value
        one = Written(self.leader.end, self.now, key, value, aborted=kind > 0.9)
        self._append(one)
        if one.aborted:
            self._append(Written(self.leader.end, self.now, f"marker{self.leader.end}", None, marker=True))

    def _append(self, one: Written) -> None:
        self.leader.log.append(one)
        self.leader.end += 1
        self.written.append(one)

    def fetch(self) -> None:
        """The follower fetches some offsets: what is left of them, as the leader has it."""
        until = self.chance.randint(self.follower.end, self.leader.end)
        self.follower.log += [replace(one) for one in self.leader.log if self.follower.end <= one.offset < until]
        self.follower.end = until

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.now += self.chance.randrange(1, 12)
            match self.chance.randrange(8):
                case 0 | 1 | 2 | 3:
                    self.write()
                case 4 | 5:
                    self.fetch()
                case 6:
                    # nothing above the high watermark is cleaned: every in-sync replica has it
                    self.leader.clean(self.chance.randint(0, self.follower.end), self.now)
                case 7:
                    self.follower.clean(self.chance.randint(0, self.follower.end), self.now)

    def copy(self, broker: Broker) -> Copy:
        return Copy(list(broker.log), broker.end, broker.cleaned, self.now)


def world_of(seed: object) -> World:
    return World(random.Random(str(seed)))  # noqa: S311 - the same world for the same seed


def kept(copy: Copy, broker: int, *, runs: bool, end: int | None = None) -> KeptLog:
    last = max((record(one).timestamp_ms for one in copy.log if end is None or one.offset < end), default=-1)
    return KeptLog(
        broker_id=broker,
        start_offset=0,
        end_offset=copy.end if end is None else end,
        cleaned_until=copy.cleaned,
        copied_at_ms=copy.time,
        last_timestamp_ms=last,
        runs=runs,
    )


def record(one: Written) -> KeyRecord:
    time = one.time if one.stamped is None else one.stamped
    is_brokers = one.stamped is None or one.marker
    return KeyRecord(one.offset, time, one.value is None, 0 if one.value is None else one.value, is_brokers)


def state(log: list[Written], key: str, below: int, end: int) -> KeyState:
    mine = [one for one in log if one.key == key and not one.aborted and one.offset < end]
    return KeyState(
        newest=max(map(record, mine), default=None),
        below_end=max((record(one) for one in mine if one.offset < below), default=None),
    )


def differences(leader: Copy, follower: Copy, logs: ComparedLogs) -> dict[str, KeyDifference]:
    found: dict[str, KeyDifference | None] = {}
    for key in sorted({one.key for one in (*leader.log, *follower.log)}):
        states = [
            state(copy.log, key, logs.end_offset, side.end_offset) for copy, side in ((leader, logs.leader), (follower, logs.follower))
        ]
        if key.startswith("marker"):
            found[key] = marker_difference(logs, states[0].newest, states[1].newest)
        else:
            found[key] = key_difference(logs, states[0], states[1])
    return {key: one for key, one in found.items() if one is not None}


def copied_together(world: World) -> tuple[Copy, Copy, ComparedLogs]:
    leader, follower = world.copy(world.leader), world.copy(world.follower)
    sides = (kept(leader, LEADER, runs=False), kept(follower, FOLLOWER, runs=False))
    return leader, follower, ComparedLogs(leader=sides[0], follower=sides[1], delete_retention_ms=RETENTION)


@pytest.mark.parametrize("share", range(4))
def test_replicas_that_were_cleaned_by_the_rules_never_differ(share):
    cleaned = 0
    for seed in range(WORLDS // 4):
        world = world_of(f"{share} {seed}")
        world.run(60)
        leader, follower, logs = copied_together(world)
        assert not differences(leader, follower, logs), seed
        cleaned += leader.log != follower.log
    assert cleaned > WORLDS // 8, "or nothing was tried"


@pytest.mark.parametrize("leader_first", [True, False])
def test_copies_of_different_times_are_never_proven_to_differ(leader_first):
    apart = 0
    for seed in range(WORLDS // 2):
        world = world_of(f"{leader_first} {seed}")
        world.run(50)
        first = world.copy(world.leader if leader_first else world.follower)
        world.run(world.chance.randrange(60))
        second = world.copy(world.follower if leader_first else world.leader)
        leader, follower = (first, second) if leader_first else (second, first)
        sides = kept(leader, LEADER, runs=True), kept(follower, FOLLOWER, runs=True)
        logs = ComparedLogs(leader=sides[0], follower=sides[1], delete_retention_ms=RETENTION)
        found = differences(leader, follower, logs)
        assert not [one for one in found.values() if one.cause is not None], seed
        apart += bool(found)
    assert apart or leader_first, "or nothing came near it"


def test_a_cleaner_that_went_beyond_the_cut_loses_exactly_the_keys_that_the_leader_has_and_the_follower_then_lacks():
    lost: Counter[str] = Counter()
    for seed in range(WORLDS):
        world = world_of(seed)
        world.run(40)
        # the follower of now led alone for a while; then the other one, which had stopped, is elected uncleanly and writes on
        old, new = world.leader, world.follower
        cut = new.end
        for _ in range(world.chance.randrange(1, 12)):
            world.now += 3
            world.write()
        if world.chance.random() < 0.7:
            world.now += world.chance.choice([1, 2 * RETENTION])
            old.clean(world.chance.randint(0, old.end), world.now)
        world.leader, world.follower = new, old
        for _ in range(world.chance.randrange(6)):
            world.now += 3
            world.write()
        leader, follower = world.copy(new), world.copy(old)
        logs = ComparedLogs(
            leader=kept(leader, LEADER, runs=True), follower=kept(follower, FOLLOWER, runs=False, end=cut), delete_retention_ms=RETENTION
        )
        found = {key: one for key, one in differences(leader, follower, logs).items() if not key.startswith("marker")}
        # what comes of it: the cut, then all that the leader has beyond it
        after = Broker([one for one in old.log if one.offset < cut] + [one for one in new.log if one.offset >= cut], new.end)
        expected = set()
        for key in {one.key for one in (*new.log, *after.log) if not one.marker}:
            serves = [state(log, key, 1 << 60, 1 << 60).newest for log in (new.log, after.log)]
            values = [None if one is None or one.is_tombstone else one.value_hash for one in serves]
            if values[0] != values[1]:
                expected.add(key)
        too_early = {key for key, one in found.items() if one.cause is CompactionCause.TOMBSTONE_GONE}
        assert set(found) - too_early == expected, seed
        assert all(one.broker_id == FOLLOWER for one in found.values())
        lost.update(str(one.cause) for one in found.values())
    assert lost[CompactionCause.KEY_MISSING] > 100


def planted(world: World, kind: CompactionCause, broker: int) -> tuple[Copy, Copy, ComparedLogs, str, KeyRecord] | None:
    """A world whose two replicas differ in one key, made so by hand; None where its logs hold no such key."""
    leader, follower, logs = copied_together(world)
    victim, other = (leader, follower) if broker == LEADER else (follower, leader)
    beyond = {one.key for copy in (leader, follower) for one in copy.log if one.offset >= logs.end_offset and not one.aborted}
    in_range = [one for one in other.log if one.offset < logs.end_offset and one.key not in beyond and not one.aborted]
    newest = {one.key: one for one in in_range}
    for key, one in world.chance.sample(sorted(newest.items()), len(newest)):
        mine = [each for each in victim.log if each.key == key and each.offset < logs.end_offset and not each.aborted]
        rest = [each for each in victim.log if each not in mine]
        older = Written(0, 1, key, -7)
        is_live, is_young = one.value is not None, one.time + RETENTION > world.now
        match kind:
            case CompactionCause.KEY_MISSING if is_live and is_young:
                victim.log = rest
            case CompactionCause.KEY_MISSING_OR_DELETED if is_live and not is_young:
                victim.log = rest
            case CompactionCause.OTHER_VALUE if is_live and one.offset > 0:
                victim.log = [older, *rest] if world.chance.random() < 0.5 else [replace(one, value=-9), *rest]
            case CompactionCause.KEY_RESURRECTED if not is_live and not one.marker and one.offset > 0:
                victim.log = [older, *rest]
            case CompactionCause.TOMBSTONE_GONE if not is_live and not one.marker and is_young:
                victim.log = rest
            case CompactionCause.MARKER_GONE if one.marker and is_young:
                victim.log = rest
            case _:
                continue
        return leader, follower, logs, key, record(one)
    return None


@pytest.mark.parametrize("broker", [LEADER, FOLLOWER])
@pytest.mark.parametrize("kind", CompactionCause)
def test_every_planted_difference_is_found_with_its_cause_its_key_and_its_offset(kind, broker):
    tried = 0
    for seed in range(WORLDS // 4):
        world = world_of(f"{kind} {broker} {seed}")
        world.run(60)
        # a leader that was cleaned beyond the follower's end may have lost a tombstone there
        if world.leader.cleaned > world.follower.end:
            continue
        made = planted(world, kind, broker)
        if made is None:
            continue
        leader, follower, logs, key, lacked = made
        found = differences(leader, follower, logs)
        assert set(found) == {key}, seed
        one = found[key]
        assert one.cause is kind
        held = one.leader if broker == FOLLOWER else one.follower
        assert held == lacked
        if one.leader is not None and one.follower is not None and one.leader.offset == one.follower.offset:
            assert one.broker_id == FOLLOWER  # which of two values is right, nobody can tell
        else:
            assert one.broker_id == broker
        tried += 1
    assert tried > 50


def rec(offset: int, value: int | None = 1, time: int = 0) -> KeyRecord:
    return KeyRecord(offset, time, value is None, value or 0, is_broker_time=True)


def two(
    leader_end: int = 100,
    follower_end: int = 100,
    retention: int | None = RETENTION,
    *,
    written_since: tuple[int, ...] = (),
    is_of_brokers: bool = False,
    **follower: Any,
) -> ComparedLogs:
    return ComparedLogs(
        leader=KeptLog(broker_id=LEADER, start_offset=0, end_offset=leader_end, cleaned_until=90, copied_at_ms=1_000),
        follower=KeptLog(broker_id=FOLLOWER, start_offset=10, end_offset=follower_end, copied_at_ms=1_000, **follower),
        delete_retention_ms=retention,
        written_since=written_since,
        is_of_brokers=is_of_brokers,
    )


def test_what_retention_took_is_no_difference():
    held = rec(9)
    assert key_difference(two(), KeyState(held, held), NOTHING) is None
    held = rec(10)
    assert key_difference(two(), KeyState(held, held), NOTHING) is not None


def test_a_tombstone_goes_after_its_retention_and_without_one_known_at_any_time():
    young = rec(50, None, time=990)
    found = key_difference(two(), KeyState(young, young), NOTHING)
    assert found is not None and found.cause is CompactionCause.TOMBSTONE_GONE and found.broker_id == FOLLOWER
    assert key_difference(two(retention=None), KeyState(young, young), NOTHING) is None
    old = rec(50, None, time=960)
    assert key_difference(two(), KeyState(old, old), NOTHING) is None


def test_a_key_that_only_a_follower_which_is_behind_still_has_was_deleted_beyond_its_end():
    held = rec(50)
    found = key_difference(two(follower_end=60), NOTHING, KeyState(held, held))
    assert found is not None and found.cause is CompactionCause.KEY_RESURRECTED and found.broker_id == FOLLOWER
    copied_apart = key_difference(two(follower_end=60, runs=True), NOTHING, KeyState(held, held))
    assert copied_apart is not None and copied_apart.cause is None
    not_behind = key_difference(two(), NOTHING, KeyState(held, held))
    assert not_behind is not None and not_behind.cause is CompactionCause.KEY_MISSING_OR_DELETED and not_behind.broker_id == LEADER


def test_a_live_key_that_one_replica_lacks_was_lost_unless_its_tombstone_can_have_expired():
    """Seen on brokers: a follower that was away for longer than tombstones are kept has the key, and the leader rightly has not."""
    for written_at, cause in ((961, CompactionCause.KEY_MISSING), (960, CompactionCause.KEY_MISSING_OR_DELETED)):
        held = rec(50, time=written_at)
        found = key_difference(two(), NOTHING, KeyState(held, held))
        assert found is not None and (found.cause, found.broker_id) == (cause, LEADER)
    # cleaned beyond the cut: what the follower lacks it has lost, however old
    old = rec(20)
    unsure = key_difference(two(), KeyState(old, old), NOTHING)
    assert unsure is not None and unsure.cause is CompactionCause.KEY_MISSING_OR_DELETED
    lost = key_difference(two(follower_end=60, cleaned_until=70), KeyState(old, old), NOTHING)
    assert lost is not None and lost.cause is CompactionCause.KEY_MISSING


def test_a_newer_record_beyond_the_end_is_still_fetched():
    newer, held = rec(80), rec(50)
    assert key_difference(two(follower_end=60), KeyState(newer, held), NOTHING) is None


def test_a_cut_record_excuses_nothing():
    held = rec(20, time=990)
    # the follower's newer record at 70 is cut away with all from 60 on: what it keeps is nothing
    found = key_difference(two(follower_end=60), KeyState(held, held), NOTHING)
    assert found is not None and (found.cause, found.broker_id, found.leader) == (CompactionCause.KEY_MISSING, FOLLOWER, held)


def test_a_file_that_was_perhaps_not_copied_proves_nothing():
    logs = two(perhaps_missing=(40, 60, 70, 71))
    for offset, cause in ((39, CompactionCause.KEY_MISSING), (40, None), (59, None), (60, CompactionCause.KEY_MISSING), (70, None)):
        held = rec(offset, time=990)
        found = key_difference(logs, KeyState(held, held), NOTHING)
        assert found is not None and (found.cause, found.broker_id) == (cause, FOLLOWER), offset
        # it is the other replica that lacks a file
        other = key_difference(logs, NOTHING, KeyState(held, held))
        assert other is not None and other.cause is CompactionCause.KEY_MISSING
    assert marker_difference(logs, rec(50, time=990), None) is None
    assert marker_difference(logs, rec(60, time=990), None) is not None


PROVEN = {CompactionCause.KEY_MISSING, CompactionCause.TOMBSTONE_GONE, CompactionCause.MARKER_GONE, CompactionCause.OTHER_VALUE}


def stamped(world: World) -> None:
    """Give every record a time by some client's clock, far in the past or in the future; replicas hold it with that."""
    times = {one.offset: max(0, one.time + world.chance.choice([-900, -RETENTION, 0, RETENTION, 10_000])) for one in world.written}
    for broker in (world.leader, world.follower):
        broker.log = [one if one.marker else replace(one, stamped=times[one.offset]) for one in broker.log]


@pytest.mark.parametrize("behind", [False, True])
def test_clocks_of_clients_prove_nothing(behind):
    """Whatever the times of records, nothing that brokers do by the rules is called a loss."""
    unsure = 0
    for seed in range(WORLDS // 4):
        world = world_of(f"clocks {behind} {seed}")
        world.run(60)
        if behind:  # the follower stops; the leader writes and cleans on alone
            for _ in range(30):
                world.now += world.chance.randrange(1, 12)
                world.write()
                if world.chance.random() < 0.3:
                    world.leader.clean(world.chance.randint(0, world.leader.end), world.now)
        stamped(world)
        leader, follower, logs = copied_together(world)
        found = differences(leader, follower, logs)
        assert not [one for one in found.values() if one.cause in PROVEN], seed
        assert behind or not found, seed
        unsure += bool(found)
    assert unsure or not behind, "or nothing came near it"


def test_what_clients_clocks_cannot_prove_elections_can():
    """A record of an epoch was not written before the election of its leader."""
    held, tombstone = KeyRecord(50, 10**6, False, 1), KeyRecord(50, 10**6, True, 0)  # years ahead
    marker = KeyRecord(50, 961, True, 0, is_broker_time=True)
    for logs, missing, gone in (
        (two(), CompactionCause.KEY_MISSING_OR_DELETED, None),
        (two(written_since=(0, 10, 50, 961)), CompactionCause.KEY_MISSING, CompactionCause.TOMBSTONE_GONE),
        (two(written_since=(0, 10, 50, 960)), CompactionCause.KEY_MISSING_OR_DELETED, None),
        (two(written_since=(0, 10, 51, 999)), CompactionCause.KEY_MISSING_OR_DELETED, None),
        (two(written_since=(0, 961)), CompactionCause.KEY_MISSING, CompactionCause.TOMBSTONE_GONE),
        (two(is_of_brokers=True), CompactionCause.KEY_MISSING, CompactionCause.TOMBSTONE_GONE),
    ):
        found = key_difference(logs, KeyState(held, held), NOTHING)
        assert found is not None and (found.cause, found.broker_id) == (missing, FOLLOWER)
        found = key_difference(logs, KeyState(tombstone, tombstone), NOTHING)
        assert (found.cause if found else None) is gone
    assert marker_difference(two(), marker, None) is not None
    assert marker_difference(two(), marker._replace(timestamp_ms=960), None) is None


def test_a_replica_that_was_in_sync_all_along_would_have_the_tombstone():
    """However old the key: so the other one has lost it."""
    held = KeyRecord(50, 5, False, 1)
    for in_sync_from, cause in ((50, CompactionCause.KEY_MISSING), (51, CompactionCause.KEY_MISSING_OR_DELETED)):
        found = key_difference(two(in_sync_from=in_sync_from), NOTHING, KeyState(held, held))
        assert found is not None and (found.cause, found.broker_id) == (cause, LEADER)
        # it says nothing of the replica that lacks the key
        found = key_difference(two(in_sync_from=in_sync_from), KeyState(held, held), NOTHING)
        assert found is not None and (found.cause, found.broker_id) == (CompactionCause.KEY_MISSING_OR_DELETED, FOLLOWER)
    # a copy of a running broker may be older than the tombstone
    found = key_difference(two(follower_end=60, in_sync_from=0, runs=True), NOTHING, KeyState(held, held))
    assert found is not None and found.cause is None
    found = key_difference(two(in_sync_from=0, runs=True), NOTHING, KeyState(held, held))
    assert found is not None and found.cause is CompactionCause.KEY_MISSING


@pytest.mark.parametrize(
    ("runs", "retention", "expected"),
    [
        pytest.param(False, 10, True, id="its broker was stopped"),
        pytest.param(True, 10, False, id="a cleaner may have removed both while its segments were copied one by one"),
        pytest.param(True, 86_400_000, True, id="no copy takes as long as markers are kept"),
    ],
)
def test_an_old_marker_may_not_be_gone_while_records_of_its_transaction_are_left(runs: bool, retention: int, expected: bool) -> None:
    copied = 1000 * retention
    logs = ComparedLogs(
        leader=KeptLog(broker_id=1, start_offset=0, end_offset=10, copied_at_ms=copied, runs=runs),
        follower=KeptLog(broker_id=2, start_offset=0, end_offset=10, copied_at_ms=copied, runs=runs),
        delete_retention_ms=retention,
    )
    for sides in ((rec(5), None), (None, rec(5))):
        assert marker_difference(logs, *sides) is None, "it has expired"
        found = marker_difference(logs, *sides, holds_records=True)
        assert (found is not None) == expected
        if found is not None:
            assert (found.cause, found.broker_id) == (CompactionCause.MARKER_GONE, 2 if sides[0] else 1)
