"""Links that another user planted where a report, a plan or a salvage is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from replica_audit.commands import outputs
from replica_audit.commands.new_folder import write_folder
from replica_audit.errors import UsageError
from replica_audit.own_folder import private_files
from replica_audit.salvage.output import SalvageOutput


def planted(link: Path, target: Path, owner: int) -> bool:
    """Make a link of a user; whether that was possible: only root may."""
    link.symlink_to(target)
    if os.geteuid():
        return owner == os.geteuid()
    os.chown(link, owner, -1, follow_symlinks=False)
    return True


def test_a_report_is_not_written_through_the_link_of_another_user(tmp_path: Path) -> None:
    target = tmp_path / "victim"
    target.write_text("precious", encoding="utf-8")
    if planted(tmp_path / "report.html", target, 12345):
        with pytest.raises(UsageError, match="a link that another user made"):
            outputs.check("--html", tmp_path / "report.html")
        with pytest.raises(UsageError, match="a link that another user made"):
            outputs.write("--html", tmp_path / "report.html", "page")
    assert target.read_text(encoding="utf-8") == "precious"


def test_a_link_of_ones_own_is_followed(tmp_path: Path) -> None:
    target = tmp_path / "2026-11-27.html"
    assert planted(tmp_path / "latest.html", target, os.geteuid())
    outputs.write("--html", tmp_path / "latest.html", "page")
    assert target.read_text(encoding="utf-8") == "page"
    assert (tmp_path / "latest.html").is_symlink()


def test_a_plan_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "plan").symlink_to(tmp_path / "victim")
    with pytest.raises(UsageError, match="is a link"):
        write_folder("--plan", tmp_path / "plan", [("PLAN.md", "text", False)])
    assert not list((tmp_path / "victim").iterdir())


@pytest.mark.parametrize("name", ["", "records", "replay"])
def test_a_salvage_removes_nothing_behind_a_link(tmp_path: Path, name: str) -> None:
    victim, output = tmp_path / "victim", tmp_path / "saved"
    victim.mkdir()
    (victim / ".a.unfinished").touch()
    if name:
        with SalvageOutput(output, {"run": "one"}, ()).begun():
            pass
        (output / name).rmdir()
    (output / name if name else output).symlink_to(victim)
    with pytest.raises(UsageError), SalvageOutput(output, {"run": "one"}, ()).begun():
        pass
    assert [path.name for path in victim.iterdir()] == [".a.unfinished"]


def test_private_files_end_with_the_work(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with private_files():
            (tmp_path / "inside").touch()
        (tmp_path / "after").touch()
    finally:
        os.umask(before)
    assert [oct((tmp_path / name).stat().st_mode & 0o777) for name in ("inside", "after")] == ["0o600", "0o644"]
