"""Holes of a log that is not compacted, on one replica or on all of them, in every shape of input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cases.shapes import COLLECTED, SHAPES, TEXT, Segments, audited, errors, filled, metadata, replica, shaped, verdicts

WHOLE: Segments = {0: filled(0, 50), 50: filled(50, 50)}
INSIDE: Segments = {0: filled(0, 20) + filled(30, 20), 50: filled(50, 50)}
AT_FRONT: Segments = {0: filled(10, 40), 50: filled(50, 50)}
BETWEEN: Segments = {0: filled(0, 40), 50: filled(50, 50)}
IN_NEWEST: Segments = {0: filled(0, 50), 50: filled(50, 20) + filled(80, 20)}
HOLES = [
    pytest.param(INSIDE, "20..29", id="in a segment"),
    pytest.param(AT_FRONT, "0..9", id="at the front"),
    pytest.param(BETWEEN, "40..49", id="between segments"),
    pytest.param(IN_NEWEST, "70..79", id="in the newest segment"),
]


def cluster(root: Path, held: Sequence[Segments], policy: str | None = "delete", cleaner: int | None = None) -> Path:
    """A cluster that was shut down; broker 1 leads where there is metadata."""
    brokers = range(1, len(held) + 1)
    for broker, segments in zip(brokers, held, strict=True):
        replica(root, broker, segments, reached=100, cleaner=cleaner)
        (root / f"broker-{broker}" / "data" / ".kafka_cleanshutdown").touch()
    return root if policy is None else metadata(root, 1, brokers, policy=policy, down=brokers)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize(("held", "where"), HOLES)
def test_a_hole_that_every_copy_has_is_an_error(tmp_path: Path, held: Segments, where: str, copies: int, shape: str) -> None:
    found = audited(shaped(cluster(tmp_path / "raw", [held] * copies), shape, tmp_path / "as"))
    assert errors(found) == {("offsets_missing", 1)}
    (row,) = found["found"]
    assert row["summary"].startswith(f"offsets {where} are missing between records of the log")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lacking", [(1,), (2,), (1, 2), (2, 3)])
@pytest.mark.parametrize(("held", "where"), HOLES)
def test_a_hole_that_another_copy_fills_is_one_of_the_pair(
    tmp_path: Path, held: Segments, where: str, lacking: Sequence[int], shape: str
) -> None:
    copies = [held if broker in lacking else WHOLE for broker in (1, 2, 3)]
    found = audited(shaped(cluster(tmp_path / "raw", copies), shape, tmp_path / "as"))
    broken = {follower: "log_matching_violation" for follower in (2, 3) if (follower in lacking) != (1 in lacking)}
    assert {follower: verdict for follower, verdict in verdicts(found).items() if verdict != "identical"} == broken, where
    assert {code for code, _broker in errors(found)} == {"log_matching_violation"}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("held", "where"), HOLES)
def test_a_cleaner_may_leave_holes(tmp_path: Path, held: Segments, where: str, shape: str) -> None:
    found = audited(shaped(cluster(tmp_path / "raw", [held] * 3, policy="compact", cleaner=50), shape, tmp_path / "as"))
    assert not errors(found), where


@pytest.mark.parametrize(("shape", "is_told"), [(TEXT, False), (COLLECTED, True)])
def test_where_nothing_tells_of_the_policy_a_cleaners_checkpoint_does(tmp_path: Path, shape: str, is_told: bool) -> None:
    found = audited(shaped(cluster(tmp_path / "raw", [INSIDE] * 3, policy=None), shape, tmp_path / "as"))
    assert bool(errors(found)) == is_told


@pytest.mark.parametrize("shape", SHAPES)
def test_what_retention_took_is_no_hole(tmp_path: Path, shape: str) -> None:
    kept = {50: WHOLE[50]}
    assert not errors(audited(shaped(cluster(tmp_path / "raw", [kept, kept, WHOLE]), shape, tmp_path / "as")))
