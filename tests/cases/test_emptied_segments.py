"""Segment files that are there and hold nothing, or nothing that can be read: retention deletes files, it never empties them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from tests.cases.shapes import COLLECTED, RAW, SHAPES, TEXT, audited, errors, filled, metadata, problems, replica, shaped, stop, verdicts
from tests.formats import kafka_files as kf
from tests.support.in_process import Row

WHOLE = {0: filled(0, 100), 100: filled(100, 100), 200: filled(200, 100)}
LEADER, FOLLOWER, END = 1, 2, 300
FIRST, MIDDLE = 0, 100
EMPTY = b""
UNREADABLE_STARTS = {
    "zeros": bytes(len(WHOLE[0])),
    "garbage": bytes(range(1, 250)) * 5,
    "cut in the first batch": WHOLE[0][:70],
    "shorter than a header": WHOLE[0][:11],
    "length of zero": kf.with_field(WHOLE[0], ">i", 8, 0),
    "length beyond the file": kf.with_field(WHOLE[0], ">i", 8, 1 << 20),
    "negative length": kf.with_field(WHOLE[0], ">i", 8, -5),
    "magic": kf.with_field(WHOLE[0], ">b", 16, 7),
    "offset below the segment": kf.with_field(WHOLE[MIDDLE], ">q", 0, 3),
}


def _cluster(root: Path, damaged: dict[int, dict[int, bytes]], down: Sequence[int] = ()) -> Path:
    """Two replicas of one log; `damaged`: of each broker the segments that are otherwise."""
    for broker in (LEADER, FOLLOWER):
        replica(root, broker, WHOLE | damaged.get(broker, {}), reached=END)
    return metadata(root, LEADER, [LEADER, FOLLOWER], down=down)


def _is_told(tables: dict[str, list[Row]], brokers: tuple[int, ...]) -> None:
    """Each of the brokers has an error of its own, and no pair with one of them is clean."""
    assert {broker for _code, broker in errors(tables)} >= set(brokers), tables["found"]
    assert verdicts(tables)[FOLLOWER] in ("unreadable", "inconclusive", "log_matching_violation")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("brokers", [(LEADER,), (FOLLOWER,), (LEADER, FOLLOWER)], ids=["leader", "follower", "all"])
@pytest.mark.parametrize("state", ["up", "down"])
def test_an_emptied_oldest_segment_is_an_error(tmp_path: Path, shape: str, brokers: tuple[int, ...], state: str) -> None:
    root = _cluster(tmp_path / "raw", {broker: {FIRST: EMPTY} for broker in brokers}, down=[FOLLOWER] if state == "down" else ())
    tables = audited(shaped(root, shape, tmp_path / shape))
    _is_told(tables, brokers)
    assert "emptied-segment" in problems(tables)
    assert "missing-offsets" not in problems(tables), "the file is there: nobody has to look for it"
    (problem, *_) = [row for row in tables["input_errors"] if row["code"] == "emptied-segment"]
    assert "offsets 0..99 are gone" in problem["detail"]
    good = [row for row in tables["damaged_batches"] if row["good_broker_ids"]]
    assert len(brokers) == 2 or [(row["first_offset"], row["last_offset"]) for row in good] == [(0, 99)], "the other one holds them"


@pytest.mark.parametrize("shape", SHAPES)
def test_so_it_is_without_metadata(tmp_path: Path, shape: str) -> None:
    root = _cluster(tmp_path / "raw", {LEADER: {FIRST: EMPTY}})
    (root / "cluster-metadata.json").unlink()
    for broker in (LEADER, FOLLOWER):
        stop(root, broker, cleanly=True)
    assert LEADER in {broker for _code, broker in errors(audited(shaped(root, shape, tmp_path / shape)))}


@pytest.mark.parametrize("cleanly", [True, False])
@pytest.mark.parametrize("shape", [RAW, COLLECTED])
def test_a_middle_one_of_a_broker_that_does_not_run_is_one_too(tmp_path: Path, shape: str, cleanly: bool) -> None:
    root = _cluster(tmp_path / "raw", {FOLLOWER: {MIDDLE: EMPTY}}, down=[FOLLOWER])
    stop(root, FOLLOWER, cleanly=cleanly)
    tables = audited(shaped(root, shape, tmp_path / shape))
    assert ("unreadable", FOLLOWER) in errors(tables)


def test_a_middle_one_of_a_running_broker_may_have_been_new_when_it_was_copied(tmp_path: Path) -> None:
    """A segment that was just rolled is empty; the next one was made before the copy came to it."""
    tables = audited(_cluster(tmp_path, {FOLLOWER: {MIDDLE: EMPTY}}))
    assert verdicts(tables)[FOLLOWER] == "inconclusive"
    assert ("unreadable", FOLLOWER) in errors(audited(tmp_path, simultaneous_copies=True)), "not at one instant"


@pytest.mark.parametrize("state", ["up", "down"])
@pytest.mark.parametrize(
    ("shape", "how"), [one for one in product(SHAPES, UNREADABLE_STARTS) if one[0] != TEXT or one[1] not in ("garbage", "magic")]
)
def test_an_oldest_segment_that_cannot_be_read_is_an_error_on_all_replicas(tmp_path: Path, shape: str, how: str, state: str) -> None:
    both = (LEADER, FOLLOWER)
    root = _cluster(tmp_path / "raw", {broker: {FIRST: UNREADABLE_STARTS[how]} for broker in both}, down=both if state == "down" else ())
    for broker in both if state == "down" else ():
        stop(root, broker, cleanly=True)
    tables = audited(shaped(root, shape, tmp_path / shape))
    _is_told(tables, both)
    assert {code for code, _broker in errors(tables)} == {"unreadable"}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_compaction_excuses_no_file_that_is_no_log(tmp_path: Path, shape: str, policy: str) -> None:
    for broker in (LEADER, FOLLOWER):
        replica(tmp_path / "raw", broker, WHOLE | {FIRST: bytes(500)}, reached=END, cleaner=200)
    root = metadata(tmp_path / "raw", LEADER, [LEADER, FOLLOWER], policy=policy)
    _is_told(audited(shaped(root, shape, tmp_path / shape)), (LEADER, FOLLOWER))


def test_a_segment_that_the_cleaner_has_not_come_to_was_not_emptied_by_it(tmp_path: Path) -> None:
    for broker, first in ((LEADER, EMPTY), (FOLLOWER, WHOLE[FIRST])):
        replica(tmp_path, broker, WHOLE | {FIRST: first}, reached=END, cleaner=0)
    metadata(tmp_path, LEADER, [LEADER, FOLLOWER], policy="compact")
    assert ("unreadable", LEADER) in errors(audited(tmp_path))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_log_start_behind_a_segment_makes_it_none_of_the_log(tmp_path: Path, shape: str) -> None:
    """DeleteRecords moved the log start; the segments below are deleted within minutes."""
    for broker in (LEADER, FOLLOWER):
        raw = replica(tmp_path / "raw", broker, WHOLE | {FIRST: EMPTY}, reached=END, table=[(3, 100)]).parent
        (raw / "log-start-offset-checkpoint").write_bytes(kf.checkpoint([("t", 0, 100)]))
    tables = audited(shaped(metadata(tmp_path / "raw", LEADER, [LEADER, FOLLOWER]), shape, tmp_path / shape))
    assert shape == TEXT or (verdicts(tables), errors(tables)) == ({FOLLOWER: "identical"}, set()), "a text does not tell the log start"


HEALTHY = {
    "a new log": {0: EMPTY},
    "a segment that was just rolled": {0: filled(0, 100), 100: EMPTY},
    "all but the newest were deleted": {100: EMPTY},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("how", HEALTHY)
@pytest.mark.parametrize("state", ["up", "down"])
def test_an_empty_newest_segment_is_healthy(tmp_path: Path, shape: str, how: str, state: str) -> None:
    end = max(HEALTHY[how])
    for broker in (LEADER, FOLLOWER):
        replica(tmp_path / "raw", broker, HEALTHY[how], reached=end, table=[(3, min(HEALTHY[how]))])
    tables = audited(
        shaped(metadata(tmp_path / "raw", LEADER, [LEADER, FOLLOWER], down=[FOLLOWER] if state == "down" else ()), shape, tmp_path / shape)
    )
    assert (verdicts(tables), errors(tables), problems(tables)) == ({FOLLOWER: "identical"}, set(), set())


@pytest.mark.parametrize("emptied", [FIRST, MIDDLE])
@pytest.mark.parametrize("state", ["up", "down"])
def test_a_segment_of_which_the_cleaner_left_nothing_is_healthy(tmp_path: Path, emptied: int, state: str) -> None:
    """Each of its keys was written again: the file stays, with 0 bytes, until it is merged with the next one."""
    for broker in (LEADER, FOLLOWER):
        replica(tmp_path, broker, WHOLE | {emptied: EMPTY}, reached=END, cleaner=200)
    tables = audited(metadata(tmp_path, LEADER, [LEADER, FOLLOWER], policy="compact", down=[FOLLOWER] if state == "down" else ()))
    assert errors(tables) == set()
    assert problems(tables) == set()


def test_live_keys_that_an_emptied_log_lacks_are_an_error(tmp_path: Path) -> None:
    """The leader's only written segment is empty; the cleaner has been through both, and the follower holds the keys."""
    held = b"".join(kf.batch(at, 3) for at in range(90, 100))
    for broker, first in ((LEADER, EMPTY), (FOLLOWER, held)):
        replica(tmp_path, broker, {0: first, 100: EMPTY}, reached=100, cleaner=100)
    metadata(tmp_path, LEADER, [LEADER, FOLLOWER], policy="compact")
    assert ("compaction_differs", FOLLOWER) in errors(audited(tmp_path, compare="records"))
