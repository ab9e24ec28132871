"""How a command ends that cannot go on: what it says, where, and its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.commands import outputs


def test_a_defect_is_not_taken_for_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    # what no code is known to do: the one place where a defect has to be made
    monkeypatch.setattr(outputs, "check", lambda _flag, _path: 1 // 0)
    assert cli.main(["report", "--warehouse", str(tmp_path)]) == 70
    told = capsys.readouterr()
    assert told.out == ""
    assert "ZeroDivisionError" in told.err
    assert told.err.splitlines()[-1].startswith("error: this is a bug in the program")
