"""A stopped broker with a replica of which nobody knows what it truncates: its directory is copied, and the plan does not start it."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from replica_audit import cli
from tests.formats.rights import bound_by_modes

LOSS = Path(__file__).resolve().parents[1] / "data" / "sample" / "committed-loss"
LEADER, FOLLOWER = 2, 1


def planned(root: Path, plan: Path) -> tuple[str, list[tuple[str, str]]]:
    """The plan's text, and the directories to copy first."""
    assert bound_by_modes(lambda: cli.main(["triage", "--input", str(root), "--plan", str(plan)])) in (1, 3)
    rows = csv.DictReader((plan / "save-first.csv").read_text().splitlines()) if (plan / "save-first.csv").exists() else ()
    return (plan / "PLAN.md").read_text(), [(row["broker_id"], row["directory"]) for row in rows]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The follower has not truncated yet, as far as anybody has logged."""
    copied = shutil.copytree(LOSS, tmp_path / "cluster")
    for log in copied.glob("broker-*/server.log"):
        log.unlink()
    return copied


@pytest.mark.parametrize("broker", [LEADER, FOLLOWER])
def test_a_segment_that_cannot_be_read(root: Path, tmp_path: Path, broker: int) -> None:
    before, saved = planned(root, tmp_path / "before")
    assert f"# start broker {FOLLOWER} on its host" in before
    assert saved == [(str(FOLLOWER), f"billing-{number}") for number in range(3)]
    (segment,) = (root / f"broker-{broker}" / "data-0" / "billing-0").glob("*.log")
    segment.chmod(0)
    text, saved = planned(root, tmp_path / "plan")
    own = {(str(FOLLOWER), f"billing-{number}") for number in range(3)}
    assert set(saved) == own | {(str(broker), "billing-0")}, "what is asked for is copied, too"
    assert "neither starts nor stops broker" in text
    assert f"Wanted: the directory of `billing-0` on broker {broker}, copied again" in text
    assert f"# start broker {FOLLOWER}" not in text


def test_a_partition_of_which_nothing_else_is_known(root: Path, tmp_path: Path) -> None:
    """Nothing is known to be truncated, and the plan is not empty."""
    for name in ("billing-1", "billing-2"):
        for directory in root.glob(f"broker-*/data-0/{name}"):
            shutil.rmtree(directory)
    (segment,) = (root / f"broker-{LEADER}" / "data-0" / "billing-0").glob("*.log")
    segment.chmod(0)
    text, saved = planned(root, tmp_path / "plan")
    assert set(saved) == {(str(FOLLOWER), "billing-0"), (str(LEADER), "billing-0")}
    assert "They may hold records that no other log keeps" in text
    assert "There is nothing to do" not in text


def test_a_follower_that_was_not_in_the_input_is_not_started(root: Path, tmp_path: Path) -> None:
    shutil.rmtree(root / f"broker-{FOLLOWER}" / "data-0" / "billing-0")
    text, saved = planned(root, tmp_path / "plan")
    assert saved == [(str(FOLLOWER), "billing-1"), (str(FOLLOWER), "billing-2")], "there is nothing to copy of the other"
    assert f"Wanted: the directory of `billing-0` on broker {FOLLOWER}, copied again" in text
    assert f"# start broker {FOLLOWER}" not in text


def test_the_leaders_file_is_corrected_before_the_followers(root: Path, tmp_path: Path) -> None:
    for broker in (LEADER, FOLLOWER):
        (root / f"broker-{broker}" / "data-0" / "billing-0" / "leader-epoch-checkpoint").write_text("none\n")
    text, _saved = planned(root, tmp_path / "plan")
    places = [text.index(f"art broker {broker}: corrects 1 leader-epoch-checkpoint") for broker in (LEADER, FOLLOWER)]
    assert places == sorted(places), "the leader's broker has the larger id"
