"""What somebody planted where a collection is written: nothing is followed, taken over or removed."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from replica_audit.errors import UsageError
from replica_audit.own_folder import MARKER, refuse_shared, remove_own
from tests.collect.test_output import JOB, LOG_DIR, ROOT, taken
from tests.formats.rights import give_away

NAMES = ("broker-1", ".broker-1.collecting", ".broker-1.collecting.replaced", ".broker-1.kept")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A log directory of the broker."""
    return Path(shutil.copytree(LOG_DIR, tmp_path / "victim"))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_link_is_refused_and_what_it_leads_to_stays(tmp_path: Path, victim: Path, name: str, replace: bool) -> None:
    output, before = tmp_path / "shared", files(victim)
    output.mkdir()
    (output / name).symlink_to(victim)
    with pytest.raises(UsageError, match="is a link"):
        taken(output, replace=replace)
    assert files(victim) == before
    assert [path.name for path in output.iterdir()] == [name]


def test_a_link_in_the_place_of_an_earlier_collection_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    output, elsewhere = tmp_path / "shared", tmp_path / "elsewhere"
    made = taken(elsewhere)
    before = files(made)
    output.mkdir()
    (output / "broker-1").symlink_to(made)
    with pytest.raises(UsageError, match="is a link"):
        taken(output, replace=True)
    assert files(made) == before


def test_a_folder_with_files_of_somebody_else_is_refused(tmp_path: Path, victim: Path) -> None:
    output = tmp_path / "shared"
    output.mkdir()
    before = files(victim)
    victim.rename(output / ".broker-1.collecting")
    with pytest.raises(UsageError, match="did not make"):
        taken(output)
    assert files(output / ".broker-1.collecting") == before


def test_what_a_killed_run_left_is_cleared(tmp_path: Path) -> None:
    left = tmp_path / ".broker-1.collecting"
    left.mkdir()
    (left / MARKER).touch()
    (left / "data-0").mkdir()
    folder = taken(tmp_path)
    assert not left.exists()
    assert not (folder / MARKER).exists()


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid():
        with pytest.raises(PermissionError):  # only root can make one
            os.chown(tmp_path, 12345, -1)
        return
    (tmp_path / ".broker-1.collecting").mkdir()
    os.chown(tmp_path / ".broker-1.collecting", 12345, -1)
    with pytest.raises(UsageError, match="belongs to another user"):
        taken(tmp_path)


def test_a_folder_in_which_every_user_may_rename_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UsageError, match="every user may write"):
        taken(tmp_path)
    tmp_path.chmod(0o1777)
    assert taken(tmp_path).is_dir()


@pytest.mark.parametrize(
    ("mode", "by_sudo", "is_used"),
    [
        pytest.param(0o1777, False, False, id="sticky: its owner may rename all the same"),
        pytest.param(0o755, False, True, id="nobody but its owner"),
        pytest.param(0o770, False, True, id="a group"),
        pytest.param(0o1777, True, True, id="of whoever runs sudo, sticky"),
        pytest.param(0o777, True, False, id="of whoever runs sudo, who lets everybody in"),
    ],
)
def test_a_folder_whose_owner_may_rename_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, by_sudo: bool, is_used: bool
) -> None:
    output = tmp_path / "of another"
    output.mkdir()
    give_away(output)
    output.chmod(mode)
    monkeypatch.delenv("SUDO_UID", raising=False)
    if by_sudo:
        monkeypatch.setenv("SUDO_UID", "12345")
    if is_used:
        assert taken(output).is_dir()
        return
    with pytest.raises(UsageError, match="replace what is made there"):
        taken(output)
    assert not list(output.iterdir())
    assert taken(output / "not there yet").is_dir()


def test_a_folder_that_a_group_shares_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o770)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    refuse_shared("--output", tmp_path)
    tmp_path.chmod(0o750)
    refuse_shared("--output", tmp_path)
    if not os.getuid():
        os.chown(tmp_path, 54321, -1)
        refuse_shared("--output", tmp_path)
        tmp_path.chmod(0o1777)
        with pytest.raises(UsageError, match="belongs to another user"):
            refuse_shared("--output", tmp_path)


def test_of_a_link_in_what_is_removed_only_the_link_goes(tmp_path: Path, victim: Path) -> None:
    before = files(victim)
    made = taken(tmp_path / "out")
    (made / "data-0" / "link").symlink_to(victim)
    (made / "top").symlink_to(victim)
    left = tmp_path / "out" / ".broker-1.collecting"
    left.mkdir()
    (left / MARKER).touch()
    (left / "link").symlink_to(victim)
    taken(tmp_path / "out", replace=True)
    assert files(victim) == before
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["broker-1"]


def test_a_folder_in_the_place_of_what_is_replaced_that_is_no_collection_stays(tmp_path: Path, victim: Path) -> None:
    output = tmp_path / "out"
    taken(output)
    before = files(victim)
    victim.rename(output / ".broker-1.collecting.replaced")
    with pytest.raises(UsageError, match="is not a collection"):
        taken(output, replace=True)
    assert files(output / ".broker-1.collecting.replaced") == before


def test_what_a_removal_that_was_killed_left_is_removed(tmp_path: Path) -> None:
    """Its manifest is gone, its mark is there."""
    output = tmp_path / "out"
    taken(output)
    left = output / ".broker-1.collecting.replaced"
    (left / "data-0").mkdir(parents=True)
    (left / MARKER).touch()
    taken(output, replace=True)
    assert [path.name for path in output.iterdir()] == ["broker-1"]


def test_a_folder_that_was_exchanged_for_a_link_is_not_removed(tmp_path: Path, victim: Path) -> None:
    before = files(victim)
    (tmp_path / "ours").symlink_to(victim)
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    with pytest.raises(OSError):
        remove_own(folder, "ours")
    os.close(folder)
    assert files(victim) == before


def test_only_its_user_can_read_a_collection(tmp_path: Path) -> None:
    command = [*JOB, "--log-dir", str(LOG_DIR), "--output", str(tmp_path / "out")]
    subprocess.run(command, env={"PYTHONPATH": str(ROOT / "lib")}, check=True, capture_output=True, umask=0o022)
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in [tmp_path / "out", *(tmp_path / "out").rglob("*")]}
    assert len(found) > 10
    assert {mode for path, mode in found.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in found.items() if path.is_file()} == {0o600}
