"""How a command ends that cannot go on: what it says, where, and its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.commands import outputs
from tests.house.checkout import ROOT


def test_a_defect_is_not_taken_for_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    # what no code is known to do: the one place where a defect has to be made
    monkeypatch.setattr(outputs, "check", lambda _flag, _path: 1 // 0)
    assert cli.main(["report", "--warehouse", str(tmp_path)]) == 70
    told = capsys.readouterr()
    assert told.out == ""
    assert "ZeroDivisionError" in told.err
    assert told.err.splitlines()[-1].startswith("error: this is a bug in the program")


def test_errors_go_to_the_launchers_own_stderr_although_spark_joins_both_streams() -> None:
    read_end, write_end = os.pipe()
    code = "import sys; from replica_audit.cli import main; sys.exit(main(['report', '--top', '-1']))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "lib"), "REPLICA_AUDIT_STDERR": f"/proc/{os.getpid()}/fd/{write_end}"}
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    os.close(write_end)
    with os.fdopen(read_end) as own:
        assert (done.returncode, done.stdout, own.read()) == (2, "", "error: --top -1: give 0 or more\n")
