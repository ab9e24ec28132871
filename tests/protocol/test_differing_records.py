"""Records that differ, planted in real batches by the thousand: every one is counted once, as what it is, and no other."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from replica_audit.formats.replicas.replica_reader import stored_batches
from replica_audit.protocol.comparison.record_cursor import FIRST_ONES, DifferingRecords, RecordPart, differing_records
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf
from tests.protocol.test_located import Message, bounds, changed, log, messages

LEADER, FOLLOWER = 1, 2
SEEDS = 1_000  # pairs of logs
ORDER = list(RecordPart)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("differing")


def found_in(folder: Path, leader: Sequence[bytes], follower: Sequence[bytes], end: int) -> DifferingRecords:
    paths = []
    for name, batches in (("leader", leader), ("follower", follower)):
        (folder / name).mkdir(exist_ok=True)
        paths.append(kf.segment(folder / name, 100, *batches))
    left, right = (stored_batches(rf.raw(path), 100) for path in paths)
    return differing_records(left, right, 100, end, brokers=(LEADER, FOLLOWER))


def counted(found: DifferingRecords) -> dict[tuple[RecordPart, int | None], int]:
    return {(one.part, one.lacking_id): one.records for one in found.counts}


def written(held: Sequence[Message], chance: random.Random, whole: Sequence[Message]) -> list[bytes]:
    """Some records of a log in batches that reach as far as all of them."""
    begins = bounds(chance, len(held)) if held else []
    made = log(held, begins, chance.sample(rf.CODECS, 2))
    if not held or held[-1].offset < whole[-1].offset:
        made.append(kf.with_field(rf.batch(whole[-1].offset, (b"", b"")), ">i", 57, 0))  # emptied, as a cleaner leaves it
    return made


@pytest.mark.parametrize("part", range(10))
def test_every_record_that_differs_is_counted_once(folder: Path, part: int) -> None:
    for seed in range(part * SEEDS // 10, (part + 1) * SEEDS // 10):
        chance = random.Random(seed)  # noqa: S311 - repeatable
        held = messages(chance)
        sides: list[list[Message]] = [[], []]
        expected: Counter[tuple[RecordPart, int | None]] = Counter()
        first_ones = []
        for one in held[:-1]:
            kind = chance.choice(["same", "same", "changed", "leader", "follower"])
            if kind == "changed":
                other, parts = changed(chance, one)
                sides[0].append(one)
                sides[1].append(other)
                expected[min(parts, key=ORDER.index), None] += 1
            else:
                for place, name in enumerate(("leader", "follower")):
                    if kind in ("same", name):
                        sides[place].append(one)
                if kind != "same":
                    expected[RecordPart.PRESENCE, FOLLOWER if kind == "leader" else LEADER] += 1
            first_ones += [one.offset] if kind != "same" else []
        for side in sides:
            side.append(held[-1])
        leader, follower = (written(side, chance, held) for side in sides)
        found = found_in(folder, leader, follower, 100 + len(held))
        assert counted(found) == expected, seed
        assert [one.offset for one in found.first_ones] == first_ones, seed
        assert (found.compared_end_offset, found.unread) == (100 + len(held), None)


def test_equal_records_in_other_batches_are_no_difference(folder: Path) -> None:
    for seed in range(100):
        chance = random.Random(seed)  # noqa: S311 - repeatable
        held = messages(chance)
        leader, follower = (log(held, bounds(chance, len(held)), chance.sample(rf.CODECS, 2)) for _ in range(2))
        assert found_in(folder, leader, follower, 100 + len(held)).counts == ()


def test_another_producer_is_told_apart_from_another_record(folder: Path) -> None:
    held = [Message(100 + i, b"k", b"v") for i in range(6)]
    found = found_in(folder, log(held, [0], rf.CODECS), log(held, [0], rf.CODECS, producer=7), 106)
    assert counted(found) == {(RecordPart.PRODUCER, None): 6}


def test_many_are_counted_and_the_first_ones_are_kept(folder: Path) -> None:
    held = [Message(100 + i, b"%d" % i, b"v") for i in range(1_000)]
    others = [Message(one.offset, one.key, b"w" if one.offset >= 300 else b"v") for one in held]
    begins = list(range(0, 1_000, 50))
    found = found_in(folder, log(held, begins, rf.CODECS), log(others, begins, rf.CODECS), 1_100)
    assert counted(found) == {(RecordPart.VALUE, None): 800}
    assert [one.offset for one in found.first_ones] == list(range(300, 300 + FIRST_ONES))


@pytest.mark.parametrize(("end", "unread"), [(105, False), (106, True)])
def test_a_log_that_became_shorter_since_lacks_nothing(folder: Path, end: int, unread: bool) -> None:
    held = [Message(100 + i, b"k", b"v") for i in range(10)]
    others = [Message(one.offset, one.key, b"w" if one.offset == 102 else b"v") for one in held[:5]]
    found = found_in(folder, log(held, [0, 3, 5], rf.CODECS), log(others, [0, 3], rf.CODECS), end)
    assert counted(found) == {(RecordPart.VALUE, None): 1}
    assert found.unread == ("the follower ends at offset 105, earlier than during the scan" if unread else None)
    assert found.compared_end_offset == 105


def test_records_that_cannot_be_read_end_the_count(folder: Path) -> None:
    held = [Message(100 + i, b"k", b"v") for i in range(9)]
    others = [Message(one.offset, one.key, b"w") for one in held]
    follower = log(others, [0, 3, 6], ["zstd", "none", "none"])
    follower[2] = follower[2][:62] + b"\xff" * (len(follower[2]) - 62)
    found = found_in(folder, log(held, [0, 3, 6], ["none"]), follower, 109)
    assert counted(found) == {(RecordPart.VALUE, None): 6}
    assert (found.compared_end_offset, found.unread is not None) == (106, True)
