"""Findings that are no verdict on a follower: on built files, on real brokers' files, and what of all real files fires."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from tests.partition.test_what_if import COMMON, OTHER_TOPIC_ID, _metadata, _write
from tests.support import in_process
from tests.support.in_process import Row
from tests.support.shares import by_day

ROOT = Path(__file__).resolve().parents[2]
OFFLINE = ROOT / "tests" / "data" / "offline" / "nobody-leads"
SHARED = ROOT.parent / "shared" / "clusters"
OF_PARTITIONS = ("offline_partition", "leader_epoch_missing", "in_sync_outside_isr")
LATER = [*COMMON, (1, 10, 14)]


def _found(tables: Mapping[str, list[Row]], *codes: str) -> list[Row]:
    return [row for row in tables["found"] if row["code"] in (codes or OF_PARTITIONS)]


def _changed(root: Path, **fields: Any) -> Path:
    """The root with fields of its only partition's metadata replaced; one that is None is left out."""
    path = root / "cluster-metadata.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    partition = document["topics"][0]["partitions"][0] | fields
    document["topics"][0]["partitions"][0] = {name: value for name, value in partition.items() if value is not None}
    path.write_text(json.dumps(document), encoding="utf-8")
    return root


# --- partitions without a leader ----------------------------------------------------------------------------------------------------------


def test_real_partitions_that_nobody_leads() -> None:
    """Two brokers of a 4.2.0 cluster were killed one after the other; the third one runs and holds no replica."""
    tables = in_process.audit(OFFLINE)
    assert {row["verdict"] for row in tables["replica_verdicts"]} == {"identical"}
    assert {(row["leader_source"], row["inferred_because"]) for row in tables["replica_verdicts"]} == {("inferred", "no-leader")}
    found = _found(tables)
    assert [(row["finding_key"], row["severity"]) for row in found] == [
        ("offline_partition:jb-1", "error"),
        ("offline_partition:jb-4", "error"),
    ]
    for row, end in zip(found, (31, 34), strict=True):
        assert (row["isr"], row["elr"], row["last_leader_id"], row["leader_epoch"], row["cluster_stopped"]) == ([], [2], 2, 1, False)
        candidates = [(c["candidate_id"], c["election"], c["broker_up"], c["lost_records"], c["log_end_offset"]) for c in row["candidates"]]
        assert candidates == [(2, "unclean", False, 0, end), (3, "unclean", False, 0, end)], "also without --what-if-leaders"
    assert len(tables["what_if_leaders"]) == 4


def test_what_electing_each_loses(tmp_path: Path) -> None:
    root = _write(tmp_path, {1: COMMON, 2: LATER}, high_watermarks={1: 10, 2: 12})
    tables = in_process.audit(_metadata(root, -1, epoch=2, brokers=[1, 2, 3], isr=[2]))
    (row,) = _found(tables)
    lost = {c["candidate_id"]: (c["rank"], c["lost_records"], c["lost_below_high_watermark"], c["election"]) for c in row["candidates"]}
    assert lost == {2: (1, 0, 0, "clean"), 1: (2, 5, 2, "unclean"), 3: (None, None, None, "unclean")}
    assert [c["unread_replicas"] for c in row["candidates"]] == [1, 1, None], "broker 3 may hold more"
    assert "not in the input" in row["candidates"][2]["reason"]


def test_one_replica_alone(tmp_path: Path) -> None:
    """Nothing to compare with, and the outage is found all the same."""
    tables = in_process.audit(_metadata(_write(tmp_path, {1: COMMON}), -1, epoch=2, brokers=[1], isr=[1]))
    (row,) = tables["found"]
    assert (row["code"], [c["lost_records"] for c in row["candidates"]]) == ("offline_partition", [0])
    assert not tables["replica_verdicts"]


@pytest.mark.parametrize("elr", [[1], [2]])
def test_of_two_that_lose_nothing_the_one_that_is_elected_cleanly_is_first(tmp_path: Path, elr: list[int]) -> None:
    root = _changed(_metadata(_write(tmp_path, {1: COMMON, 2: COMMON}), -1, epoch=2, brokers=[1, 2]), isr=[], elr=elr)
    (row,) = _found(in_process.audit(root))
    assert row["candidates"][0]["candidate_id"] == elr[0]


@pytest.mark.parametrize(
    ("fields", "because"),
    [
        pytest.param({"leader": 1, "isr": [1]}, None, id="somebody leads"),
        pytest.param({"leader": None}, "leader-not-named", id="the file does not say"),
        pytest.param({"leader_epoch": 0}, "metadata-outdated", id="a log knows a later epoch than the metadata"),
    ],
)
def test_no_outage_without_metadata_that_says_so(tmp_path: Path, fields: dict[str, Any], because: str | None) -> None:
    root = _changed(_metadata(_write(tmp_path, {1: COMMON, 2: LATER}), -1, epoch=1, brokers=[1, 2], isr=[2]), **fields)
    tables = in_process.audit(root)
    assert not _found(tables, "offline_partition")
    assert not tables["what_if_leaders"]
    assert {row["inferred_because"] for row in tables["replica_verdicts"]} == {because}


def test_no_metadata_at_all(tmp_path: Path) -> None:
    tables = in_process.audit(_write(tmp_path, {1: COMMON, 2: LATER}))
    assert not _found(tables)
    assert {row["inferred_because"] for row in tables["replica_verdicts"]} == {"no-metadata"}


# --- live leaders and the ISR -------------------------------------------------------------------------------------------------------------


def test_a_live_leader_that_lost_its_epoch_and_the_follower_that_it_rejects(tmp_path: Path) -> None:
    """KAFKA-20961: the directory moved, and the epochs without a batch were lost; both logs hold the same records."""
    root = _write(tmp_path, {1: COMMON, 2: COMMON}, epochs={1: {0: 0}, 2: {0: 0}})
    tables = in_process.audit(_metadata(root, 1, epoch=7, brokers=[1, 2], isr=[1], state="up"))
    assert [row["verdict"] for row in tables["replica_verdicts"]] == ["identical"]
    missing, outside = _found(tables)
    assert (missing["finding_key"], missing["severity"], missing["table_epoch"]) == ("leader_epoch_missing:t-0:1", "warning", 0)
    assert (outside["finding_key"], outside["severity"], outside["isr"]) == ("in_sync_outside_isr:t-0:2", "warning", [1])
    again = in_process.audit(root, settings=Settings(simultaneous_copies=True))
    assert [(row["code"], row["severity"]) for row in _found(again)] == [
        ("leader_epoch_missing", "error"),
        ("in_sync_outside_isr", "warning"),
    ]


def test_a_leader_that_entered_its_epoch_and_a_follower_in_the_isr(tmp_path: Path) -> None:
    root = _write(tmp_path, {1: COMMON, 2: COMMON}, epochs={1: {0: 0, 7: 10}, 2: {0: 0}})
    tables = in_process.audit(_metadata(root, 1, epoch=7, brokers=[1, 2], isr=[1, 2], state="up"))
    assert not tables["found"]
    (checked,) = tables["checked"]
    assert (checked["leader_has_epoch"], checked["clean"]) == (True, [1, 2])


def test_a_directory_of_an_earlier_topic_has_other_epochs(tmp_path: Path) -> None:
    root = _write(tmp_path, {1: COMMON, 2: COMMON}, topic_ids={1: OTHER_TOPIC_ID})
    tables = in_process.audit(_metadata(root, 1, epoch=7, brokers=[1, 2], isr=[1, 2], state="up"))
    assert not _found(tables)


# --- real files: what fires, and nothing else ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("held", "is_stopped"), [(LATER, True), ([COMMON[0], LATER[-1]], False)])
def test_a_cluster_whose_last_leader_lacks_records_in_the_middle_was_not_stopped_in_order(
    tmp_path: Path, held: list[tuple[int, int, int]], *, is_stopped: bool
) -> None:
    root = _metadata(_write(tmp_path, {1: held, 2: LATER}, high_watermarks={1: 15, 2: 15}), -1, epoch=1, brokers=[1, 2], isr=[1])
    for log_dir in root.glob("broker-*/data-0"):
        (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":9}')
    (row,) = _found(in_process.audit(root), "offline_partition")
    assert (row["cluster_stopped"], row["severity"]) == (is_stopped, "warning" if is_stopped else "error")


# of every real cluster: brokers 2 and 3 killed, and a cluster that was stopped as a whole
FIRES = {"jbod-and-leftovers/before": ("error", {"jb-1", "jb-4"}), "clean-in-sync/stopped": ("warning", None)}
ROOTS = [path for when in ("before", "after", "stopped") for path in sorted(SHARED.glob(f"*/{when}"))]


@pytest.mark.clusters
@pytest.mark.parametrize("metadata", [True, False], ids=["file", "log alone"])
@pytest.mark.parametrize(
    "root", by_day(ROOTS, always=lambda path: "/".join(path.parts[-2:]) in FIRES), ids=lambda path: "/".join(path.parts[-2:])
)
def test_only_what_is_true_of_real_clusters(root: Path, *, metadata: bool) -> None:
    """Of 100 real states, healthy and broken, with frozen brokers and moved directories: no live leader lacks its epoch."""
    tables = in_process.audit(root, metadata=metadata, settings=Settings(simultaneous_copies=True))
    found = _found(tables)
    severity, named = FIRES.get("/".join(root.parts[-2:]), ("", set()))
    assert {row["code"] for row in found} == ({"offline_partition"} if severity else set())
    assert {row["severity"] for row in found} == ({severity} if severity else set())
    if named is not None:
        assert {f"{row['topic']}-{row['partition']}" for row in found} == named
    for row in found:
        assert (row["last_leader_id"], row["elr"]) == (2, [2]), "by cluster-metadata-records.txt"
        assert {c["lost_records"] for c in row["candidates"]} == {0}


@pytest.mark.clusters
def test_real_clusters_were_found() -> None:
    assert not SHARED.is_dir() or len(ROOTS) > 100
