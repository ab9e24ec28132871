"""What cannot be read on the broker is told in the manifest, and comes out of the audit as it would there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replica_audit.collect import CollectRequest, CollectResult, collect
from replica_audit.errors import UsageError
from tests.collect.collections import quietly
from tests.collect.test_same_rows import comparable
from tests.formats.rights import bound_by_modes, open_to_all
from tests.support import in_process

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample" / "committed-loss"
SEGMENT = "billing-0/00000000000000000000.log"
METADATA = "__cluster_metadata-0"  # beside whose segments more is copied
Audited = tuple[CollectResult, dict[str, list[dict[str, Any]]], dict[str, list[dict[str, Any]]]]


def audited(spoil: Callable[[Path], object]) -> tuple[Audited, Path, Path]:
    """What a user without the rights of root collects of a spoiled copy of broker 1, audited as it is and as collected."""
    with open_to_all() as parent:
        root, to = parent / "root", parent / "collected"
        shutil.copytree(SAMPLE, root)
        shutil.rmtree(root / "broker-3")
        for log in root.rglob("server.log"):  # is not collected
            log.unlink()
        for path in (root, *root.rglob("*")):
            path.chmod(0o755)
        spoil(root / "broker-1" / "data-0")
        to.mkdir()
        shutil.copytree(root / "broker-2", to / "broker-2")
        shutil.copy(root / "cluster-metadata.json", to)

        def both() -> Audited:
            result = collect(CollectRequest(output=to, log_dirs=(root / "broker-1" / "data-0",), broker_id=1), quietly)
            return result, in_process.audit(root), in_process.audit(to)

        found = bound_by_modes(both)
        shutil.rmtree(to)
        return found, root, to


@pytest.mark.parametrize("what", [SEGMENT, "billing-0/leader-epoch-checkpoint", "billing-0/partition.metadata", "billing-0"])
def test_without_permission(what: str) -> None:
    (result, raw, collected), root, to = audited(lambda log_dir: (log_dir / what).chmod(0))
    assert result.exit_code == 3
    (unread,) = result.unread
    assert (unread.path, unread.reason) == (str(root / "broker-1" / "data-0" / what), "Permission denied")
    assert result.manifest.counts["unread"] == 1
    same(raw, collected, root, to)


def test_a_metadata_log_without_permission() -> None:
    (result, _raw, collected), root, _to = audited(lambda log_dir: (log_dir / METADATA).chmod(0))
    assert result.exit_code == 3
    (unread,) = result.unread
    assert (unread.path, unread.reason) == (str(root / "broker-1" / "data-0" / METADATA), "Permission denied")
    assert collected["replica_verdicts"]


@pytest.mark.parametrize("what", ["replication-offset-checkpoint", "meta.properties", "cleaner-offset-checkpoint"])
def test_files_of_the_log_directory_without_permission(what: str) -> None:
    (result, raw, collected), root, to = audited(lambda log_dir: (log_dir / what).chmod(0))
    assert [unread.kind for unread in result.unread] == [what]
    same(raw, collected, root, to)


def same(raw: dict[str, list[Any]], collected: dict[str, list[Any]], root: Path, to: Path) -> None:
    for table in raw.keys() | collected.keys():
        assert comparable(collected[table], to, root) == comparable(raw[table], to, root), table


def test_something_else_under_a_segments_name() -> None:
    def spoil(log_dir: Path) -> None:
        (log_dir / SEGMENT).unlink()
        (log_dir / SEGMENT).mkdir()

    (result, raw, collected), root, to = audited(spoil)
    assert [unread.reason for unread in result.unread] == ["is not a regular file"]
    same(raw, collected, root, to)


def test_malformed_small_files_are_collected_as_they_are() -> None:
    def spoil(log_dir: Path) -> None:
        (log_dir / "billing-0" / "leader-epoch-checkpoint").write_bytes(b"0\n2\n0 0\n")
        (log_dir / "billing-1" / "partition.metadata").write_bytes(b"\xff")
        (log_dir / "recovery-point-offset-checkpoint").write_bytes(b"nine")

    (result, raw, collected), root, to = audited(spoil)
    assert result.exit_code == 0
    assert {row["code"] for row in [*collected["input_errors"], *collected["problems"]]} >= {"malformed"}
    same(raw, collected, root, to)


@pytest.mark.parametrize(
    ("is_there", "reason"), [(False, "No such file or directory"), (True, "is empty, as where its disk is not mounted")]
)
def test_one_of_two_log_directories_is_gone(tmp_path: Path, *, is_there: bool, reason: str) -> None:
    """A disk died: server.properties still names it, and perhaps the folder is there that it was mounted at."""
    if is_there:
        (tmp_path / "data-1").mkdir()
    shutil.copytree(SAMPLE / "broker-1" / "data-0", tmp_path / "data-0")
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={tmp_path}/data-0,{tmp_path}/data-1\n")
    result = collect(CollectRequest(output=tmp_path / "out", server_properties=properties), quietly)
    assert result.exit_code == 3
    assert [(one.path, one.reason.partition(":")[0]) for one in result.unread] == [(f"{tmp_path}/data-1", reason)]
    tables = in_process.audit(tmp_path / "out")
    assert [(row["path"], row["code"]) for row in tables["problems"]] == [(f"{tmp_path}/data-1", "cannot-read")]
    properties.write_text(f"log.dirs={tmp_path}/data-1\n")
    with pytest.raises(UsageError, match=f"no log directory can be read: .*{reason}"):
        collect(CollectRequest(output=tmp_path / "out", server_properties=properties), quietly)
