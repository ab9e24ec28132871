"""Bit rot: any byte of any batch flipped on one of three replicas is found where it is, with the replicas that hold the batch well."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from replica_audit.rows.codes import Protocol
from tests.formats import kafka_files as kf
from tests.scenarios.disks import TOPIC, Cluster, Disk, Row
from tests.support import in_process

RULE = Protocol.TRUNCATE_ON_FETCH
BATCHES = [(1, 0, 4), (1, 5, 9), (3, 10, 11), (3, 12, 19), (4, 20, 20), (4, 21, 25)]
FLIPS = 60  # in each of ten tests, nine of which are for the night
_BASE, _LENGTH, _EPOCH, _MAGIC, _CRC = range(8), range(8, 12), range(12, 16), range(16, 17), range(17, 21)


class Place(NamedTuple):
    """A batch in a segment file."""

    path: Path
    position: int
    size: int


def home_of(root: Path, disks: dict[int, Disk], **given: object) -> Path:
    Cluster(disks=disks, leader_epoch=4, isr=tuple(disks), **given).audit(root, RULE)  # type: ignore[arg-type]
    (home,) = root.iterdir()
    return home


def disk(batches: Sequence[tuple[int, int, int]] = BATCHES, **given: object) -> Disk:
    return Disk(batches=batches, high_watermark=26, segments=(12,), **given)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return home_of(tmp_path_factory.mktemp("rot"), {broker: disk() for broker in (1, 2, 3)})


def segments(home: Path, broker: int) -> list[Path]:
    return sorted((home / f"broker-{broker}" / "data-0" / f"{TOPIC}-0").glob("*.log"))


def places(home: Path, broker: int) -> list[Place]:
    found = []
    for path in segments(home, broker):
        data, position = path.read_bytes(), 0
        while position < len(data):
            size = 12 + struct.unpack_from(">i", data, position + 8)[0]
            found.append(Place(path, position, size))
            position += size
    return found


def damaged(home: Path) -> list[Row]:
    return in_process.audit(home, anew=True)["damaged_batches"]


def write(path: Path, at: int, content: bytes) -> bytes:
    """Overwrite bytes; what was there before."""
    data = bytearray(path.read_bytes())
    before = bytes(data[at : at + len(content)])
    data[at : at + len(content)] = content
    path.write_bytes(data)
    return before


def looks_legal(number: int, at: int, before: bytes, after: bytes) -> bool:
    """Whether a leader epoch, of the last batch, is one that it could have had: nothing but the metadata could tell."""
    return at in _EPOCH and number == len(BATCHES) - 1


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(1, 10))])
def test_any_flipped_byte_is_found_where_it_is(home: Path, part: int) -> None:
    for seed in range(part * FLIPS, (part + 1) * FLIPS):
        chance = random.Random(seed)  # noqa: S311 - repeatable
        broker = chance.choice([2, 3])
        number = chance.randrange(len(BATCHES))
        place = places(home, broker)[number]
        at = chance.randrange(21 if chance.random() < 0.5 else place.size)
        whole = place.path.read_bytes()
        other = bytes([whole[place.position + at] ^ (1 << chance.randrange(8))])
        write(place.path, place.position + at, other)
        try:
            rows = damaged(home)
        finally:
            place.path.write_bytes(whole)
        if looks_legal(number, at, whole, other):
            continue
        epoch, first, _last = BATCHES[number]
        about = f"seed {seed}: byte {at} of batch {first} on {broker}: {rows}"
        assert rows, about
        assert {row["broker_id"] for row in rows} == {broker}, about
        row = rows[0]
        assert (row["path"], row["first_offset"], row["byte_offset"]) == (str(place.path), first, place.position), about
        assert (row["recovery"], row["recover_from_id"], row["copies_agree"]) == ("recoverable", 1, True), about
        assert row["good_broker_ids"] == [1, 5 - broker], about
        assert row["good_leader_epoch"] == epoch, about
        fields = row["wrong_fields"]
        for field, span in (("base_offset", _BASE), ("length", _LENGTH), ("leader_epoch", _EPOCH), ("magic", _MAGIC), ("crc", _CRC)):
            assert at not in span or field in fields, about
            assert at not in span or row["damage"] == "crc" or fields == [field], about
        if at >= _CRC.stop and row["damage"] == "crc":
            assert fields == ["payload"] and row["stored_crc"] == row["good_crc"] != row["computed_crc"], about
        if at in _CRC and row["damage"] == "crc":
            assert fields == ["crc"] and row["computed_crc"] == row["good_crc"] != row["stored_crc"], about


def test_sound_logs_have_no_damage(home: Path) -> None:
    tables = in_process.audit(home, anew=True)
    assert not tables["damaged_batches"]
    assert {row["verdict"] for row in tables["replica_verdicts"]} == {"identical"}


def test_an_unreadable_leader_is_recovered_from_a_follower(home: Path) -> None:
    place = places(home, 1)[1]
    before = write(place.path, place.position + 80, b"!!")
    tables = in_process.audit(home, anew=True)
    write(place.path, place.position + 80, before)
    (row,) = tables["damaged_batches"]
    assert (row["broker_id"], row["first_offset"], row["last_offset"]) == (1, 5, 9)
    assert (row["recovery"], row["recover_from_id"], row["good_broker_ids"]) == ("recoverable", 2, [2, 3])
    finding = next(one for one in tables["found"] if one["code"] == "unreadable")
    assert (finding["broker_id"], finding["damaged"][0]["recover_from_id"]) == (1, 2)


def test_if_no_copy_passes_it_says_so(tmp_path: Path) -> None:
    home = home_of(tmp_path, {broker: disk() for broker in (1, 2, 3)})
    for broker in (1, 2, 3):
        place = places(home, broker)[1]
        write(place.path, place.position + 70 + broker, b"!!")
    rows = damaged(home)
    assert [(row["broker_id"], row["recovery"], row["good_broker_ids"]) for row in rows] == [(one, "no_good_copy", []) for one in (1, 2, 3)]


def test_copies_that_pass_and_disagree_are_named(tmp_path: Path) -> None:
    home = home_of(tmp_path, {1: disk(), 2: disk(other_from=0), 3: disk()})
    place = places(home, 3)[1]
    write(place.path, place.position + 80, b"!!")
    (row,) = damaged(home)
    assert (row["broker_id"], row["recovery"], row["copies_agree"]) == (3, "copies_disagree", False)
    assert (row["good_broker_ids"], row["recover_from_id"]) == ([1, 2], None)


def test_one_copy_of_another_batch_is_no_proof(tmp_path: Path) -> None:
    """Two replicas held other records, and one of them rotted: the other's copy passes, and is another batch."""
    home = home_of(tmp_path, {1: disk(), 2: disk(other_from=0)})
    place = places(home, 2)[1]
    write(place.path, place.position + 80, b"!!")
    (row,) = damaged(home)
    assert (row["recovery"], row["good_broker_ids"], row["recover_from_id"]) == ("unconfirmed", [1], None)


def test_a_batch_of_another_epoch_is_no_copy(tmp_path: Path) -> None:
    """The logs diverged before one of them rotted: its own table says that the leader's batches at these offsets are others."""
    other = [(1, 0, 4), (2, 5, 9), (2, 10, 11)]
    home = home_of(tmp_path, {1: disk(), 2: disk(), 3: Disk(batches=other, high_watermark=12)})
    place = places(home, 3)[1]
    write(place.path, place.position + 80, b"!!")
    (row,) = [row for row in damaged(home) if row["broker_id"] == 3]
    assert (row["recovery"], row["good_broker_ids"], row["recover_from_id"]) == ("no_good_copy", [], None)


def test_one_copy_with_the_same_crc_is_proof_enough(tmp_path: Path) -> None:
    home = home_of(tmp_path, {1: disk(), 2: disk()})
    place = places(home, 2)[1]
    write(place.path, place.position + 80, b"!!")
    (row,) = damaged(home)
    assert (row["recovery"], row["recover_from_id"]) == ("recoverable", 1)


def test_a_batch_that_was_sent_again_to_the_next_leader_is_no_damage(tmp_path: Path) -> None:
    """Legal: the old leader keeps a batch that nobody fetched, and its producer sends the same bytes to the new one."""
    old = [*BATCHES[:4], (3, 20, 20)]
    home = home_of(tmp_path, {1: disk(), 2: disk(), 3: disk(old)})
    assert not damaged(home)


def test_a_restamped_epoch_between_equal_batches_is_damage(tmp_path: Path) -> None:
    """Its order is possible, and yet both logs go on alike behind it: two others that agree tell whose is wrong."""
    home = home_of(tmp_path, {broker: disk() for broker in (1, 2, 3)})
    place = places(home, 3)[1]
    write(place.path, place.position + 12, struct.pack(">i", 2))
    (row,) = damaged(home)
    assert (row["damage"], row["broker_id"], row["first_offset"], row["wrong_fields"]) == ("leader_epoch", 3, 5, ["leader_epoch"])
    assert (row["leader_epoch"], row["good_leader_epoch"]) == (2, 1)


def test_a_compacted_log_may_have_gaps(tmp_path: Path) -> None:
    lacking = [BATCHES[0], *BATCHES[2:]]
    home = home_of(tmp_path, {1: disk(), 2: disk(lacking), 3: disk()}, configs={"cleanup.policy": "compact"})
    assert not damaged(home)


def test_a_torn_end_of_a_running_broker_is_a_write_under_way(tmp_path: Path) -> None:
    home = home_of(tmp_path, {broker: disk() for broker in (1, 2, 3)}, up=(1, 2, 3))
    for broker in (1, 2, 3):
        path = segments(home, broker)[-1]
        path.write_bytes(path.read_bytes() + kf.batch(26, 4, deltas=range(9))[: 40 + broker])
    assert not damaged(home)
    for broker in (1, 2):
        path = segments(home, broker)[-1]
        path.write_bytes(path.read_bytes()[: -40 - broker] + kf.batch(26, 4, deltas=range(9)))
    assert not damaged(home)
