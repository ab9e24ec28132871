"""A transaction that has ended in the leader's log, and whose marker a follower will never have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.shapes import SHAPES, audited, errors, metadata, replica, shaped
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf

CODE = "transaction_marker_missing"


def at(batch: bytes) -> bytes:
    return kf.with_field(batch, ">i", 12, 3)


DATA = at(rf.batch(0, (b"a", b"0"), producer_id=7)) + at(rf.batch(1, (b"b", b"1"), producer_id=7))
MARKER = at(rf.control_batch(2, rf.COMMIT, producer_id=7))
REST = at(rf.batch(3, (b"c", b"3"))) + at(rf.batch(4, (b"e", b"4")))
NEXT = at(rf.batch(5, (b"d", b"5")))
WHOLE = DATA + MARKER + REST


def cluster(
    root: Path, leader: bytes, follower: bytes, *, ends: tuple[int, int] = (6, 6), up: bool = False, policy: str = "compact"
) -> Path:
    for broker, held, end in ((1, leader, ends[0]), (2, follower, ends[1])):
        segments = {0: held, 5: NEXT} if end > 5 else {0: held}
        replica(root, broker, segments, reached=end, cleaner=min(end, 5) if policy == "compact" else None)
        if not up:
            (root / f"broker-{broker}" / "data" / ".kafka_cleanshutdown").touch()
    return metadata(root, 1, [1, 2], policy=policy, down=() if up else (1, 2))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("up", [True, False])
def test_a_marker_that_is_not_there_and_never_fetched_again_is_an_error(tmp_path: Path, shape: str, up: bool) -> None:
    found = audited(shaped(cluster(tmp_path / "raw", WHOLE, DATA + REST, up=up), shape, tmp_path / "as"))
    assert errors(found) == {(CODE, 2)}


def test_it_is_told_beside_what_the_records_show(tmp_path: Path) -> None:
    found = audited(cluster(tmp_path, WHOLE, DATA + REST), compare="records")
    assert (CODE, 2) in errors(found)


def test_of_a_log_that_is_not_compacted_it_is_told_beside_the_hole(tmp_path: Path) -> None:
    found = audited(cluster(tmp_path, WHOLE, DATA + REST, policy="delete"))
    assert errors(found) == {(CODE, 2), ("log_matching_violation", 2)}


@pytest.mark.parametrize(
    ("leader", "follower", "ends"),
    [
        pytest.param(WHOLE, WHOLE, (6, 6), id="both have it"),
        pytest.param(WHOLE, DATA, (6, 2), id="the follower fetches it"),
        pytest.param(WHOLE, REST, (6, 6), id="records and marker are compacted away"),
        pytest.param(REST, WHOLE, (6, 6), id="those of the leader are"),
        pytest.param(WHOLE, MARKER + REST, (6, 6), id="the records alone are"),
    ],
)
def test_what_is_in_order(tmp_path: Path, leader: bytes, follower: bytes, ends: tuple[int, int]) -> None:
    assert CODE not in {code for code, _broker in errors(audited(cluster(tmp_path, leader, follower, ends=ends)))}


def test_a_gap_between_segments_is_a_cleaners_work_where_the_copy_is_whole(tmp_path: Path) -> None:
    less = REST[: len(REST) // 2]
    assert (CODE, 2) in errors(audited(cluster(tmp_path, DATA + MARKER + less, DATA + less)))


def test_a_leaders_cleaner_may_have_taken_the_whole_transaction(tmp_path: Path) -> None:
    assert errors(audited(cluster(tmp_path, REST, DATA + REST))) == {(CODE, 2)}


def test_one_that_is_open_on_both_is_the_leaders(tmp_path: Path) -> None:
    found = audited(cluster(tmp_path, DATA + REST, DATA + REST))
    assert CODE not in {row["code"] for row in found["found"]}
