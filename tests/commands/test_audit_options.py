"""What `audit` refuses before any work is done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from replica_audit import cli
from tests.house.checkout import ROOT
from tests.support.before_spark import STARTED, before_spark


@pytest.mark.parametrize("flag", ["--json", "--html", "--metrics"])
@pytest.mark.parametrize(("place", "why"), [("nowhere/x", "not a file in an existing directory"), (".", "not a file")])
def test_a_file_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str, place: str, why: str) -> None:
    assert cli.main(["audit", "--warehouse", str(tmp_path / "w"), flag, str(tmp_path / place)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {flag} {tmp_path}") and why in told
    assert not (tmp_path / "w").exists()


def test_a_page_needs_tables_that_can_be_read_without_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["audit", "--warehouse", "audits.nightly", "--html", str(tmp_path / "x.html")]) == 2
    assert "give --warehouse as a directory or URI" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--input", "nowhere"], "nowhere: does not exist; check the path given to --input"),
        (["--input", "nowhere", "--input", "file"], "is not a directory; give the directory that holds one folder per broker"),
        (["--input", ""], "--input: empty"),
        (["--input", "https://x/y"], "only local directories"),
        (["--topics", "["], "not a regular expression"),
        (["--protocol", "kip-9"], "protocol"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
        (["--config", "bad.yaml"], "bad.yaml"),
        (["--cluster-metadata", "nowhere.json"], "nowhere.json: no such file"),
        (["--cluster-metadata", "bad.json"], "--cluster-metadata bad.json: not JSON"),
        (["--warehouse", "file"], "is a file, not a directory"),
        (["--warehouse", "file/below"], "is a file, not a directory"),
        (["--run-id", "a/b"], "--run-id 'a/b'"),
    ],
)
def test_what_cannot_end_well_is_refused_without_spark_and_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    """Before a JVM is started, and by the command itself; in a process of its own that must not have loaded PySpark."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    (tmp_path / "bad.yaml").write_text("fail_on: [", encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    for module, entry in (("tests.support.before_spark", "before_spark"), ("replica_audit.cli", "main")):
        ask = f"import sys; from {module} import {entry}; code = {entry}(sys.argv[1:])"
        code = f"{ask}; assert 'pyspark' not in sys.modules; sys.exit(code)"
        command = [sys.executable, "-c", code, "audit", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": f"{ROOT / 'lib'}:{ROOT}"}
        )
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert done.stderr.startswith("error: ")
        assert said in done.stderr
        assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("arguments", [["audit"], ["audit", "--warehouse", "w"]])
def test_spark_starts_where_nothing_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert before_spark(arguments) == STARTED
    assert list(tmp_path.iterdir()) == []


def test_a_date_that_is_none_is_told_how_to_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["audit", "--run-date", "2026-13-01"])
    assert ended.value.code == 2
    assert "'2026-13-01' is not a date; give it as YYYY-MM-DD" in capsys.readouterr().err
