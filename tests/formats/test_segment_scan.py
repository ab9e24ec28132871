"""Segments read to their end or to where they stop making sense, and folded into runs.

Batches come from kafka-python's encoder; where reading ends is what FileLogInputStream does.
"""

from __future__ import annotations

import io
import itertools
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from replica_audit.formats.replicas.replica_reader import batches_from, read_segment
from replica_audit.formats.segment import segment_fold
from replica_audit.formats.segment.segment_scan import HEADERS_BUFFER, base_offset_of, batches_between, read_batches, scan
from replica_audit.model import BatchHeader, BatchRun, Damage, SegmentFile
from tests.formats import kafka_files as kf
from tests.formats.segment_readers import in_python, natively

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
INT64_LAST = 2**63 - 1


class Read:
    """What `read_batches` gave, taken apart; `scan_file` gave the same in both of its ways."""

    def __init__(self, path: Path, *, verify_crc: bool = True) -> None:
        self.items = list(read_batches(path, verify_crc=verify_crc))
        self.batches = [item for item in self.items if isinstance(item, BatchHeader)]
        damages = [item for item in self.items if isinstance(item, Damage)]
        stops = [damage for damage in damages if not damage.goes_on]
        assert stops in ([], self.items[-1:]), "a damage is the last item, and there is one at most"
        self.damage = stops[0] if stops else None
        self.went_back = [damage for damage in damages if damage.goes_on]
        self.codes = [damage.code for damage in damages]
        self.offsets = [(batch.base_offset, batch.last_offset) for batch in self.batches]
        self.scanned = scan(self.items)
        assert in_python(path, verify_crc=verify_crc) == self.scanned
        assert natively(path, verify_crc=verify_crc) == self.scanned


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Read]:
    """Write the bytes as a segment and read it."""

    def write(*batches: bytes, base: int = 0, verify_crc: bool = True) -> Read:
        return Read(kf.segment(tmp_path, base, *batches), verify_crc=verify_crc)

    return write


# --- whole segments ---


def test_batches_in_order_with_their_positions(written):
    made = [kf.batch(0, 0, deltas=range(3)), kf.batch(3, 0, deltas=range(40), codec=kf.GZIP), kf.control_batch(43, 1), kf.batch(44, 1)]
    read = written(*made)
    assert read.offsets == [(0, 2), (3, 42), (43, 43), (44, 44)]
    assert [batch.position for batch in read.batches] == list(itertools.accumulate(map(len, made[:-1]), initial=0))
    assert all(batch.crc_valid for batch in read.batches)
    assert read.damage is None


@pytest.mark.parametrize("magic", [0, 1])
def test_a_legacy_segment(written, magic: int):
    read = written(kf.legacy(magic, [10, 11, 12]), kf.legacy(magic, range(13, 60), codec=kf.GZIP), kf.legacy(magic, [61]), base=10)
    assert read.offsets == [(10, 10), (11, 11), (12, 12), (13, 59), (61, 61)]
    assert {(batch.magic, batch.leader_epoch, batch.crc_valid) for batch in read.batches} == {(magic, -1, True)}
    assert read.damage is None


def test_a_compressed_legacy_entry_behind_a_gap_begins_at_its_lower_bound(written):
    # only its last offset is stored: what the entry before it leaves is all that is known
    read = written(kf.legacy(1, [4]), kf.legacy(1, [8, 9], codec=kf.GZIP), base=4)
    assert read.offsets == [(4, 4), (5, 9)]
    assert read.damage is None


def test_formats_mixed_after_an_upgrade(written):
    read = written(kf.legacy(0, [0]), kf.legacy(1, [1, 2], codec=kf.GZIP), kf.batch(3, 0), base=0)
    assert [(batch.magic, batch.leader_epoch) for batch in read.batches] == [(0, -1), (1, -1), (2, 0)]


def test_gaps_are_normal_inside_between_and_before_batches(written):
    read = written(kf.batch(17, 0, deltas=(0, 4)), kf.batch(90, 0), base=10)
    assert read.offsets == [(17, 21), (90, 90)]
    assert read.damage is None


def test_batches_that_the_cleaner_emptied_count(written):
    read = written(kf.empty_batch(0, 0, last_delta=9), kf.batch(10, 2))
    assert read.offsets == [(0, 9), (10, 10)]
    assert [batch.record_count for batch in read.batches] == [0, 1]


@pytest.mark.parametrize("epochs", [(0, 0, 3), (5, 2, 3), (-1, 0, -1), (0, -1, 1)])
def test_epochs_are_told_as_they_stand(written, epochs: tuple[int, ...]):
    read = written(*(kf.batch(i, epoch) for i, epoch in enumerate(epochs)))
    assert tuple(batch.leader_epoch for batch in read.batches) == epochs
    assert read.damage is None


def test_an_epoch_stamped_over_leaves_the_crc_valid(written):
    made = kf.batch(0, 4)
    read = written(kf.with_field(made, ">i", 12, 9))
    assert [(batch.leader_epoch, batch.crc_valid) for batch in read.batches] == [(9, True)]


def test_a_batch_of_several_megabytes(written):
    made = kf.batch(0, 0, value=bytes(range(256)) * (20 << 10))
    assert len(made) > 5 << 20
    read = written(made, kf.batch(1, 0))
    assert [(batch.size_bytes, batch.crc_valid) for batch in read.batches] == [(len(made), True), (read.batches[1].size_bytes, True)]


def test_an_empty_file_has_no_batch_and_no_damage(written):
    assert written().items == []


def test_crc_is_not_judged_unless_asked(written):
    read = written(kf.with_field(kf.batch(0, 0), ">I", 17, 0), verify_crc=False)
    assert [batch.crc_valid for batch in read.batches] == [None]


# --- damaged segments ---


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("at", [21, 22, 43, 60, 61, 70])
def test_a_flipped_bit_below_the_crc_is_found_in_its_batch(written, at: int, bit: int):
    sound = kf.batch(3, 0, deltas=(0, 1))
    rotten = bytearray(sound)
    rotten[at] ^= 1 << bit
    read = written(kf.batch(0, 0, deltas=range(3)), bytes(rotten), kf.batch(90_000, 0))
    assert read.batches[0].crc_valid is True
    if len(read.batches) > 1:
        assert read.batches[1].crc_valid is False
        assert scan(read.items).first_bad_crc == read.batches[1].position
    else:
        assert read.damage is not None
        assert read.damage.byte_offset is not None
        assert read.damage.byte_offset >= len(kf.batch(0, 0, deltas=range(3)))


def test_a_wrong_crc_does_not_stop_the_reading(written):
    made = [kf.batch(i, 0) for i in range(4)]
    made[1] = made[1][:-1] + b"\xff"
    made[2] = made[2][:-2] + b"\xff\xff"
    read = written(*made)
    assert [batch.crc_valid for batch in read.batches] == [True, False, False, True]
    assert scan(read.items).first_bad_crc == len(made[0])


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrong_crc_of_a_legacy_entry(written, magic: int):
    made = kf.legacy(magic, [0])
    read = written(made, kf.legacy(magic, [1])[:-1] + b"\xff", kf.legacy(magic, [2]))
    assert [batch.crc_valid for batch in read.batches] == [True, False, True]
    assert scan(read.items).first_bad_crc == len(made)


def test_torn_at_every_byte_of_the_last_batch(tmp_path: Path):
    first, last = kf.batch(0, 0, deltas=(0, 1)), kf.batch(2, 1, deltas=(0, 1, 2))
    for left in range(len(last)):
        read = Read(kf.segment(tmp_path, 0, first, last[:left]))
        assert read.offsets == [(0, 1)], left
        assert read.batches[0].crc_valid is True
        assert read.codes == ([] if left == 0 else ["trailing-bytes"] if left <= 17 else ["torn-batch"]), left
        if read.damage:
            assert read.damage.byte_offset == len(first)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_legacy_segment_torn_at_every_byte(tmp_path: Path, magic: int):
    first, last = kf.legacy(magic, [0]), kf.legacy(magic, range(1, 30), codec=kf.GZIP)
    for left in range(len(last)):
        read = Read(kf.segment(tmp_path, 0, first, last[:left]))
        assert read.offsets == [(0, 0)], left
        assert read.codes == ([] if left == 0 else ["trailing-bytes"] if left <= 17 else ["torn-batch"]), left


@pytest.mark.parametrize("tail", [b"\x00", b"\xff" * 5, b"\x00" * 17, b"garbage, 17 bytes"])
def test_seventeen_bytes_or_fewer_are_not_looked_at(written, tail: bytes):
    made = kf.batch(0, 0)
    read = written(made, tail)
    assert read.offsets == [(0, 0)]
    assert (read.codes, read.damage.byte_offset) == (["trailing-bytes"], len(made))
    assert str(len(tail)) in read.damage.detail


def test_a_file_of_a_few_bytes(written):
    read = written(b"short")
    assert (read.codes, read.damage.byte_offset) == (["trailing-bytes"], 0)


@pytest.mark.parametrize("zeros", [18, 61, 4096, (1 << 20) + 3, 3 << 20])
def test_a_zero_filled_tail(written, zeros: int):
    made = kf.batch(0, 0)
    read = written(made, bytes(zeros))
    assert read.offsets == [(0, 0)]
    assert (read.codes, read.damage.byte_offset) == (["zero-filled-tail"], len(made))
    assert str(zeros) in read.damage.detail


def test_a_file_of_nothing_but_zeros(written):
    read = written(bytes(8192))
    assert (read.codes, read.damage.byte_offset) == (["zero-filled-tail"], 0)


@pytest.mark.parametrize("where", [61, 62, 4000, (1 << 20) - 1, 1 << 20, (1 << 20) + 61])
def test_zeros_with_something_behind_them_are_not_a_harmless_tail(written, where: int):
    made = kf.batch(0, 0)
    read = written(made, bytes(where), b"\x01")
    assert (read.codes, read.damage.byte_offset) == (["bad-batch-length"], len(made))


def test_a_hole_of_zeros_before_good_batches(written):
    made = kf.batch(0, 0)
    read = written(made, bytes(4096), kf.batch(50, 0))
    assert (read.offsets, read.codes) == ([(0, 0)], ["bad-batch-length"])


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13])
def test_an_impossible_length_in_the_middle(written, length: int):
    made = kf.batch(0, 0)
    read = written(made, kf.with_field(kf.batch(1, 0), ">i", 8, length), kf.batch(2, 0))
    assert read.offsets == [(0, 0)]
    assert (read.codes, read.damage.byte_offset) == (["bad-batch-length"], len(made))
    assert str(length) in read.damage.detail


def test_a_length_beyond_the_file_is_a_torn_batch_to_kafka_too(written):
    made = kf.batch(0, 0)
    read = written(made, kf.with_field(kf.batch(1, 0), ">i", 8, 2**31 - 1), kf.batch(2, 0))
    assert (read.offsets, read.codes, read.damage.byte_offset) == ([(0, 0)], ["torn-batch"], len(made))


@pytest.mark.parametrize("magic", [3, 77, 255])
def test_an_unknown_magic_in_the_middle(written, magic: int):
    made = kf.batch(0, 0)
    read = written(made, kf.with_field(kf.batch(1, 0), ">B", 16, magic), kf.batch(2, 0))
    assert read.offsets == [(0, 0)]
    assert (read.codes, read.damage.byte_offset) == (["bad-batch-header"], len(made) + 16)


def test_a_length_that_its_magic_forbids(written):
    made = kf.with_field(kf.batch(0, 0), ">i", 8, 20)
    read = written(made)
    assert (read.offsets, read.codes, read.damage.byte_offset) == ([], ["bad-batch-header"], 8)


@pytest.mark.parametrize(("base", "offsets"), [(0, (5, 5)), (0, (5, 4)), (0, (5, 0)), (10, (9, 12)), (0, (0, -1)), (0, (-5, 0))])
def test_offsets_that_do_not_increase(written, base: int, offsets: tuple[int, int]):
    """Reading goes on behind it, unless the first batch of all lies below its segment, or the batch does not match its CRC."""
    made = [kf.batch(offset, 0) for offset in (*offsets, 20)]
    read = written(*made, base=base)
    kept = 1 if base <= offsets[0] else 0
    goes_on = bool(kept) and offsets[1] >= 0
    (damage,) = read.went_back if goes_on else [read.damage]
    assert (len(read.batches), read.damage is None) == (3 if goes_on else kept, goes_on)
    assert (read.codes, damage.byte_offset) == (["offsets-not-increasing"], sum(map(len, made[:kept])))


@pytest.mark.parametrize("verify_crc", [True, False])
def test_a_batch_that_overlaps_the_one_before(written, verify_crc: bool):
    made = [kf.batch(0, 0, deltas=range(10)), kf.batch(9, 1), kf.batch(10, 1)]
    read = written(*made, verify_crc=verify_crc)
    assert (read.offsets, read.codes) == ([(0, 9), (9, 9), (10, 10)], ["offsets-not-increasing"])
    made[1] = made[1][:-1] + b"?"
    read = written(*made, verify_crc=verify_crc)
    assert (read.offsets, read.codes, read.damage.goes_on) == ([(0, 9)], ["offsets-not-increasing"], False)


def test_offsets_that_go_back_more_than_once(written):
    read = written(*(kf.batch(offset, 0) for offset in (5, 6, 2, 3, 1, 2)))
    assert (len(read.batches), read.codes) == (6, ["offsets-not-increasing"] * 2)
    assert read.scanned.went_back == read.went_back[0]


def test_a_compressed_legacy_entry_that_ends_below_the_one_before(written):
    read = written(kf.legacy(1, [9]), kf.legacy(1, [3, 4], codec=kf.GZIP))
    assert (read.offsets, read.codes) == ([(9, 9), (4, 4)], ["offsets-not-increasing"])


def test_the_refetched_batch_behind_a_partial_one(written):
    """A broker that was shut down cleanly appends behind the rest of a cut batch: seen on real brokers of 4.2."""
    whole = kf.batch(1, 0, deltas=range(4), value=b"x" * 40)
    made = kf.batch(0, 0)
    read = written(made, whole[:91], whole)
    assert read.offsets == [(0, 0), (1, 4)]
    assert [batch.crc_valid for batch in read.batches] == [True, False]
    assert read.damage is not None
    assert read.damage.byte_offset == len(made) + len(whole)


def test_a_base_offset_near_the_end_of_64_bits_keeps_rows_that_fit_the_tables(written):
    made = kf.batch(0, 0)
    read = written(made, kf.with_field(kf.batch(1, 0, deltas=(0, 1)), ">q", 0, INT64_LAST), kf.batch(3, 0))
    assert read.offsets == [(0, 0)]
    assert read.codes in (["bad-batch-header"], ["offsets-not-increasing"])


# --- names ---


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("00000000000000000042.log", 42),
        ("00000000000000000042.log.swap", 42),
        ("09223372036854775807.log", INT64_LAST),
        ("segment.log", 0),
        ("-5.log", 0),
        ("12a.log", 0),
        (".log", 0),
        ("²³.log", 0),
    ],
)
def test_base_offset_of_a_file_name(name: str, base: int):
    assert base_offset_of(Path("/data/orders-0") / name) == base


def test_a_file_whose_name_is_no_number_is_read_from_offset_zero(tmp_path: Path):
    path = tmp_path / "copy of a segment.log"
    path.write_bytes(kf.batch(700, 2))
    assert Read(path).offsets == [(700, 700)]


# --- files that are not what they seem ---


def test_what_cannot_be_read_is_an_os_error(tmp_path: Path):
    (tmp_path / "00000000000000000000.log").mkdir()
    (tmp_path / "00000000000000000001.log").symlink_to(tmp_path / "nowhere")
    (tmp_path / "00000000000000000002.log").symlink_to("00000000000000000002.log")
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(OSError):
            list(read_batches(path))


def test_a_file_that_becomes_shorter_while_it_is_read():
    """Right after its size was taken, as on a running broker."""
    first, last = kf.batch(0, 0), kf.batch(1, 0, value=b"x" * 300)
    content = first + last
    for left in range(len(content)):
        items = list(batches_between(io.BytesIO(content[:left]), len(content), 0, 0, verify_crc=True))
        sound = [item for item in items if isinstance(item, BatchHeader) and item.crc_valid]
        assert len(sound) == (left >= len(first)), left


# --- runs ---


def test_headers_of_large_batches_are_read_without_what_is_between(tmp_path: Path):
    path = kf.segment(tmp_path, 0, *(kf.batch(i, 0, value=bytes(1 << 18)) for i in range(4)))
    read = 0

    class Counted(io.FileIO):
        def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
            nonlocal read
            read += (count := super().readinto(buffer) or 0)
            return count

    with io.BufferedReader(cast(io.FileIO, Counted(path)), HEADERS_BUFFER) as stream:
        assert len(list(batches_between(stream, path.stat().st_size, 0, 0, verify_crc=False))) == 4
    assert read < 1 << 16


def header(
    base: int, last: int, epoch: int = 0, *, crc_valid: bool | None = True, timestamp: int = 5, count: int | None = None
) -> BatchHeader:
    return BatchHeader(
        position=base * 100,
        base_offset=base,
        last_offset=last,
        size_bytes=70,
        magic=2,
        leader_epoch=epoch,
        record_count=last - base + 1 if count is None else count,
        max_timestamp_ms=timestamp,
        crc=1,
        crc_valid=crc_valid,
        codec="none",
        is_transactional=False,
        is_control=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
    )


def shape(runs: tuple[BatchRun, ...]) -> list[tuple[int, int, int]]:
    return [(run.leader_epoch, run.first_offset, run.last_offset) for run in runs]


def test_neighbouring_batches_of_one_epoch_are_one_run():
    found = scan([header(0, 4, timestamp=9), header(5, 5, timestamp=3, count=0), header(6, 8, timestamp=7)])
    assert found.runs == (
        BatchRun(
            leader_epoch=0,
            first_offset=0,
            last_offset=8,
            batch_count=3,
            record_count=8,
            size_bytes=210,
            min_timestamp_ms=3,
            max_timestamp_ms=9,
            magic=2,
            intact=True,
        ),
    )
    assert (found.damage, found.first_bad_crc) == (None, None)


def test_a_run_ends_where_the_epoch_changes_in_either_direction():
    assert shape(scan([header(0, 1, 0), header(2, 3, 4), header(4, 5, 4), header(6, 6, 1), header(7, 7, -1)]).runs) == [
        (0, 0, 1),
        (4, 2, 5),
        (1, 6, 6),
        (-1, 7, 7),
    ]


def test_a_run_ends_where_an_offset_is_missing():
    assert shape(scan([header(0, 1), header(2, 3), header(5, 6)]).runs) == [(0, 0, 3), (0, 5, 6)]


def test_a_run_ends_where_crcs_stop_and_start_to_match():
    found = scan([header(0, 0), header(1, 1, crc_valid=False), header(2, 2, crc_valid=False), header(3, 3)])
    assert [(run.first_offset, run.last_offset, run.intact) for run in found.runs] == [(0, 0, True), (1, 2, False), (3, 3, True)]
    assert found.first_bad_crc == 100


def test_a_crc_that_was_not_verified_counts_as_intact():
    found = scan([header(0, 0, crc_valid=None), header(1, 1, crc_valid=True)])
    assert (len(found.runs), found.runs[0].intact, found.first_bad_crc) == (1, True, None)


def test_damage_is_passed_on():
    damage = Damage(code="torn-batch", detail="torn", byte_offset=100)
    found = scan([header(0, 0), damage])
    assert (shape(found.runs), found.damage) == ([(0, 0, 0)], damage)
    assert scan([]).runs == ()
    assert scan([damage]).damage == damage


def test_the_newest_format_of_a_run_is_told():
    old = header(0, 0, -1)._replace(magic=0)
    assert scan([old, header(1, 1, -1)._replace(magic=1), old._replace(base_offset=2, last_offset=2)]).runs[0].magic == 1


def test_beyond_the_cap_holes_no_longer_end_a_run_but_epochs_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segment_fold, "MAX_RUNS", 3)
    holes = [header(i * 10, i * 10 + 1) for i in range(6)]
    found = scan([*holes, header(100, 101, 7), header(110, 111, 7)])
    assert shape(found.runs) == [(0, 0, 1), (0, 10, 11), (0, 20, 51), (7, 100, 111)]
    assert sum(run.batch_count for run in found.runs) == 8
    assert sum(run.record_count for run in found.runs) == 16


def test_the_cap_holds_for_a_compacted_log():
    found = scan(header(2 * i, 2 * i) for i in range(segment_fold.MAX_RUNS + 500))
    assert len(found.runs) == segment_fold.MAX_RUNS
    assert sum(run.batch_count for run in found.runs) == segment_fold.MAX_RUNS + 500


def test_runs_of_a_segment_as_it_is_written(tmp_path: Path):
    path = kf.segment(
        tmp_path,
        5,
        kf.batch(5, 0, deltas=range(3)),
        kf.batch(8, 0),
        kf.batch(12, 0),
        kf.batch(13, 2, timestamp=900),
        kf.with_field(kf.batch(14, 2), ">q", 35, 1),
        kf.batch(15, 2)[:-3],
    )
    found = scan(read_batches(path))
    assert shape(found.runs) == [(0, 5, 8), (0, 12, 12), (2, 13, 13), (2, 14, 14)]
    assert [run.intact for run in found.runs] == [True, True, True, False]
    assert found.damage is not None
    assert found.damage.code == "torn-batch"


# --- any damage anywhere ---

WHOLE = b"".join(
    (
        kf.batch(0, 0, deltas=range(3)),
        kf.batch(3, 0, deltas=range(30), codec=kf.GZIP),
        kf.control_batch(33, 2),
        kf.empty_batch(34, 2, last_delta=4),
        kf.batch(45, 3, deltas=(0, 7), producer=(8, 1, 0)),
        kf.batch(53, 5, value=b"v" * 400),
    )
)


def check_damaged(folder: Path, whole: bytes, damaged: bytes, touched: int) -> None:
    """Read a damaged segment. `touched`: every byte below it is as it was."""
    (folder / "whole").mkdir(exist_ok=True)
    sound = Read(kf.segment(folder / "whole", 0, whole)).batches
    read = Read(kf.segment(folder, 0, damaged))
    untouched = [batch for batch in sound if batch.position + batch.size_bytes <= touched]
    assert read.batches[: len(untouched)] == untouched
    found = scan(read.items)
    assert sum(run.batch_count for run in found.runs) == len(read.batches)
    assert len(read.batches) <= len(damaged) // 26 + 1
    for batch in read.batches:
        assert batch.position + batch.size_bytes <= len(damaged)
        assert 0 <= batch.base_offset <= batch.last_offset <= INT64_LAST
    if read.damage is not None:
        assert read.damage.byte_offset is not None
        assert sum(batch.size_bytes for batch in read.batches) <= read.damage.byte_offset <= len(damaged)
    if found.first_bad_crc is not None:
        assert found.first_bad_crc >= sum(batch.size_bytes for batch in untouched)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


def test_every_single_byte_of_a_header_with_every_single_bit_flipped(folder: Path):
    at = len(kf.batch(0, 0, deltas=range(3)))
    for byte, bit in itertools.product(range(at, at + 61), range(8)):
        changed = bytearray(WHOLE)
        changed[byte] ^= 1 << bit
        check_damaged(folder, WHOLE, bytes(changed), byte)


def test_a_flipped_bit_never_goes_unseen_where_a_crc_or_the_offsets_can_tell(folder: Path):
    """Only the base offset moved forward and the leader epoch are covered by nothing."""
    first = len(kf.batch(0, 0, deltas=range(3)))
    whole = Read(kf.segment(folder, 0, WHOLE)).batches
    for byte, bit in itertools.product(range(first, whole[2].position), range(8)):
        if byte - first < 8 or 12 <= byte - first < 16:
            continue
        changed = bytearray(WHOLE)
        changed[byte] ^= 1 << bit
        read = Read(kf.segment(folder, 0, bytes(changed)))
        found = scan(read.items)
        assert found.first_bad_crc is not None or found.damage is not None or found.went_back is not None, (byte - first, bit)


def test_memory_stays_bounded(tmp_path: Path):
    path = tmp_path / "00000000000000000000.log"
    with path.open("wb") as stream:
        stream.write(kf.batch(0, 0))
        stream.truncate(1 << 26)  # 64 MiB of zeros, sparse
    big = kf.segment(tmp_path, 1, kf.with_field(kf.batch(1, 0), ">i", 8, (1 << 26) - 12))
    with big.open("r+b") as stream:
        stream.truncate(1 << 26)
    tracemalloc.start()
    try:
        assert Read(path).codes == ["zero-filled-tail"]
        assert [batch.crc_valid for batch in Read(big).batches] == [False]
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


# --- a replica's segments ---


def raw(path: Path) -> SegmentFile:
    return SegmentFile(path=str(path), source="raw", base_offset=base_offset_of(path), size_bytes=path.stat().st_size)


def test_a_raw_segment_through_the_reader_of_replicas(tmp_path: Path):
    path = kf.segment(tmp_path, 0, kf.batch(0, 0), kf.batch(1, 0)[:-1] + b"\xff", b"tail")
    assert list(read_segment(raw(path))) == list(read_batches(path))
    assert [item.crc_valid for item in read_segment(raw(path), verify_crc=False) if isinstance(item, BatchHeader)] == [None, None]


@pytest.mark.parametrize(("offset", "first"), [(0, 0), (9, 0), (10, 10), (11, 10), (24, 10), (25, 25), (999, 25), (-1, 0)])
def test_batches_from_the_segment_that_holds_an_offset(tmp_path: Path, offset: int, first: int):
    files = [
        raw(kf.segment(tmp_path, 25, kf.batch(25, 1))),
        raw(kf.segment(tmp_path, 0, kf.batch(0, 0, deltas=range(10)), b"torn")),
        raw(kf.segment(tmp_path, 10, kf.batch(12, 0, deltas=range(8)))),
    ]
    found = [batch.base_offset for batch in batches_from(files, offset)]
    assert found == [base for base in (0, 12, 25) if base >= first]
