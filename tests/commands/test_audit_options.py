"""What `audit` refuses before any work is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit import cli


@pytest.mark.parametrize("flag", ["--json", "--html"])
@pytest.mark.parametrize(("place", "why"), [("nowhere/x", "not a file in an existing directory"), (".", "not a file")])
def test_a_file_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str, place: str, why: str) -> None:
    assert cli.main(["audit", "--warehouse", str(tmp_path / "w"), flag, str(tmp_path / place)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {flag} {tmp_path}") and why in told
    assert not (tmp_path / "w").exists()


def test_a_page_needs_tables_that_can_be_read_without_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["audit", "--warehouse", "audits.nightly", "--html", str(tmp_path / "x.html")]) == 2
    assert "give --warehouse as a directory or URI" in capsys.readouterr().err
