"""What log recovery does to a damaged log when its broker starts is said the same everywhere: problem, verdict, damaged batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.shapes import COLLECTED, RAW, audited, errors, filled, metadata, replica, shaped, stop, verdicts
from tests.formats import kafka_files as kf
from tests.support.in_process import Row

LEADER, FOLLOWER = 1, 2
WHOLE = {0: filled(0, 100), 100: filled(100, 100), 200: filled(200, 100)}
SIZE = len(kf.batch(0, 3, deltas=range(10)))


def _flipped(content: bytes) -> bytes:
    """A segment whose second batch has a byte that changed."""
    return content[: SIZE + 80] + bytes([content[SIZE + 80] ^ 1]) + content[SIZE + 81 :]


HOW = {
    "a byte flipped": _flipped,
    "a length of zero": lambda content: content[:SIZE] + kf.with_field(content[SIZE:], ">i", 8, 0),
    "another magic": lambda content: content[:SIZE] + kf.with_field(content[SIZE:], ">b", 16, 9),
}


def _audited(tmp_path: Path, shape: str, how: str, base: int, point: int, **stops: bool) -> tuple[str, Row, Row, Row]:
    """Verdict, problem, damaged batch and replica of a follower with a damaged segment; `cleanly` as of `stop`, or it runs."""
    root = tmp_path / "raw"
    for broker in (LEADER, FOLLOWER):
        segments = WHOLE | ({base: HOW[how](WHOLE[base])} if broker == FOLLOWER else {})
        log_dir = replica(root, broker, segments, reached=300).parent
        (log_dir / "recovery-point-offset-checkpoint").write_bytes(kf.checkpoint([("t", 0, point)]))
    if stops:
        stop(root, FOLLOWER, cleanly=stops["cleanly"])
    metadata(root, LEADER, [LEADER, FOLLOWER], isr=[LEADER], down=[FOLLOWER] if stops else ())
    tables = audited(shaped(root, shape, tmp_path / shape))
    problem = next(row for row in tables["input_errors"] if row["kind"] == "segment")
    (log,) = [row for row in tables["replica_logs"] if row["broker_id"] == FOLLOWER]
    damaged = next(iter(tables["damaged_batches"]), None)
    assert damaged is not None or shape == COLLECTED, "a collection has no bytes to look at"
    return verdicts(tables)[FOLLOWER], problem, damaged or {}, log


@pytest.mark.parametrize("shape", [RAW, COLLECTED])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("base", "point"), [(200, 200), (100, 100), (0, 0), (200, 0)])
def test_after_an_unclean_stop_it_truncates_there(tmp_path: Path, shape: str, how: str, base: int, point: int) -> None:
    verdict, problem, damaged, log = _audited(tmp_path, shape, how, base, point, cleanly=False)
    assert (verdict, log["recovery_cut_offset"]) == ("lagging", base + 10), "the leader has all that goes"
    assert f"truncates it at offset {base + 10}" in problem["remedy"]
    assert "not notice" not in problem["remedy"]
    assert damaged.get("cut_by_recovery", True)


@pytest.mark.parametrize("shape", [RAW, COLLECTED])
@pytest.mark.parametrize("holder", [LEADER, FOLLOWER])
def test_whole_batches_that_only_recovery_takes_away_are_an_error(tmp_path: Path, shape: str, holder: int) -> None:
    """The other replica ends where recovery truncates: as soon as the broker starts, offsets 120..299 are gone."""
    root = tmp_path / "raw"
    for broker in (LEADER, FOLLOWER):
        more = {100: _flipped(WHOLE[100]), 200: WHOLE[200]} if broker == holder else {100: filled(100, 10)}
        log_dir = replica(root, broker, {0: WHOLE[0]} | more, reached=110).parent
        (log_dir / "recovery-point-offset-checkpoint").write_bytes(kf.checkpoint([("t", 0, 0)]))
        stop(root, broker, cleanly=broker != holder)
    metadata(root, LEADER, [LEADER, FOLLOWER], down=[LEADER, FOLLOWER])
    tables = audited(shaped(root, shape, tmp_path / shape))
    assert errors(tables) == {("unreadable", holder)}
    (found,) = [row for row in tables["found"] if row["code"] == "unreadable"]
    assert "truncates it at 110" in found["summary"]
    assert "takes offsets 120..299" in found["summary"]


@pytest.mark.parametrize("shape", [RAW, COLLECTED])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("committed", "epoch", "is_lost"), [(100, 5, True), (10, 5, True), (100, 3, False)])
def test_what_recovery_takes_and_the_leader_has_of_another_epoch_only_is_lost(
    tmp_path: Path, shape: str, how: str, committed: int, epoch: int, is_lost: bool
) -> None:
    """The follower is damaged where the leader's next epoch begins: the ends of the logs do not show what only it held."""
    root = tmp_path / "raw"
    replica(
        root, LEADER, {0: filled(0, 10) + filled(10, 290, epoch=epoch)}, reached=300, table=[(3, 0), *([(5, 10)] if epoch == 5 else [])]
    )
    log_dir = replica(root, FOLLOWER, {0: HOW[how](WHOLE[0])}, reached=committed).parent
    (log_dir / "recovery-point-offset-checkpoint").write_bytes(kf.checkpoint([("t", 0, 0)]))
    stop(root, FOLLOWER, cleanly=False)
    metadata(root, LEADER, [LEADER, FOLLOWER], isr=[LEADER], down=[FOLLOWER], epoch=epoch)
    tables = audited(shaped(root, shape, tmp_path / shape))
    starts = [(row["outcome"], tuple(row["because"])) for row in tables["replica_starts"] if row["broker_id"] == FOLLOWER]
    assert starts == ([("copy-first", ("recovery-truncates",))] if is_lost else [])
    assert errors(tables) == ({("unreadable", FOLLOWER)} if is_lost else set())


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("cleanly", [True, None])
def test_without_recovery_it_does_not_notice(tmp_path: Path, how: str, cleanly: bool | None) -> None:
    """It was stopped cleanly, or runs."""
    stops = {} if cleanly is None else {"cleanly": cleanly}
    verdict, problem, damaged, log = _audited(tmp_path, RAW, how, 200, 200, **stops)
    assert (verdict, log["recovery_cut_offset"], damaged["cut_by_recovery"]) == ("unreadable", None, False)
    assert "the broker will not notice" in problem["remedy"]


@pytest.mark.parametrize("how", HOW)
def test_nor_below_its_recovery_point(tmp_path: Path, how: str) -> None:
    verdict, problem, damaged, log = _audited(tmp_path, RAW, how, 0, 200, cleanly=False)
    assert (verdict, log["recovery_cut_offset"], damaged["cut_by_recovery"]) == ("unreadable", None, False)
    assert "the broker will not notice" in problem["remedy"]
