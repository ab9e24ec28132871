"""A partition without a leader, or of which none is known: people read words for it, never the -1 that the rows have."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.report.layout.leader_words import pair
from replica_audit.report.sections.partition import role_row
from replica_audit.rows.replicas import ReplicaRole

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
BARE = re.compile(r"(?<![\w.)\]}/-])-1(?![\w.:-])")
NO_LEADER, NOT_KNOWN = "no leader", "leader unknown"


def without_a_leader(root: Path) -> None:
    """The metadata says that nobody leads."""
    path = root / "cluster-metadata.json"
    document = json.loads(path.read_text())
    for topic in document["topics"]:
        for partition in topic["partitions"]:
            partition["leader"] = -1
    path.write_text(json.dumps(document))


def without_metadata(root: Path) -> None:
    (root / "cluster-metadata.json").unlink()


@pytest.fixture(params=[(without_a_leader, NO_LEADER), (without_metadata, NOT_KNOWN)], ids=["none", "unknown"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A cluster in which no replica can lead: each has a leader-epoch-checkpoint that no broker would load."""
    change: Callable[[Path], None]
    change, said = request.param
    root = shutil.copytree(SAMPLE / "committed-loss", tmp_path / "root", ignore=shutil.ignore_patterns("__cluster_metadata-*"))
    for path in root.rglob("leader-epoch-checkpoint"):
        path.write_text("garbage\n")
    change(root)
    return root, said


def shown(page: str) -> str:
    """The text of a page, with what those hear who do not see its pictures."""
    page = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"<[^>]*>", lambda tag: " ".join(["", *re.findall(r'(?:aria-label|title|alt)="([^"]*)"', tag[0]), ""]), page)


def test_what_people_read(cluster: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, said = cluster
    page, plan = tmp_path / "page.html", tmp_path / "plan"
    given = ["triage", "--input", str(root), "--what-if-leaders"]
    assert cli.main([*given, "--html", str(page), "--plan", str(plan)]) in (1, 3)
    summary = capsys.readouterr().out
    assert cli.main([*given, "--partition", "billing-0"]) in (0, 1, 3)
    explained = capsys.readouterr().out
    files = [path.read_text() for path in plan.rglob("*") if path.is_file()]
    on_the_page = shown(page.read_text())
    texts = [summary, explained, on_the_page, *files]
    assert [line for text in texts for line in text.splitlines() if BARE.search(line)] == []
    assert re.search(r"^ +billing-0 +\?>1 ", summary, re.MULTILINE)
    assert "?>F: no leader is known, so that F is not compared." in " ".join(summary.split())
    head = "billing-0: follower 1, no leader" if said == NO_LEADER else "billing-0: follower 1 of an unknown leader"
    assert head in explained
    assert re.search(rf"^  {said}$", explained, re.MULTILINE), "in the place of its log"
    assert f"{said.capitalize()}; what broker 1 holds cannot serve this topic." in " ".join(on_the_page.split())
    assert re.search(rf"(?m)^\s*{said.capitalize()}\s*$", on_the_page), "in the place of its log"


def test_the_legend_has_it_only_where_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["triage", "--input", str(SAMPLE / "committed-loss")])
    assert " ?>F" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("leader", "source", "cell"), [(1, "metadata", "1>2"), (1, "inferred", "1?>2"), (-1, "inferred", "?>2"), (-1, "metadata", "?>2")]
)
def test_a_pair(leader: int, source: str, cell: str) -> None:
    assert pair(leader, 2, source) == cell


@pytest.mark.parametrize(("epoch", "leader", "cells"), [(3, 1, ("3", "1")), (-1, -1, ("none", "nobody")), (None, None, ("", ""))])
def test_what_a_broker_knows(epoch: int | None, leader: int | None, cells: tuple[str, str]) -> None:
    blank = dict.fromkeys(name for name in ReplicaRole.__dataclass_fields__)
    role = ReplicaRole(**blank | {"broker_id": 2, "standing": "behind", "known_leader_epoch": epoch, "known_leader_id": leader})  # type: ignore[arg-type]
    assert role_row(role)[6:8] == cells
