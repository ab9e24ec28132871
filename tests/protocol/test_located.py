"""Differences that are planted in real batches, by the thousand: each is found where it is, and named as what it is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from replica_audit.formats.replicas.replica_reader import stored_batches
from replica_audit.protocol.comparison import content
from replica_audit.protocol.comparison.content import LocatedDifference, MismatchKind, locate
from replica_audit.protocol.comparison.record_cursor import RecordPart
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf

SEEDS = 600  # logs, each with a difference of every kind


@dataclass(frozen=True)
class Message:
    """One record, and the producer whose batch it is in."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    delay: int = 0


def messages(chance: random.Random) -> list[Message]:
    count, some = chance.randint(2, 24), [None, b"", b"a", b"key", b"0123456789" * 9]
    headers: list[tuple[tuple[str, bytes | None], ...]] = [(), (("h", b"1"),), (("h", None), ("g", b""))]
    return [Message(100 + i, chance.choice(some), chance.choice(some), chance.choice(headers), chance.randint(0, 3)) for i in range(count)]


def bounds(chance: random.Random, count: int) -> list[int]:
    """Where batches begin, as indexes."""
    return sorted({0, *(chance.randrange(count) for _ in range(chance.randint(0, 6)))})


def log(held: Sequence[Message], begins: Sequence[int], codecs: Sequence[rf.Codec], producer: int = -1) -> list[bytes]:
    """The records in batches; a batch's records have the headers of its first one, as its encoder wants it."""
    made = []
    for place, begin in enumerate(begins):
        part = held[begin : begins[place + 1] if place + 1 < len(begins) else len(held)]
        made.append(_batch(part, codecs[place % len(codecs)], producer))
    return made


def _batch(part: Sequence[Message], codec: rf.Codec, producer: int) -> bytes:
    return rf.records_batch([(one.offset, one.delay, one.key, one.value, one.headers) for one in part], codec=codec, producer_id=producer)


def found_in(folder: Path, leader: Sequence[bytes], follower: Sequence[bytes], first: int, end: int) -> LocatedDifference:
    paths = []
    for name, batches in (("leader", leader), ("follower", follower)):
        (folder / name).mkdir(exist_ok=True)
        paths.append(kf.segment(folder / name, 100, *batches))
    left, right = (stored_batches(rf.raw(path), first) for path in paths)
    return locate(left, right, first, end)


def first_other(leader: Sequence[bytes], follower: Sequence[bytes]) -> int:
    """The offset of the first batch that is not the same, as headers tell it."""
    keys = [[(int.from_bytes(one[:8], "big"), one[17:27]) for one in side] for side in (leader, follower)]
    common = next((i for i, (a, b) in enumerate(zip(*keys, strict=False)) if a != b), min(map(len, keys)))
    return min(side[common][0] for side in keys if common < len(side))


def changed(chance: random.Random, one: Message) -> tuple[Message, set[RecordPart]]:
    """The record with one or two parts changed, and which."""
    parts = set(chance.sample([RecordPart.KEY, RecordPart.VALUE, RecordPart.HEADERS, RecordPart.TIMESTAMP], chance.randint(1, 2)))
    if RecordPart.KEY in parts:
        one = replace(one, key=chance.choice([None, b""]) if one.key else b"other")
    if RecordPart.VALUE in parts:
        one = replace(one, value=None if one.value == b"" else b"" if one.value is None else one.value[:-1] + b"?")
    if RecordPart.HEADERS in parts:
        one = replace(one, headers=(*one.headers, ("new", None)))
    if RecordPart.TIMESTAMP in parts:
        one = replace(one, delay=one.delay + chance.randint(1, 9))
    return one, parts


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("located")


@pytest.mark.parametrize("part", range(10))
def test_planted_differences_are_located_exactly(folder: Path, part: int) -> None:
    for seed in range(part * SEEDS // 10, (part + 1) * SEEDS // 10):
        chance = random.Random(seed)  # noqa: S311 - repeatable
        held = messages(chance)
        begins, codecs = bounds(chance, len(held)), chance.sample(rf.CODECS, 2)
        leader, end = log(held, begins, codecs), 100 + len(held)

        # another record, in the same batches or in others
        place = chance.randrange(len(held))
        other, parts = changed(chance, held[place])
        others = [*held[:place], other, *held[place + 1 :]]
        follower = log(others, begins if chance.random() < 0.5 else bounds(chance, len(held)), codecs)
        found = found_in(folder, leader, follower, first_other(leader, follower), end)
        assert (found.kind, found.record and found.record.offset) == (MismatchKind.OTHER_RECORDS, other.offset), seed
        assert found.record is not None and set(found.record.parts) == parts, seed
        sizes = found.record.follower
        assert sizes is not None and (sizes.key_bytes, sizes.value_bytes) == (
            None if other.key is None else len(other.key),
            None if other.value is None else len(other.value),
        )
        assert not found.has_equal_records

        # the same records, split and joined otherwise
        again = bounds(chance, len(held))
        follower = log(held, again, codecs[::-1])
        if again != begins:
            found = found_in(folder, leader, follower, first_other(leader, follower), end)
            assert (found.kind, found.record, found.compared_end_offset) == (MismatchKind.OTHER_BATCHING, None, end), seed
            assert found.has_equal_records

        # compressed otherwise
        follower = log(held, begins, [codec for codec in rf.CODECS if codec not in codecs])
        found = found_in(folder, leader, follower, first_other(leader, follower), end)
        assert (found.kind, found.record, found.has_equal_records) == (MismatchKind.OTHER_ENCODING, None, True), seed

        # two records swapped
        left, right = sorted(chance.sample(range(len(held)), 2))
        swapped = list(held)
        swapped[left], swapped[right] = replace(held[right], offset=100 + left), replace(held[left], offset=100 + right)
        follower = log(swapped, begins, codecs)
        if replace(held[left], offset=0) != replace(held[right], offset=0):
            found = found_in(folder, leader, follower, first_other(leader, follower), end)
            assert found.record is not None and found.record.offset == 100 + left, seed

        # a record that one side lacks, at the end of a batch of it
        at = chance.randrange(len(held))
        lacking = [one for one in held if one.offset != 100 + at]
        if lacking:
            follower = log(lacking, [0], codecs)
            found = found_in(folder, leader, follower, 100, end)
            assert found.record is not None and found.record.offset == 100 + at, seed
            assert (found.record.parts, found.record.follower) == ((RecordPart.PRESENCE,), None), seed

        # another producer
        follower = log(held, begins, codecs, producer=7)
        found = found_in(folder, leader, follower, 100, end)
        assert found.record is not None and found.record.parts == (RecordPart.PRODUCER,), seed


def test_the_batches_that_first_differ_are_named_with_file_and_byte(folder: Path) -> None:
    held = [Message(100 + i, b"k", b"v%d" % i) for i in range(9)]
    leader, follower = log(held, [0, 3, 6], ["none"]), log([*held[:4], replace(held[4], value=b"!"), *held[5:]], [0, 3, 6], ["none"])
    found = found_in(folder, leader, follower, 103, 109)
    assert found.leader is not None and found.follower is not None
    assert (found.leader.header.base_offset, found.leader.header.position) == (103, len(leader[0]))
    assert found.follower.path.endswith("follower/00000000000000000100.log")
    assert found.leader.header.crc != found.follower.header.crc


def test_beyond_what_is_decoded_it_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a difference that was not looked at is never called harmless."""
    held = [Message(100 + i, b"k", b"v") for i in range(20)]
    leader, follower = log(held, range(0, 20, 2), ["none"]), log(held, range(0, 20, 4), ["none"])
    monkeypatch.setattr(content, "MOST_RECORDS", 8)
    found = found_in(folder, leader, follower, 100, 120)
    assert (found.kind, found.has_equal_records, found.compared_end_offset) == (MismatchKind.NOT_READ, False, 108)
    assert found.unread is not None and "8 records" in found.unread
    monkeypatch.setattr(content, "MOST_RECORDS", 20)
    assert found_in(folder, leader, follower, 100, 120).has_equal_records


def test_equal_batches_between_are_not_decoded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = [Message(100 + i, b"k", b"v") for i in range(200)]
    leader = log(held, range(0, 200, 2), ["none"])
    follower = [*leader[:1], *log(held[2:4], [0, 1], ["none"]), *leader[2:90], *log(held[180:184], [0], ["none"]), *leader[92:]]
    monkeypatch.setattr(content, "MOST_RECORDS", 6)
    found = found_in(folder, leader, follower, 102, 300)
    assert (found.kind, found.compared_end_offset, found.has_equal_records) == (MismatchKind.OTHER_BATCHING, 300, True)


@pytest.mark.parametrize("magic", [0, 1])
def test_legacy_sets_compressed_otherwise_hold_the_same(folder: Path, magic: int) -> None:
    entries = kf.legacy(magic, range(4) if magic else range(100, 104))
    leader, follower = ([rf.wrapper(magic, 103, codec, entries)] for codec in ("gzip", "snappy"))
    found = found_in(folder, leader, follower, 103, 104)
    assert (found.kind, found.has_equal_records) == (MismatchKind.OTHER_ENCODING, True)
    single = [kf.legacy(magic, range(100, 104))]
    found = found_in(folder, leader, single, 100, 104)
    assert (found.kind, found.has_equal_records) == (MismatchKind.OTHER_BATCHING, True)


def test_records_that_cannot_be_decoded_are_not_called_equal(folder: Path) -> None:
    good = rf.batch(100, (b"k", b"v"), codec="gzip")
    bad = rf.with_codec(good, "gzip", b"no gzip at all")
    found = found_in(folder, [good], [bad], 100, 101)
    assert (found.kind, found.has_equal_records) == (MismatchKind.NOT_READ, False)
    assert found.unread is not None and "the follower" in found.unread
