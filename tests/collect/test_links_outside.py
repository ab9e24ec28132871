"""Links that lead out of a log directory: `collect` tells of them, and copies nothing that they lead to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from replica_audit.collect import CollectRequest, CollectResult, collect
from tests.collect.collections import quietly
from tests.collect.test_output import LOG_DIR

REPLICA = "billing-0"
OFFSETS = "__consumer_offsets-0"
NAMES = (
    "meta.properties",
    "replication-offset-checkpoint",
    REPLICA,
    f"{REPLICA}/leader-epoch-checkpoint",
    f"{REPLICA}/partition.metadata",
    f"{REPLICA}/00000000000000000000.log",
    f"{OFFSETS}/00000000000000000000.log",
    "__cluster_metadata-0",
    "__cluster_metadata-0/quorum-state",
    "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint",
)
LINE = b"root:x:4711\n"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return Path(shutil.copytree(LOG_DIR, tmp_path / "kafka" / "data-0"))


def taken(log_dir: Path, output: Path, *, follow_links: bool = False) -> CollectResult:
    request = CollectRequest(output=output, log_dirs=(log_dir,), broker_id=1, follow_links=follow_links)
    return collect(request, quietly)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_folder", [False, True])
def test_nothing_behind_a_link_is_copied(log_dir: Path, tmp_path: Path, name: str, is_folder: bool) -> None:
    """Be it a link itself, or a file in a folder that is one."""
    outside, path = tmp_path / "private", log_dir / name
    if path.is_dir():
        shutil.copytree(path, outside)
        (outside / "leader-epoch-checkpoint").write_bytes(LINE)
        shutil.rmtree(path)
    else:
        outside.write_bytes(LINE * 200)
        path.unlink(missing_ok=True)
    path.symlink_to(outside)
    link = path
    if is_folder and "/" in name:
        link = path.parent
        link.rename(tmp_path / "moved")
        link.symlink_to(tmp_path / "moved")
    result = taken(log_dir, tmp_path / "out")
    told = [(one.path, one.reason) for one in result.unread]
    assert told == [(str(link), f"a link leads out of {log_dir}: not followed without --follow-links")]
    assert result.exit_code == 3
    assert not [file for file in result.folder.rglob("*") if file.is_file() and b"4711" in file.read_bytes()]


def test_links_are_followed_if_that_is_asked_for(log_dir: Path, tmp_path: Path) -> None:
    (log_dir / REPLICA).rename(tmp_path / REPLICA)
    (log_dir / REPLICA).symlink_to(tmp_path / REPLICA)
    result = taken(log_dir, tmp_path / "out", follow_links=True)
    assert (result.unread, result.exit_code) == ((), 0)


def test_links_within_the_log_directory_and_to_it_are_followed(log_dir: Path, tmp_path: Path) -> None:
    (log_dir / REPLICA).rename(log_dir / "..data")
    (log_dir / REPLICA).symlink_to("..data")
    segment = log_dir / OFFSETS / "00000000000000000000.log"
    segment.rename(segment.with_name("moved"))
    segment.symlink_to("moved")
    (tmp_path / "mount").symlink_to(log_dir)
    result = taken(tmp_path / "mount", tmp_path / "out")
    assert (result.unread, result.exit_code) == ((), 0)
    assert result.manifest.counts["segments"] == taken(LOG_DIR, tmp_path / "plain").manifest.counts["segments"]
