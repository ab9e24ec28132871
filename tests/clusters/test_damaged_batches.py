"""Batches that were damaged on real brokers' disks, as each `corruption.json` lists them; nothing is damaged anywhere else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from replica_audit import cli
from tests.clusters.test_scenarios import SAMPLE, SHARED
from tests.support import in_process
from tests.support.shares import by_day

CORRUPTED = SHARED / "corrupted"
CASES = sorted(path.parent for path in CORRUPTED.glob("*/corruption.json"))
OTHERS = [root for root in sorted(SHARED.glob("*/*")) if root.name in ("before", "after", "stopped") and root.is_dir()]
CLEAN = [*CORRUPTED.glob("uncorrupted/before"), *sorted(SAMPLE.iterdir()), *(root for root in OTHERS if root.parent.name != "corrupted")]
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared clusters do not stand beside the project")
_FIRST = re.compile(r"baseOffset (\d+)")
_POSITION = re.compile(r"at position (\d+), size")
_CHANGES = {"flipped": "crc", "loses its last": "unframed", "partitionLeaderEpoch": "leader_epoch"}


def expected(case: Path) -> list[tuple[str, int, str]]:
    """File, first offset and damage of what a case's own record says of batches that are still there."""
    found = []
    for one in json.loads((case / "corruption.json").read_text(encoding="utf-8"))["what"]:
        damage = next((damage for words, damage in _CHANGES.items() if words in one["change"]), None)
        offset = _FIRST.search(one["change"])
        if damage and offset:
            found.append((one["file"], int(offset[1]), damage))
    return found


@pytest.mark.clusters
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_corruption_is_found_with_the_brokers_that_hold_it_well(case: Path) -> None:
    tables, listed = in_process.audit(case / "before"), expected(case)
    rows = tables["damaged_batches"]
    assert [(row["path"], row["first_offset"], row["damage"]) for row in rows] == [
        (str(case / "before" / file), offset, damage) for file, offset, damage in listed
    ]
    changes = [one["change"] for one in json.loads((case / "corruption.json").read_text(encoding="utf-8"))["what"]]
    for row in rows:
        assert (row["broker_id"], row["good_broker_ids"], row["copies_agree"]) == (2, [1, 3], True)
        assert (row["recovery"], row["recover_from_id"]) == ("recoverable", 1)
        position = _POSITION.search(changes[0])
        assert position is None or row["byte_offset"] == int(position[1])


@needs_shared
def test_the_cases_hold_every_kind() -> None:
    kinds = {damage for case in CASES for _file, _offset, damage in expected(case)}
    assert kinds == {"crc", "unframed", "leader_epoch"}


@pytest.mark.clusters
@pytest.mark.parametrize("root", by_day(CLEAN), ids=lambda root: "/".join(root.parts[-2:]))
def test_nothing_is_damaged_elsewhere(root: Path) -> None:
    rows = in_process.audit(root)["damaged_batches"]
    if root.parts[-2:] == ("disk-full-torn-batch", "before"):
        (row,) = rows  # what the full disk took of a batch that no other broker had fetched
        assert (row["damage"], row["cut_by_recovery"], row["recovery"]) == ("unframed", True, "unconfirmed")
        assert row["byte_offset"] + 1 < Path(row["path"]).stat().st_size
        return
    assert not rows


@needs_shared
@pytest.mark.clusters
def test_the_report_says_what_to_recover_from_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, out = CORRUPTED / "flipped-byte-clean-shutdown" / "before", tmp_path / "run.json"
    page = tmp_path / "run.html"
    assert cli.main(["triage", "--input", str(root), "--json", str(out), "--html", str(page)]) == 1
    found = json.loads(out.read_text(encoding="utf-8"))["findings"][0]
    assert (found["code"], found["damaged"][0]["recover_from_id"], found["damaged"][0]["first_offset"]) == ("unreadable", 1, 19)
    text = page.read_text(encoding="utf-8")
    assert "ecover offsets 19..21 from broker 1" in text
    assert "Damaged batches" in text
    capsys.readouterr()
    assert cli.main(["triage", "--input", str(root), "--partition", "cc-0"]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "Recover offsets 19..21 from broker 1: its copy passes its CRC and is the batch as written; the same is on broker 3" in told


@needs_shared
@pytest.mark.clusters
def test_a_torn_batch_after_a_clean_stop_is_not_left_to_the_broker(capsys: pytest.CaptureFixture[str]) -> None:
    """The real broker appended the batch anew behind the torn one, and the log held a batch with a wrong CRC from then on."""
    root = CORRUPTED / "cut-tail-clean-shutdown"
    cli.main(["triage", "--input", str(root / "before"), "--partition", "cc-0"])
    told = " ".join(capsys.readouterr().out.split())
    assert "step 2 Give the directory of `cc-0` on broker 2" in told
    assert "Start broker 2" not in told.partition("When a broker starts")[0]
    problems = in_process.audit(root / "after")["input_errors"]
    assert "crc-mismatch" in {row["code"] for row in problems}
