"""Links that another user planted where a report, a plan or a salvage is written."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from replica_audit.commands import outputs, running
from replica_audit.commands.outputs import write_folder
from replica_audit.commands.progress_file import followed
from replica_audit.errors import OutputError, UsageError
from replica_audit.formats.salvage.saved_file import SavedFile, outcome_of
from replica_audit.own_folder import open_anew, private_files
from replica_audit.salvage.output import SalvageOutput
from tests.formats.rights import give_away


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


def test_a_chain_of_links_is_followed_only_as_far_as_they_are_ones_own(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    (tmp_path / "latest.html").symlink_to("today.html")
    if planted(tmp_path / "today.html", victim, 12345):
        for refused in (
            lambda: outputs.check("--html", tmp_path / "latest.html"),
            lambda: outputs.write("--html", tmp_path / "latest.html", "page"),
        ):
            with pytest.raises(UsageError, match="a link that another user made"):
                refused()
    assert victim.read_text(encoding="utf-8") == "precious"


def test_a_link_that_is_planted_after_the_look_is_replaced_and_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between looking for links and putting the file there."""
    victim, path = tmp_path / "victim", tmp_path / "report.html"
    victim.write_text("precious", encoding="utf-8")
    replace = os.replace

    def plant_first(made: str, name: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        path.symlink_to(victim)
        replace(made, name, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "replace", plant_first)
    outputs.write("--html", path, "page")
    assert (path.is_symlink(), path.read_text(encoding="utf-8"), victim.read_text(encoding="utf-8")) == (False, "page", "precious")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["report.html", "victim"]


def test_what_is_written_in_place_is_not_written_through_the_link_of_another_user(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "message"
    victim.write_text("precious", encoding="utf-8")
    if planted(path, victim, 12345):
        with pytest.raises(UsageError, match="a link that another user made"):
            running.begin(argparse.Namespace(termination_message=path))
        running.write_ending(argparse.Namespace(termination_message=path), "audit", 0, "fine")
        with pytest.raises(UsageError, match="a link that another user made"):
            followed(path, "audit", None, lambda _told: 0)
    assert victim.read_text(encoding="utf-8") == "precious"


def given_away(path: Path) -> None:
    give_away(path)
    path.chmod(0o666)
    path.parent.chmod(0o1777)


def test_the_file_of_another_user_is_not_written_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As nothing says it was not made to read what is written there."""
    path = tmp_path / "message"
    path.write_text("planted", encoding="utf-8")
    given_away(path)
    monkeypatch.delenv("SUDO_UID", raising=False)
    with pytest.raises(UsageError, match="belongs to another user"):
        running.begin(argparse.Namespace(termination_message=path))
    running.write_ending(argparse.Namespace(termination_message=path), "audit", 0, "fine")
    with pytest.raises(UsageError, match="belongs to another user"):
        followed(path, "audit", None, lambda _told: 0)
    assert path.read_text(encoding="utf-8") == "planted"
    monkeypatch.setenv("SUDO_UID", "12345")
    running.write_ending(argparse.Namespace(termination_message=path), "audit", 0, "fine")
    assert "fine" in path.read_text(encoding="utf-8")


def test_the_pipe_of_another_user_is_not_written_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    os.mkfifo(path)
    given_away(path)
    monkeypatch.delenv("SUDO_UID", raising=False)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    for refused in (
        lambda: outputs.check("--html", path),
        lambda: outputs.write("--html", path, "page"),
        lambda: followed(path, "audit", None, lambda _told: 0),
    ):
        with pytest.raises(UsageError, match="belongs to another user"):
            refused()
    assert os.read(reader, 99) == b""
    os.close(reader)


def test_what_root_has_and_terminals_of_others_are_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's /dev/termination-log is root's, and the terminal of whoever became this user by su is theirs."""
    path = tmp_path / "message"
    path.touch()
    if os.geteuid() == 0:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        running.write_ending(argparse.Namespace(termination_message=path), "audit", 0, "fine")
        assert path.read_text(encoding="utf-8")
    terminal, seen = os.openpty()
    name = Path(os.ttyname(seen))
    monkeypatch.undo()
    if os.geteuid() == 0:
        os.chown(name, 12345, -1)
    outputs.check("--json", name)
    outputs.write("--json", name, "{}")
    assert os.read(terminal, 9) == b"{}"
    os.close(terminal)
    os.close(seen)


def test_a_pipe_that_is_named_by_its_descriptor_is_written_to() -> None:
    reading, writing = os.pipe()
    outputs.check("--json", Path(f"/dev/fd/{writing}"))
    outputs.write("--json", Path(f"/dev/fd/{writing}"), "{}")
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        assert stream.read() == b"{}"


def test_a_folder_of_a_plan_that_was_planted_meanwhile_is_not_written_to(tmp_path: Path) -> None:
    victim, plan = tmp_path / "victim", tmp_path / "plan"
    for folder in (victim, plan):
        folder.mkdir()
    (plan / "steps").symlink_to(victim)
    (plan / "PLAN.md").symlink_to(victim / "new")
    for name in ("steps/1.sh", "PLAN.md"):
        with pytest.raises(OutputError):
            write_folder("--plan", plan, [(name, "text", False)])
    assert not list(victim.iterdir())


def test_a_folder_where_everybody_may_rename_holds_no_salvage(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(UsageError, match="every user may write"), SalvageOutput(shared / "saved", {"run": "one"}, ()).begun():
        pass
    assert not list(shared.iterdir())


def test_a_folder_whose_owner_may_rename_holds_no_salvage(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    give_away(shared)
    shared.chmod(0o1777)
    with pytest.raises(UsageError, match="belongs to another user"), SalvageOutput(shared / "saved", {"run": "one"}, ()).begun():
        pass
    assert not list(shared.iterdir())


def test_a_file_of_a_salvage_is_not_written_through_a_link(tmp_path: Path) -> None:
    """That was planted after a salvage has begun, as whoever can write to its folders may."""
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    output = SalvageOutput(tmp_path / "saved", {"run": "one"}, ())
    with output.begun():
        (output.folder / ".SALVAGE.md.unfinished").symlink_to(victim)
        output.write("SALVAGE.md", ["text"])
    assert (output.folder / "SALVAGE.md").read_text(encoding="utf-8") == "text"
    (tmp_path / ".a.parquet.unfinished").symlink_to(victim)
    with SavedFile(tmp_path / "a.parquet") as file:
        file.finish("done")
    assert outcome_of(tmp_path / "a.parquet") == "done"
    assert victim.read_text(encoding="utf-8") == "precious"


def test_a_file_that_somebody_makes_meanwhile_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    monkeypatch.setattr(Path, "unlink", lambda path, missing_ok: path.symlink_to(victim))
    with pytest.raises(FileExistsError):
        open_anew(tmp_path / "made")
    assert victim.read_text(encoding="utf-8") == "precious"


def test_private_files_end_with_the_work(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with private_files():
            (tmp_path / "inside").touch()
        (tmp_path / "after").touch()
    finally:
        os.umask(before)
    assert [oct((tmp_path / name).stat().st_mode & 0o777) for name in ("inside", "after")] == ["0o600", "0o644"]
