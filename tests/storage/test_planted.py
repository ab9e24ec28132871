"""Links and folders of others in a warehouse: no command that writes there goes through them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.errors import UsageError
from replica_audit.maintain.restore import restore
from replica_audit.maintain.run import refuse_unwritable
from replica_audit.storage.warehouse.place import refuse_links_below, refuse_planted
from tests.commands.test_planted_links import planted
from tests.house.checkout import ROOT
from tests.support.warehouse import write_warehouse

SAMPLE = ROOT / "tests" / "data" / "sample" / "multi-round"
OTHER = 12345


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return write_warehouse(tmp_path / "warehouse", SAMPLE)


def files(folder: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_mtime_ns for path in folder.rglob("*")}


def test_a_warehouse_of_ones_own_is_taken(warehouse: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("warehouse")
    (tmp_path / "absent").symlink_to("not-made-yet")
    (warehouse / "latest.html").symlink_to("reports/today.html")
    for place in (warehouse, tmp_path / "link", tmp_path / "absent", tmp_path / "not-there"):
        refuse_planted(place)


def test_a_link_of_another_user_to_a_warehouse_is_not_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if not planted(tmp_path / "warehouse", elsewhere, OTHER):
        pytest.skip("only root can make a link of another user")
    assert cli.main(["audit", "--input", str(SAMPLE), "--warehouse", str(tmp_path / "warehouse")]) == 2
    assert "is a link that another user made" in capsys.readouterr().err
    with pytest.raises(UsageError, match="is a link that another user made"):
        refuse_unwritable(str(tmp_path / "warehouse"))
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("name", ["findings", "findings/_delta_log"])
def test_a_link_in_the_place_of_a_table_or_its_log_is_refused(
    warehouse: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (warehouse / name).rename(elsewhere)
    (warehouse / name).symlink_to(elsewhere)
    log = elsewhere if name.endswith("_delta_log") else elsewhere / "_delta_log"
    max(log.glob("*.json")).write_bytes(b"")
    before = files(tmp_path)
    assert cli.main(["audit", "--input", str(SAMPLE), "--warehouse", str(warehouse)]) == 2
    assert f"{warehouse / name} is a link" in capsys.readouterr().err
    with pytest.raises(UsageError, match=f"{warehouse / name} is a link"):
        restore(warehouse, is_dry=False, tell=lambda _line: None)
    assert files(tmp_path) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")
@pytest.mark.parametrize("name", ["findings", "findings/_delta_log"])
def test_a_folder_of_another_user_is_refused(warehouse: Path, name: str) -> None:
    os.chown(warehouse / name, OTHER, -1)
    with pytest.raises(UsageError, match=rf"{warehouse / name} belongs to another user \(uid {OTHER}\)"):
        refuse_planted(warehouse)
    os.chown(warehouse, OTHER, -1)
    refuse_planted(warehouse)  # it is theirs
    warehouse.chmod(0o1777)
    with pytest.raises(UsageError, match="belongs to another user"):
        refuse_planted(warehouse)
    os.chown(warehouse, 0, -1)
    warehouse.chmod(0o770)
    refuse_planted(warehouse)  # a group shares it


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")
def test_vacuum_goes_into_no_folder_of_another_user(warehouse: Path) -> None:
    refuse_links_below(warehouse / "findings")
    (warehouse / "findings" / "theirs").mkdir()
    os.chown(warehouse / "findings" / "theirs", OTHER, -1)
    with pytest.raises(UsageError, match="theirs belongs to another user"):
        refuse_links_below(warehouse / "findings")
