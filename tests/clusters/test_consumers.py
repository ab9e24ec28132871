"""Real groups' committed offsets: what their coordinator told, what the returning consumers then read, and who was not affected.

The truth is in groups.json (the offsets) and expected.json (where the brokers cut); the timeline is in each scenario's README:
records from offset 10 (invoices-1: 25) on were committed and consumed, an unclean election replaced or dropped them.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from replica_audit.protocol.verdict.verdict import Verdict
from tests.clusters.test_scenarios import ROOT, SAMPLE, SHARED
from tests.support import in_process
from tests.support.shares import by_day

Row = dict[str, Any]
EXPECTED = ROOT / "tests" / "data" / "expected"
ALL_ROOTS = [*sorted(SAMPLE.iterdir()), *sorted(path for when in ("before", "after", "stopped") for path in SHARED.glob(f"*/{when}"))]
ROOTS = [path for path in ALL_ROOTS if any(path.glob("broker-*/*/__consumer_offsets-*"))]
LOSSES = [path for path in ROOTS if "committed-loss" in str(path)]
WITH_GROUPS = [path for path in LOSSES if (path.parent / "groups.json").exists()]
# the truth of the sample's copy, which is committed-loss/before: (group, partition) -> (offset, epoch)
BILLING = {
    "bill-early": ([10, 10, 10], 0),
    "bill-classic": ([30, 22, 16], 0),
    "bill-kip848": ([30, 22, 16], 0),
    "bill-partial": ([15, 22, 13], 0),
    "bill-noepoch": ([30, 22, 16], -1),
    "bill-after": ([15, 40, 10], 2),
}
# Kafka 1.1.1 commits no epoch; in 2.4.1 that of the last record: 0 below the divergence, and 1 since the ISR had shrunk
INVOICES = {"grp-early": ([10, 25], 0), "grp-late": ([30, 37], 1)}


def _name(path: Path) -> str:
    return "/".join(path.relative_to(ROOT.parent).parts[-2:])


@cache
def _audit(path: Path, metadata: bool = True) -> dict[str, list[Row]]:
    return in_process.audit(path, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Truth:
    """One commit, and what became of what was consumed: `parts` is where the brokers cut, `end` the leader's log end offset."""

    group: str
    partition: int
    offset: int
    epoch: int
    parts: int
    end: int

    @property
    def gone(self) -> int:
        """How many consumed offsets were cut away; a commit of the epoch after the cut consumed what replaced them."""
        return 0 if self.group == "bill-after" else max(0, self.offset - self.parts)


def _truth(path: Path) -> Iterator[Truth]:
    when, scenario = (path.name, path.parent.name) if path.parent != SAMPLE else ("before", path.name)
    file = EXPECTED / f"{scenario}.json" if path.parent == SAMPLE else path.parent / "expected.json"
    cuts, ends = {}, {}
    for replica in json.loads(file.read_text(encoding="utf-8"))["replicas"]:
        if replica["topic"] not in ("billing", "invoices"):
            continue
        if replica["replica"] == replica["leader_before"]:
            ends[replica["partition"]] = replica[f"log_end_offset_{when}"]
        elif replica["log_truncations"]:
            cuts[replica["partition"]] = replica["log_truncations"][-1]
    for group, (offsets, epoch) in (INVOICES if len(ends) == 2 else BILLING).items():
        if group == "bill-kip848" and "3.9.1" in scenario:
            continue  # that scenario has no such group
        for partition, offset in enumerate(offsets):
            known = -1 if "1.1.1" in scenario else epoch
            yield Truth(group, partition, offset, known, cuts[partition], ends[partition])


def _rows(path: Path) -> dict[tuple[str, int], Row]:
    return {(row["group_id"], row["partition"]): row for row in _audit(path)["consumer_impacts"]}


# --- every committed offset ---------------------------------------------------------------------------------------------------------------


def _coordinators(path: Path) -> Counter[tuple[str, str, int, int, int | None]]:
    """The offsets as the coordinator told them (OffsetFetch): group, topic, partition, offset, epoch; None: the lab did not ask for it."""
    told = json.loads((path.parent / "groups.json").read_text(encoding="utf-8"))
    found: Counter[tuple[str, str, int, int, int | None]] = Counter()
    for group, offsets in told.get(path.name, told["after"]).items():
        if isinstance(offsets, list):
            found.update((group, o["topic"], o["partition"], o["offset"], o.get("leader_epoch", -1)) for o in offsets)
        else:
            at = ((*name.rsplit("-", 1), offset) for name, offset in offsets["committed"].items())
            found.update((group, topic, int(partition), offset, None) for topic, partition, offset in at)
    return found


@pytest.mark.clusters
@pytest.mark.parametrize("path", WITH_GROUPS, ids=_name)
def test_every_committed_offset_is_the_coordinators(path: Path) -> None:
    told = _coordinators(path)
    with_epochs = all(epoch is not None for *_, epoch in told)
    found = Counter(
        (
            row["group_id"],
            row["topic"],
            row["partition"],
            row["committed_offset"],
            row["committed_leader_epoch"] if with_epochs else None,
        )
        for row in _audit(path)["consumer_impacts"]
    )
    assert found == told


@pytest.mark.clusters
@pytest.mark.parametrize("path", LOSSES, ids=_name)
def test_every_commit_has_its_epoch(path: Path) -> None:
    found = {key: (row["committed_offset"], row["committed_leader_epoch"]) for key, row in _rows(path).items()}
    assert found == {(truth.group, truth.partition): (truth.offset, truth.epoch) for truth in _truth(path)}


# --- what the groups find -----------------------------------------------------------------------------------------------------------------


@pytest.mark.clusters
@pytest.mark.parametrize("path", LOSSES, ids=_name)
def test_groups_of_the_committed_losses(path: Path) -> None:
    """`before`: the deposed leader still holds what was consumed. `after`: nobody does, and what cannot be counted must not be."""
    rows, before = _rows(path), path.name != "after"
    for truth in _truth(path):
        row, name = rows[truth.group, truth.partition], (truth.group, truth.partition)
        if not truth.gone:
            result = "not-validated" if truth.epoch == -1 else "valid"
            assert (row["validation_result"], row["affected"], row["reset_offset"]) == (result, False, truth.offset), name
            assert (row["records_gone"], row["records_reread"], row["records_missed"]) == (0, 0, 0), name
            continue
        if truth.epoch >= 0:
            # the client is set back to where the logs diverge, not to the beginning
            assert (row["validation_result"], row["affected"], row["reset_offset"]) == ("truncated", True, truth.parts), name
            assert (row["nearest_offset"], row["diverging_epoch"]) == (truth.parts, 0), name
            # where it is unknown what is gone, neither of the others is known to be 0
            counts = (0, 0) if row["records_gone"] is not None else (None, None)
            assert (row["records_reread"], row["records_missed"]) == counts, name
        elif truth.offset > truth.end:
            # out of range: the reset policy decides. In 1.1.1's `after` no log, table or election proves that the commit is the older one
            unproven = not before and "1.1.1" in str(path)
            assert (row["validation_result"], row["affected"]) in (("not-validated", True), ("unknown", None) if unproven else ()), name
            assert row["reset_offset"] is None, name
            # earliest reads what is left of it again, latest skips what came in its place
            assert row["records_reread"] in ((truth.parts,) if before else (truth.parts, None)), name
            assert row["records_missed"] in ((truth.end - truth.parts,) if before else (truth.end - truth.parts, None)), name
        else:
            # in range and not validated: it goes on at 22, behind other records than it has read
            assert (row["validation_result"], row["affected"], row["reset_offset"]) == ("not-validated", True, truth.offset), name
            assert row["records_missed"] == truth.gone, name
        assert row["records_gone"] in ((truth.gone,) if before else (truth.gone, None)), name
        assert not row["history_rewritten"], name


@pytest.mark.clusters
@pytest.mark.parametrize("path", [path for path in WITH_GROUPS if path.name == "after"], ids=_name)
def test_a_returning_consumer_read_from_where_it_is_said_to(path: Path) -> None:
    """groups.json: what group bill-classic, epoch-aware and with auto.offset.reset=earliest, read when it came back."""
    told = json.loads((path.parent / "groups.json").read_text(encoding="utf-8")).get("what_group_classic_reads_afterwards")
    if told is None:
        assert path.parent.name in ("kafka-1.1.1-committed-loss", "kafka-2.4.1-committed-loss"), "no consumer came back there"
        return
    ends = {truth.partition: truth.end for truth in _truth(path)}
    rows = {partition: row for (group, partition), row in _rows(path).items() if group == "bill-classic"}
    read = {f"billing-{partition}": ends[partition] - row["reset_offset"] for partition, row in rows.items()}
    assert {name: count for name, count in read.items() if count} == told["per_partition"]
    assert sum(read.values()) == told["records"]
    committed = {offset["partition"]: offset["offset"] for offset in told["committed"]}
    assert committed == ends


# --- nobody else --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.clusters
@pytest.mark.parametrize("path", by_day(path for path in ROOTS if path not in LOSSES), ids=_name)
@pytest.mark.parametrize("metadata", [True, False], ids=["metadata", "no metadata"])
def test_no_group_is_affected_where_nothing_was_truncated(path: Path, metadata: bool) -> None:
    rows = _audit(path, metadata)["consumer_impacts"]
    assert rows
    assert [row for row in rows if row["affected"] is not False] == []
    assert {(row["records_gone"], row["history_rewritten"]) for row in rows} == {(0, False)}


@pytest.mark.clusters
@pytest.mark.parametrize("path", ROOTS, ids=_name)
def test_only_a_group_beyond_a_cut_is_affected(path: Path) -> None:
    """Every alarm has its cut: the brokers truncated a replica of that partition below the committed offset, or are about to."""
    tables = _audit(path)
    cuts = {
        (row["topic"], row["partition"]): row["truncation_offset"]
        for row in tables["replica_verdicts"]
        if row["verdict"] == Verdict.COMMITTED_LOSS
    }
    if path.name == "after":
        # what had to be cut is cut: where, `before` says
        told = json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))["replicas"]
        cuts = {(r["topic"], r["partition"]): r["log_truncations"][-1] for r in told if r["log_truncations"]}
    for row in tables["consumer_impacts"]:
        if row["affected"] is not False:
            assert row["committed_offset"] > cuts[row["topic"], row["partition"]], (row["group_id"], row["partition"], row["reason"])


@pytest.mark.clusters
@pytest.mark.parametrize("path", by_day(path for path in ALL_ROOTS if path not in ROOTS), ids=_name)
def test_without_group_offsets_there_is_nothing_to_say(path: Path) -> None:
    assert not _audit(path)["consumer_impacts"]


# --- without what helps -------------------------------------------------------------------------------------------------------------------


@pytest.mark.clusters
@pytest.mark.parametrize("path", LOSSES, ids=_name)
def test_without_metadata_a_lost_group_is_never_called_unaffected_by_its_epoch(path: Path) -> None:
    """The leader is inferred then: the newest epoch of the tables, which is the one of the unclean election where it was entered."""
    rows = {(row["group_id"], row["partition"]): row for row in _audit(path, metadata=False)["consumer_impacts"]}
    truths = list(_truth(path))
    assert len(rows) == len(truths)
    for truth in truths:
        if truth.epoch >= 0:
            assert rows[truth.group, truth.partition]["affected"] is bool(truth.gone), (truth.group, truth.partition)
        elif not truth.gone:
            assert rows[truth.group, truth.partition]["affected"] is not True, (truth.group, truth.partition)


@pytest.mark.clusters
@pytest.mark.parametrize("path", [path for path in WITH_GROUPS if "1.1.1" not in str(path)], ids=_name)
def test_text_of_the_offsets_does_as_well(path: Path, tmp_path: Path) -> None:
    """kafka-dump-log --offsets-decoder in place of the segments: JSON (3.8 and newer) tells all, older text neither epoch nor time."""
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    texts = path.parent / ("dump-log-data" if path.name == "before" else "dump-log-after-data")
    for text in texts.glob("broker-*/__consumer_offsets-*/*.txt"):
        directory = next((copy / text.parts[-3]).glob(f"*/{text.parent.name}"))
        (directory / f"{text.stem}.log").unlink()
        shutil.copy(text, directory)
    assert not list(copy.glob("broker-*/*/__consumer_offsets-*/*.log"))
    from_text, from_segments = _rows(copy), _rows(path)
    assert from_text.keys() == from_segments.keys()
    for key, row in from_text.items():
        if "2.4.1" in str(path):
            assert (row["committed_offset"], row["committed_at"]) == (from_segments[key]["committed_offset"], None)
            assert row["affected"] in (from_segments[key]["affected"], None)
        else:
            assert row | {"evidence": ""} == from_segments[key] | {"evidence": ""}


def test_roots_were_found() -> None:
    """Guards the parametrisation above: an empty list of cases would pass."""
    assert len(ALL_ROOTS) >= 7
    assert SAMPLE / "committed-loss" in LOSSES
    assert not SHARED.is_dir() or (len(ALL_ROOTS) > 100 and len(LOSSES) == 9 and len(WITH_GROUPS) == 8 and len(ROOTS) >= 12)
