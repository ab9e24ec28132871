"""Copies in which all `*.log` files were left out: what only the copy shows broken is to be copied again, and hides nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.shapes import audited, errors, filled, metadata, problems, replica, stop, verdicts

LEADER, FOLLOWER, THIRD = 1, 2, 3
WHOLE = {0: filled(0, 100), 100: filled(100, 50)}


def _cluster(root: Path, without: tuple[int, ...], *, down: tuple[int, ...] = (), cleanly: bool = True) -> Path:
    for broker in (LEADER, FOLLOWER, THIRD):
        directory = replica(root, broker, {} if broker in without else WHOLE, reached=150)
        (directory / f"{0:020d}.index").write_bytes(bytes(8))
        if broker in down:
            stop(root, broker, cleanly=cleanly)
    return metadata(root, LEADER, [LEADER, FOLLOWER, THIRD], down=down)


@pytest.mark.parametrize("cleanly", [True, False])
def test_a_follower(tmp_path: Path, cleanly: bool) -> None:
    tables = audited(_cluster(tmp_path, (FOLLOWER,), down=(FOLLOWER,), cleanly=cleanly))
    assert verdicts(tables) == {FOLLOWER: "inconclusive", THIRD: "identical"}
    assert (errors(tables), problems(tables)) == (set(), {"no-segments"})
    (row,) = [row for row in tables["replica_verdicts"] if row["follower_id"] == FOLLOWER]
    assert row["cause"] == "segments not copied"
    assert "copy the directory again" in row["reason"]


@pytest.mark.parametrize("down", [(), (LEADER, FOLLOWER, THIRD)], ids=["runs", "stopped"])
def test_the_leader(tmp_path: Path, down: tuple[int, ...]) -> None:
    tables = audited(_cluster(tmp_path, (LEADER,), down=down))
    assert verdicts(tables) == {FOLLOWER: "inconclusive", THIRD: "inconclusive"}
    assert "unreadable" not in {row["code"] for row in tables["found"]}


@pytest.mark.parametrize("down", [(), (LEADER, FOLLOWER, THIRD)], ids=["run", "stopped"])
def test_all_of_them(tmp_path: Path, down: tuple[int, ...]) -> None:
    tables = audited(_cluster(tmp_path, (LEADER, FOLLOWER, THIRD), down=down))
    assert set(verdicts(tables).values()) == {"inconclusive"}
    assert errors(tables) == set()


def test_it_hides_no_finding_of_another(tmp_path: Path) -> None:
    root = _cluster(tmp_path, (FOLLOWER,), down=(FOLLOWER, THIRD))
    (root / f"broker-{THIRD}" / "data" / "t-0" / f"{0:020d}.log").write_bytes(b"")
    tables = audited(root)
    assert (verdicts(tables)[FOLLOWER], errors(tables)) == ("inconclusive", {("unreadable", THIRD)})
