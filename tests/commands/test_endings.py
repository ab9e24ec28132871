"""How a command ends that cannot go on: what it says, where, and its exit code."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.cli import COMMANDS
from replica_audit.commands import outputs
from replica_audit.commands.running import ended
from replica_audit.errors import UsageError


def test_a_defect_is_not_taken_for_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    # what no code is known to do: the one place where a defect has to be made
    monkeypatch.setattr(outputs, "check", lambda _flag, _path: 1 // 0)
    assert cli.main(["report", "--warehouse", str(tmp_path)]) == 70
    told = capsys.readouterr()
    assert told.out == ""
    assert "ZeroDivisionError" in told.err
    assert told.err.splitlines()[-1].startswith("error: this is a bug in the program")


def test_a_newline_in_a_name_begins_no_line_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "input" / "broker-1" / "a\nerror: all is well-0").mkdir(parents=True)
    assert cli.main(["triage", "--input", str(tmp_path / "input" / "broker-1\nerror: all is well")]) == 2
    assert cli.main(["triage", "--input", str(tmp_path / "input")]) in (2, 3)
    told = capsys.readouterr().err
    assert "\\nerror: all is well" in told
    assert not [line for line in told.splitlines() if line.startswith("error: all is well")]
    assert "there is nothing to audit" in told


def test_an_error_of_several_lines_is_printed_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    error = UsageError("there is nothing to audit", "  a\nb: no file in it")
    assert ended(COMMANDS[0], argparse.Namespace(), error) == 2
    assert capsys.readouterr().err == "error: there is nothing to audit\n  a\\nb: no file in it\n"
