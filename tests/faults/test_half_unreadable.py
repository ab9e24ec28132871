"""Half of the inputs cannot be read: the other half is judged as before, every file that is lost is named, and the exit code says so."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from replica_audit import cli
from replica_audit.config import Settings
from tests.formats.rights import as_nobody, open_to_all
from tests.support import in_process

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
CLEAN, LOSS = SAMPLE / "clean-in-sync", SAMPLE / "committed-loss"
Partition = tuple[str, int]


def replicas(root: Path, topic: str, partition: int) -> list[Path]:
    return sorted(path for path in root.rglob(f"{topic}-{partition}") if path.is_dir())


def shut(replica: Path) -> str:
    """Take the right to read from everybody but root."""
    replica.chmod(0)
    return str(replica)


def cut(replica: Path) -> str:
    """Break a segment off within a batch, as a copy that was interrupted does."""
    log = max(replica.glob("*.log"), key=lambda path: path.stat().st_size)
    with log.open("r+b") as stream:
        stream.truncate(log.stat().st_size - 7)
    return str(log)


def fail(replica: Path) -> str:
    """Put a file there that the kernel refuses to read with an input/output error."""
    checkpoint = replica / "leader-epoch-checkpoint"
    checkpoint.unlink()
    checkpoint.symlink_to("/proc/self/mem")
    return str(checkpoint)


def hide(replica: Path) -> str:
    """A directory where a segment should be."""
    log = max(replica.glob("*.log"))
    log.unlink()
    log.mkdir()
    return str(log)


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_to_all() as parent:
        (parent / "written").mkdir()
        (parent / "written").chmod(0o777)
        yield parent


def halved(root: Path, topic: str, to: Path, *faults: Callable[[Path], str]) -> tuple[set[str], set[Partition]]:
    """Copy a cluster and spoil a follower of every second partition of a topic; returns the spoilt paths, and the partitions of them."""
    shutil.copytree(root, to)
    leaders = {(row["topic"], row["partition"]): row["leader_id"] for row in in_process.audit(root)["replica_verdicts"]}
    paths: set[str] = set()
    spoilt: set[Partition] = set()
    for key in sorted(key for key in leaders if key[0] == topic)[::2]:
        follower = next(path for path in replicas(to, *key) if f"/broker-{leaders[key]}/" not in str(path))
        paths.add(faults[len(spoilt) % len(faults)](follower))
        spoilt.add(key)
    return paths, spoilt


def triaged(folder: Path, root: Path) -> tuple[int, dict[str, Any]]:
    """The exit code of a triage by a user without rights, and what it found."""
    out = folder / "written" / "triage.json"

    def run() -> int:
        return cli.main(["triage", "--input", str(root), "--follow-links", "--json", str(out)])

    return as_nobody(run), json.loads(out.read_text(encoding="utf-8"))


def verdicts(root: Path, without: set[Partition]) -> Counter[tuple[Any, ...]]:
    rows = as_nobody(lambda: in_process.audit(root, settings=Settings(follow_links=True), anew=True)["replica_verdicts"])
    known = [row for row in rows if (row["topic"], row["partition"]) not in without]
    return Counter((row["topic"], row["partition"], row["follower_id"], row["verdict"]) for row in known)


def test_of_a_healthy_cluster(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is at fault but what could not be read: that is exit code 3."""
    paths, spoilt = halved(CLEAN, "wide", folder / "half", shut, cut, hide)
    assert len(paths) > 5
    code, document = triaged(folder, folder / "half")
    assert code == 3
    assert "some input could not be read" in " ".join(capfd.readouterr().out.split())
    assert {problem["path"] for problem in document["problems"]} >= paths
    assert not [finding for finding in document["findings"] if finding["severity"] in ("critical", "error")]
    expected = verdicts(CLEAN, spoilt)
    assert verdicts(folder / "half", spoilt) == expected
    assert expected


def test_of_one_with_findings(folder: Path) -> None:
    """What is lost in the other half is still found."""
    paths, spoilt = halved(LOSS, "billing", folder / "half", shut, fail)
    code, document = triaged(folder, folder / "half")
    assert code == 1
    assert {problem["path"] for problem in document["problems"]} >= paths
    lost = {(row["topic"], row["partition"]) for row in document["findings"] if row["code"] == "committed_loss"}
    assert lost == {("billing", 1)} == {("billing", number) for number in range(3)} - spoilt
    assert verdicts(folder / "half", spoilt) == verdicts(LOSS, spoilt)
