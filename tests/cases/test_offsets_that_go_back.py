"""Segments in which an offset goes back at a whole batch: that is not where the log ends, neither for a read nor for recovery.

Sources: LogSegment.recover (keeps each batch that matches its CRC), OffsetIndex.append (InvalidOffsetException) and LogLoader.recoverLog
(empties the segment then); reports KAFKA-19407, KAFKA-3919, KAFKA-3047.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.shapes import COLLECTED, RAW, SHAPES, audited, errors, filled, metadata, problems, replica, shaped, stop, verdicts
from tests.formats import kafka_files as kf

LEADER, FOLLOWER, THIRD = 1, 2, 3
SOUND = filled(0, 100)
# as of KAFKA-19407: 21 records, then 20 from the same offset on, then 106 that are nowhere else
BEHIND = [kf.batch(100, 3, deltas=range(21), value=b"a"), kf.batch(100, 3, deltas=range(20), value=b"b")]
BEHIND += [kf.batch(120, 3, deltas=range(106), value=b"c")]
BACK, END, READABLE = SOUND + b"".join(BEHIND), 226, 100 + 21 + 20 + 106
SAID = "offsets-not-increasing"


def _cluster(root: Path, wrong: tuple[int, ...], *, end: int = END, **more: bytes) -> Path:
    """Three replicas of one log of one segment, which is `BACK` on those named, and as it should be on the others."""
    right = SOUND + kf.batch(100, 3, deltas=range(20), value=b"b") + kf.batch(120, 3, deltas=range(106), value=b"c")
    for broker in (LEADER, FOLLOWER, THIRD):
        replica(root, broker, {0: BACK if broker in wrong else right}, reached=end)
    return root


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("told", [True, False], ids=["with metadata", "without"])
@pytest.mark.parametrize("wrong", [(LEADER,), (FOLLOWER,), (LEADER, FOLLOWER, THIRD)], ids=["leader", "follower", "all"])
@pytest.mark.parametrize("stopped", ["runs", "cleanly", "killed"])
def test_it_is_an_error_in_every_shape(tmp_path: Path, shape: str, told: bool, wrong: tuple[int, ...], stopped: str) -> None:
    root = _cluster(tmp_path / "raw", wrong)
    down = () if stopped == "runs" else (LEADER, FOLLOWER, THIRD)
    for broker in down:
        stop(root, broker, cleanly=stopped == "cleanly")
    if told:
        metadata(root, LEADER, [LEADER, FOLLOWER, THIRD], down=down)
    tables = audited(shaped(root, shape, tmp_path / shape))
    assert {broker for _code, broker in errors(tables)} >= set(wrong), (tables["found"], verdicts(tables))
    assert all(verdicts(tables).get(broker, "unreadable") != "identical" for broker in wrong)
    assert SAID in problems(tables)
    remedies = {row["remedy"] for row in tables["input_errors"] if row["code"] == SAID}
    assert all("will not notice" not in one and "it keeps all of the segment or" in one for one in remedies)


@pytest.mark.parametrize("shape", SHAPES)
def test_reading_goes_on_behind_it(tmp_path: Path, shape: str) -> None:
    root = metadata(_cluster(tmp_path / "raw", (FOLLOWER,)), LEADER, [LEADER, FOLLOWER, THIRD])
    (log,) = [row for row in audited(shaped(root, shape, tmp_path / shape))["replica_logs"] if row["broker_id"] == FOLLOWER]
    assert (log["log_end_offset"], log["record_count"], log["size_bytes"]) == (END, READABLE, len(BACK))


@pytest.mark.parametrize("shape", [RAW, COLLECTED])
@pytest.mark.parametrize("cleanly", [True, False])
def test_what_is_truncated_is_all_that_can_be_read(tmp_path: Path, shape: str, cleanly: bool) -> None:
    """The others were elected without it, and went on at the same offset."""
    root = tmp_path / "raw"
    for broker in (LEADER, THIRD):
        replica(root, broker, {0: SOUND + kf.batch(100, 4, deltas=range(5))}, reached=100, table=[(3, 0), (4, 100)])
    replica(root, FOLLOWER, {0: BACK}, reached=100)
    stop(root, FOLLOWER, cleanly=cleanly)
    metadata(root, LEADER, [LEADER, FOLLOWER, THIRD], isr=[LEADER, THIRD], epoch=4, down=[FOLLOWER])
    tables = audited(shaped(root, shape, tmp_path / shape))
    (row,) = [row for row in tables["replica_verdicts"] if row["follower_id"] == FOLLOWER]
    assert (row["verdict"], row["truncation_offset"], row["removed_records"]) == ("stale_tail", 100, READABLE - 100)
    assert SAID in problems(tables)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("where", [0, 100, 200], ids=["first", "middle", "last"])
def test_in_whichever_segment(tmp_path: Path, shape: str, where: int) -> None:
    whole = {base: filled(base, 100) for base in (0, 100, 200)}
    back = kf.batch(where + 40, 3, deltas=range(10), value=b"again")
    wrong = whole | {where: whole[where][: len(whole[where]) // 2] + back + filled(where + 50, 50)}
    for broker in (LEADER, FOLLOWER):
        replica(tmp_path / "raw", broker, wrong if broker == FOLLOWER else whole, reached=300)
    root = metadata(tmp_path / "raw", LEADER, [LEADER, FOLLOWER])
    tables = audited(shaped(root, shape, tmp_path / shape))
    assert (verdicts(tables), errors(tables)) == ({FOLLOWER: "unreadable"}, {("unreadable", FOLLOWER)})


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("place", [30, 15, 95], ids=["forward", "back", "far back"])
def test_one_base_offset_that_changed_hides_no_others(tmp_path: Path, shape: str, place: int) -> None:
    """The CRC does not cover it."""
    batches = [kf.batch(at, 3, deltas=range(10)) for at in range(0, 100, 10)]
    changed = [*batches]
    number = {30: 2, 15: 2, 95: 3}[place]
    changed[number] = kf.with_field(batches[number], ">q", 0, place if place != 95 else 5)
    for broker in (LEADER, FOLLOWER, THIRD):
        replica(tmp_path / "raw", broker, {0: b"".join(changed if broker == FOLLOWER else batches)}, reached=100)
    root = metadata(tmp_path / "raw", LEADER, [LEADER, FOLLOWER, THIRD])
    tables = audited(shaped(root, shape, tmp_path / shape))
    assert {broker for _code, broker in errors(tables)} == {FOLLOWER}, verdicts(tables)
    assert verdicts(tables)[THIRD] == "identical"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("magic", [0, 1])
def test_before_format_v2(tmp_path: Path, shape: str, magic: int) -> None:
    """As of KAFKA-3919, of entries whose own offsets tell it: a compressed wrapper has its last offset only."""
    entries = [kf.legacy(magic, [at]) for at in range(10)]
    for broker in (LEADER, FOLLOWER):
        wrong = [*entries[:8], kf.legacy(magic, [5], value=b"again"), *entries[8:]]
        replica(tmp_path / "raw", broker, {0: b"".join(wrong if broker == FOLLOWER else entries)}, reached=10, table=[])
    if shape == "text":
        pytest.skip("the builder of texts prints format v2")
    tables = audited(shaped(metadata(tmp_path / "raw", LEADER, [LEADER, FOLLOWER]), shape, tmp_path / shape))
    assert FOLLOWER in {broker for _code, broker in errors(tables)}


@pytest.mark.parametrize("shape", SHAPES)
def test_offsets_that_only_rise_with_gaps_are_none_of_it(tmp_path: Path, shape: str) -> None:
    """Compaction leaves gaps, and an aborted transaction's marker stands alone; nothing goes back."""
    content = b"".join([kf.batch(0, 3), kf.batch(7, 3, deltas=range(3)), kf.empty_batch(20, 3, last_delta=9), kf.batch(50, 3)])
    for broker in (LEADER, FOLLOWER):
        replica(tmp_path / "raw", broker, {0: content}, reached=51, cleaner=51)
    root = metadata(tmp_path / "raw", LEADER, [LEADER, FOLLOWER], policy="compact")
    tables = audited(shaped(root, shape, tmp_path / shape))
    assert (errors(tables), problems(tables)) == (set(), set())
