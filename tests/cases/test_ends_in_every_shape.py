"""The ends of logs that endanger a broker, in raw copies, in texts of kafka-dump-log and in collections."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cases.ran import Ran, ran
from tests.cases.shapes import COLLECTED, RAW, SHAPES, TEXT, dumped, filled, metadata, replica, shaped, stop
from tests.formats import kafka_files as kf

HALF = kf.batch(60, 3, value=b"x" * 200)[:100]
WHOLE, SHORT = {0: filled(0, 40), 40: filled(40, 20)}, {0: filled(0, 40), 40: filled(40, 10)}


def _errors(found: Ran) -> list[tuple[str, int]]:
    return [(code, broker) for code, severity, broker in found.findings if severity == "error"]


def _in_shape(root: Path, shape: str, to: Path) -> Path:
    """The same input; texts lie in the place of the segments, beside the small files of the log directory."""
    if shape != TEXT:
        return shaped(root, shape, to)
    shutil.copytree(root, to)
    for path in sorted(to.rglob("*.log")):
        path.with_name(f"{path.stem}.txt").write_text(dumped(path), encoding="utf-8")
        path.unlink()
    return to


def _clean_stop(root: Path, *brokers: int) -> None:
    for broker in brokers:
        stop(root, broker, cleanly=True)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("leads", [1, 2])
@pytest.mark.parametrize("own", [50, 60])
def test_a_member_of_the_isr_that_is_short(tmp_path: Path, shape: str, leads: int, own: int) -> None:
    """Its own checkpoint knows, or the leader's alone; the leader's followers are clean under no short copy of it."""
    source = tmp_path / "in"
    replica(source, 1, WHOLE, reached=60)
    replica(source, 2, SHORT, reached=own)
    _clean_stop(source, 1, 2)
    found = ran(_in_shape(metadata(source, leads, [1, 2], down=[1, 2]), shape, tmp_path / "out"))
    if leads == 1 or own == 60:
        assert (found.exit_code, _errors(found)[-1]) == (1, ("ends_below_high_watermark", 2))
    else:
        assert found.exit_code == 1, "the leader is short by the follower alone: what that truncates is the finding"


@pytest.mark.parametrize("shape", SHAPES)
def test_what_no_copy_reaches(tmp_path: Path, shape: str) -> None:
    source = tmp_path / "in"
    for broker in (1, 2):
        replica(source, broker, SHORT, reached=60)
    _clean_stop(source, 1, 2)
    found = ran(_in_shape(metadata(source, 1, [1, 2], down=[1, 2]), shape, tmp_path / "out"))
    assert (found.exit_code, _errors(found)) == (1, [("committed_records_gone", -1)])


@pytest.mark.parametrize("shape", [RAW, COLLECTED, TEXT])
@pytest.mark.parametrize("tail", [HALF, b"\0" * 300], ids=["half a batch", "zeros"])
@pytest.mark.parametrize("cleanly", [True, False])
def test_a_torn_end(tmp_path: Path, shape: str, tail: bytes, cleanly: bool) -> None:
    source = tmp_path / "in"
    replica(source, 1, WHOLE, reached=60)
    replica(source, 2, WHOLE | {40: WHOLE[40] + tail}, reached=60)
    if cleanly:
        _clean_stop(source, 2)
    found = ran(_in_shape(metadata(source, 1, [1, 2], down=[2]), shape, tmp_path / "out"))
    assert _errors(found) == ([("torn_after_clean_stop", 2)] if cleanly else [])
    assert found.exit_code == int(cleanly)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("down", [[], [2], [1, 2]])
def test_whole_logs_have_none(tmp_path: Path, shape: str, down: Sequence[int]) -> None:
    source = tmp_path / "in"
    for broker in (1, 2):
        replica(source, broker, WHOLE, reached=60)
    _clean_stop(source, *down)
    found = ran(_in_shape(metadata(source, 1, [1, 2], down=down), shape, tmp_path / "out"))
    assert (found.exit_code, found.findings) == (0, [])
