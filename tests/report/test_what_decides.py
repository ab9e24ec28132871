"""What decides the exit code is in the summary before it, with its severity, and is what is explained next."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from replica_audit import cli

CLEAN = Path(__file__).resolve().parents[1] / "data" / "sample" / "clean-in-sync"
LEADER = Path("broker-1/data-0/wide-3")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return shutil.copytree(CLEAN, tmp_path / "cluster")


def garble_checkpoint(replica: Path) -> None:
    (replica / "leader-epoch-checkpoint").write_text("0\nnone\n")


def damage_log(replica: Path) -> None:
    log = replica / f"{0:020}.log"
    log.write_bytes(b"\0" * 30 + log.read_bytes()[30:])


def triaged(root: Path, capsys: pytest.CaptureFixture[str], code: int) -> str:
    assert cli.main(["triage", "--input", str(root)]) == code
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("damage", "why"),
    [(garble_checkpoint, "leader-epoch-checkpoint cannot"), (damage_log, "at byte 0, and nothing behind that can be read")],
)
def test_a_leader_that_cannot_be_read_is_the_only_error(
    root: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], None], why: str
) -> None:
    damage(root / LEADER)
    shown = " ".join(triaged(root, capsys, 1).split())
    before, _, after = shown.partition("Exit code 1: there are findings at or above 'error'")
    assert after == "."
    assert re.findall(r"\b(critical|error): ", before) == ["error"]
    _, _, found = before.partition("1 leader cannot be read error: wide-3, broker 1: the leader itself: ")
    assert why in found.partition("(unreadable) Followers cannot be compared with them.")[0]


def test_it_is_explained_next_though_a_warning_comes_before_it(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(root / "broker-1" / "data-0" / "c-none-0")  # a leader that was not copied
    assert "--partition c-none-0\n    explains the worst finding" in triaged(root, capsys, 3)
    garble_checkpoint(root / LEADER)
    shown = triaged(root, capsys, 1)
    assert "c-none-0" in shown
    assert "--partition wide-3\n    explains the worst finding" in shown


def test_other_findings_that_are_no_verdict_have_their_severity(capsys: pytest.CaptureFixture[str]) -> None:
    offline = CLEAN.parents[1] / "offline" / "nobody-leads"
    assert "\n  error: jb-1: ISR none" in triaged(offline, capsys, 1)
