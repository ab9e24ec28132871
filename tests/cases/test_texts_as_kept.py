"""Texts of kafka-dump-log as editors and terminals leave them: blanks at the ends of lines change nothing, what is cut is told."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import in_process

CASE = Path(__file__).resolve().parents[1] / "data" / "cases" / "dump-trailing-space"
Row = dict[str, Any]
JOINED = [("payments-0", "stale_tail"), ("payments-1", "stale_tail"), ("payments-2", "stale_tail"), ("payments-3", "lagging")]


def _verdicts(root: Path) -> tuple[list[tuple[str, str]], list[Row]]:
    tables = in_process.audit(root)
    verdicts = [(f"{row['topic']}-{row['partition']}", row["verdict"]) for row in tables["replica_verdicts"]]
    return sorted(verdicts), [row for row in (*tables["input_errors"], *tables["problems"]) if row["kind"] == "dump"]


def _changed(root: Path, broker: int, partition: int, change: Callable[[bytes], bytes]) -> Path:
    shutil.copytree(CASE, root)
    text = next((root / f"broker-{broker}" / f"payments-{partition}").iterdir())
    text.write_bytes(change(text.read_bytes()))
    return root


def test_two_lines_that_an_editor_joined_are_two() -> None:
    assert _verdicts(CASE) == (JOINED, [])


@pytest.mark.parametrize("broker", [1, 2])
@pytest.mark.parametrize("partition", range(4))
@pytest.mark.parametrize("blanks", [b" ", b"\t", b"\r", b" \xc2\xa0"])
def test_blanks_change_no_verdict(tmp_path: Path, broker: int, partition: int, blanks: bytes) -> None:
    root = _changed(tmp_path / "root", broker, partition, lambda text: text.replace(b"\n", blanks + b"\n"))
    assert _verdicts(root) == (JOINED, [])


@pytest.mark.parametrize("broker", [1, 2])
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-250] + b"\n",
        lambda text: text[:-400],
        lambda text: text[:-3] + b"\n" + text[-3:],
        lambda text: text[:-20] + b"\n",
    ],
)
def test_a_last_line_that_is_cut_or_wrapped_is_told(tmp_path: Path, broker: int, change: Callable[[bytes], bytes]) -> None:
    """A cut `lastOffset: 34` would make a log end at 3, or the follower a clean prefix."""
    verdicts, told = _verdicts(_changed(tmp_path / "root", broker, 0, change))
    assert [verdict for name, verdict in verdicts if name == "payments-0"] == ["inconclusive"]
    assert [row["code"] in ("dump-truncated", "dump-malformed") for row in told] == [True]
    assert [one for one in verdicts if one[0] != "payments-0"] == JOINED[1:]
