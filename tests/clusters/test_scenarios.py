"""Real brokers' directories: what the audit says must be what the brokers then did.

The sample in this repository always; every scenario of `../shared/clusters` where that folder stands beside the project.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from tests.clusters.expectations import AFTER, BEFORE, CLEAN, CORRUPTED, Expected
from tests.support import in_process

EVERY_ROW = Settings(detail="all")  # also of pairs that are proven healthy: that they are not cut is held against the brokers, too
ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "data" / "sample"
SHARED = ROOT.parent / "shared" / "clusters"
Row = dict[str, Any]

SCENARIOS = [(path, ROOT / "tests" / "data" / "expected" / f"{path.name}.json") for path in sorted(SAMPLE.iterdir())]
SHARED_SCENARIOS = [path.parent for path in sorted(SHARED.glob("*/expected.json"))]
SCENARIOS += [(path / "before", path / "expected.json") for path in SHARED_SCENARIOS]
# scenario -> why, and by follower: what checkpoints alone prove, what the ISR proves
BY_ISR = json.loads((ROOT / "tests" / "data" / "expected" / "committed-by-isr.json").read_text(encoding="utf-8"))
CORRUPTED_CASES = sorted(path for path in (SHARED / "corrupted").glob("*/before") if path.parent.name in CORRUPTED)


def _name(case: object) -> str:
    path = case[0] if isinstance(case, tuple) else case
    assert isinstance(path, Path)
    return "/".join(path.relative_to(ROOT.parent).parts[-2:])


def _follower(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}/{row['follower_id']}"


def _moves(replica: Row) -> bool:
    """Whether the replica was its leader, or its leader changed between the two snapshots."""
    before = replica["leader_before"]
    return bool(before != replica["leader_after"] or replica["replica"] == before or before == -1)


def _said(replica: Row) -> Row:
    """What the brokers logged, in the columns of truncation_points."""
    cuts = [cut["offset"] for cut in replica["fetcher_truncations"] if not cut.get("no_effect")]
    by_high_watermark = replica["log_truncations"] if replica["high_watermark_truncation"] is not None else []
    restarts = replica["full_truncations"]
    return {
        "rounds": cuts,
        "truncation_offset": ([*by_high_watermark[-1:], *cuts] or [None])[-1],
        "restart_offset": restarts[-1]["start_at"] if restarts else None,
        "fetcher_fails": replica["fetcher_failed"],
    }


@pytest.mark.clusters
@pytest.mark.parametrize("case", SCENARIOS, ids=_name)
def test_cuts_are_what_the_brokers_did(case: tuple[Path, Path]) -> None:
    path, expected = case
    tables = in_process.audit(path, settings=EVERY_ROW)
    points = {_follower(row): row for row in tables["truncation_points"] if row["applies"]}
    verdicts = {_follower(row): row for row in tables["replica_verdicts"]}
    compared, wrong = 0, []
    for replica in json.loads(expected.read_text(encoding="utf-8"))["replicas"]:
        if _moves(replica):
            continue
        compared += 1
        name = f"{replica['topic']}-{replica['partition']}/{replica['replica']}"
        row, said = points[name], _said(replica)
        got = {key: row[key] for key in said if key != "rounds"}
        got["rounds"] = [part["truncate_to"] for part in row["rounds"] if part["truncate_to"] is not None]
        if got != said:
            wrong.append((name, got, said))
        assert verdicts[name]["truncation_offset"] == row["truncation_offset"]
    assert not wrong
    assert compared, "nothing was compared"


@pytest.mark.clusters
@pytest.mark.parametrize("case", SCENARIOS, ids=_name)
def test_verdicts_before(case: tuple[Path, Path]) -> None:
    path, expected_file = case
    scenario = path.parent.name if path.name == "before" else path.name
    rows = in_process.audit(path)["replica_verdicts"]
    cut = {_follower(row) for row in rows if row["truncation_offset"] is not None}
    changed = BY_ISR.get(scenario, {"followers": {}})["followers"]
    _check([row for row in rows if _follower(row) not in changed], BEFORE[scenario], cut)
    for row in (row for row in rows if _follower(row) in changed):
        expected = changed[_follower(row)]
        assert expected["was"] == BEFORE[scenario].cut, "listed is only what differs"
        assert {name: row[name] for name in ("verdict", "commit_evidence")} == {n: expected[n] for n in ("verdict", "commit_evidence")}
        assert row["removed_committed"] == row["removed_offsets"] == expected["offsets"]
        assert sorted({span["leader_epoch"] for span in row["removed_commits"]}) == expected["epochs"]
    assert changed.keys() <= {_follower(row) for row in rows}
    assert json.loads(expected_file.read_text(encoding="utf-8"))["scenario"] == scenario


@pytest.mark.clusters
@pytest.mark.parametrize("scenario", [path.name for path in SHARED_SCENARIOS if path.name in BY_ISR])
def test_what_the_isr_proves_is_in_kafkas_own_text_of_the_metadata_log(scenario: str) -> None:
    """Each such follower began a term as the only member of the ISR, in or after the last epoch of what it loses, and wrote it alone."""
    history = _isr_history(SHARED / scenario / "cluster-metadata-records.txt")
    assert BY_ISR[scenario]["followers"]
    for name, expected in BY_ISR[scenario]["followers"].items():
        place, broker = name.split("/")
        last = max(expected["epochs"])
        alone = [epoch for epoch, (leader, isrs) in history[place].items() if leader == int(broker) and isrs[0] == [leader]]
        assert any(epoch > last or (epoch == last and history[place][epoch][1] == [[int(broker)]]) for epoch in alone), name


def _isr_history(text: Path) -> dict[str, dict[int, tuple[int, list[list[int]]]]]:
    """By partition and leader epoch the leader, and the ISR from the epoch's beginning to its end."""
    topics: dict[str, str] = {}
    found: dict[str, dict[int, tuple[int, list[list[int]]]]] = {}
    for line in text.read_text(encoding="utf-8").splitlines():
        record = json.loads(line.partition("payload: ")[2] or "{}")
        data = record.get("data", {})
        if record.get("type") == "TOPIC_RECORD":
            topics[data["topicId"]] = data["name"]
        if record.get("type") not in ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD"):
            continue
        epochs = found.setdefault(f"{topics[data['topicId']]}-{data['partitionId']}", {})
        last = max(epochs, default=-1)
        if "leader" in data and data["leader"] != -2:
            epochs[last + 1] = (data["leader"], [data.get("isr") or epochs[last][1][-1]])
        elif "isr" in data:
            epochs[last][1].append(data["isr"])
    return found


@pytest.mark.clusters
@pytest.mark.parametrize("path", [path / "after" for path in SHARED_SCENARIOS], ids=_name)
def test_verdicts_after(path: Path) -> None:
    rows = in_process.audit(path)["replica_verdicts"]
    assert rows
    _check(rows, AFTER.get(path.parent.name, Expected()), set())


@pytest.mark.clusters
@pytest.mark.parametrize("path", [path / "stopped" for path in SHARED_SCENARIOS if (path / "stopped").is_dir()], ids=_name)
def test_nothing_is_found_on_brokers_that_were_stopped_in_order(path: Path) -> None:
    _check(in_process.audit(path)["replica_verdicts"], Expected(), set())


def _check(rows: list[Row], expected: Expected, cut: set[str]) -> None:
    wrong = []
    for row in rows:
        name = _follower(row)
        if name in expected.named:
            right = {expected.named[name]}
        elif expected.everything:
            right = {expected.everything}
        else:
            right = {expected.cut} if name in cut and expected.cut else set(CLEAN)
        if row["verdict"] not in right:
            wrong.append((name, row["verdict"], row["reason"], right))
    assert not wrong


@pytest.mark.clusters
@pytest.mark.parametrize("scenario", [path.name for path in SHARED_SCENARIOS if path.name == "kafka-1.1.1-kip279-scenario-1-restart-hole"])
def test_a_hole_that_is_foreseen_is_there_afterwards(scenario: str) -> None:
    before, after = (in_process.audit(SHARED / scenario / name)["replica_verdicts"] for name in ("before", "after"))
    foreseen = {_follower(row): row["hole"] for row in before if row["hole"] and row["hole"]["is_cut"]}
    found = {_follower(row): row["hole"] for row in after if row["hole"]}
    assert foreseen
    for follower, hole in foreseen.items():
        assert found[follower] == hole | {"is_cut": False}


@pytest.mark.clusters
@pytest.mark.parametrize("path", SHARED_SCENARIOS, ids=lambda path: path.name)
def test_every_real_follower_catches_up_or_its_fetcher_fails(path: Path) -> None:
    """Tables that brokers wrote never lack an epoch of their own log."""
    points = [
        row
        for name in ("before", "after")
        for row in in_process.audit(path / name, settings=EVERY_ROW)["truncation_points"]
        if row["applies"]
    ]
    assert not [row for row in points if not row["catches_up"] and not row["fetcher_fails"]]


@pytest.mark.clusters
@pytest.mark.parametrize("path", CORRUPTED_CASES, ids=lambda path: path.parent.name)
def test_corrupted_replicas(path: Path) -> None:
    verdicts, code, position = CORRUPTED[path.parent.name]
    tables = in_process.audit(path)
    changed = json.loads((path.parent / "corruption.json").read_text(encoding="utf-8"))["what"][0]["file"]
    topic, partition = Path(changed).parent.name.rsplit("-", 1)
    for row in tables["replica_verdicts"]:
        hit = row["follower_id"] == 2 and (row["topic"], row["partition"]) == (topic, int(partition))
        assert row["verdict"] in (verdicts if hit else CLEAN), (_follower(row), row["reason"])
    problems = [*tables["input_errors"], *tables["problems"]]
    assert [problem["code"] for problem in problems] == ([code] if code else [])
    for problem in problems:
        assert problem["remedy"]
        if position:
            assert problem[position] is not None
