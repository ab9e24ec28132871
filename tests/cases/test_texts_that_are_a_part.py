"""Text of kafka-dump-log whose own command says that it shows only a part: nothing is said of the log behind it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from replica_audit import cli
from tests.support import in_process

CASES = Path(__file__).resolve().parents[1] / "data" / "cases"
HEAD, LIMITED = CASES / "12-head", CASES / "12b-max-bytes-both"
Row = dict[str, Any]


def _with(root: Path, case: Path, brokers: tuple[int, ...], change: tuple[bytes, bytes], *, metadata: bool = True) -> Path:
    """A copy of a case in which the commands of some brokers are others."""
    shutil.copytree(case, root)
    for broker in brokers:
        text = root / f"broker-{broker}" / "dump.txt"
        text.write_bytes(text.read_bytes().replace(*change))
    if not metadata:
        (root / "cluster-metadata.json").unlink()
    return root


def _told(root: Path) -> tuple[list[tuple[str, str | None]], list[str]]:
    tables = in_process.audit(root)
    verdicts = [(row["verdict"], row["cause"]) for row in tables["replica_verdicts"]]
    return verdicts, [row["code"] for row in (*tables["input_errors"], *tables["problems"])]


@pytest.mark.parametrize("case", [HEAD, LIMITED])
def test_both_texts_are_a_part(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _told(case) == ([("inconclusive", "text not whole")], ["dump-truncated"] * 2)
    assert cli.main(["triage", "--input", str(case)]) == 3
    assert "torn" not in capsys.readouterr().out


@pytest.mark.parametrize(("case", "change"), [(HEAD, (b" | head -6", b"")), (LIMITED, (b" --max-bytes 800", b""))])
@pytest.mark.parametrize("metadata", [True, False])
@pytest.mark.parametrize("whole", [1, 2])
def test_of_the_leader_or_of_the_follower(tmp_path: Path, case: Path, change: tuple[bytes, bytes], whole: int, *, metadata: bool) -> None:
    root = _with(tmp_path / "root", case, (whole,), change, metadata=metadata)
    ((verdict, _cause),), codes = _told(root)
    assert (verdict, codes.count("dump-truncated")) == ("inconclusive", 1)
    assert cli.main(["triage", "--input", str(root)]) == 3


@pytest.mark.parametrize("command", [b"", b" | head -100", b" | tee dump.txt"])
def test_whole_texts_are_compared(tmp_path: Path, command: bytes) -> None:
    root = _with(tmp_path / "root", HEAD, (1, 2), (b" | head -6", command))
    assert _told(root) == ([("identical", None)], [])
    assert cli.main(["triage", "--input", str(root)]) == 0
