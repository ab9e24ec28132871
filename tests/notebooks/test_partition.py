"""A partition: the command's words, the tables' rounds, the segments' batches, and what the plots draw."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from replica_audit import cli, open_warehouse
from replica_audit.errors import UsageError
from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.model import BatchHeader
from replica_audit.notebook.partition import Partition
from replica_audit.notebook.run import Run
from replica_audit.rows.codes import Case, Protocol
from tests.collect.collections import collect_cluster
from tests.notebooks.execution import RUNS, inputs_of
from tests.notebooks.test_frames import plain
from tests.scenarios.disks import Cluster, Disk
from tests.support.warehouse import write_warehouse

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"


@pytest.fixture(scope="module")
def billing(full: Run) -> Partition:
    return full.partition("billing-0")


def headers(directory: Path) -> list[BatchHeader]:
    """The batches of a replica directory, read without the code under test."""
    segments = sorted(directory.glob("*.log"))
    return [item for segment in segments for item in read_batches(segment) if isinstance(item, BatchHeader)]


SHOWN = [("billing-0", None), ("ledger-0", None), ("vault-1", None), ("vault-1", 3), ("audit-2", None)]


@pytest.mark.parametrize(("name", "follower"), SHOWN)
def test_it_prints_what_the_command_prints(
    nights: Path, full: Run, name: str, follower: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    full.partition(name).explain(follower)
    printed = capsys.readouterr().out
    only = [] if follower is None else ["--follower", str(follower)]
    options = ["--warehouse", str(nights / "warehouse"), "--run-id", RUNS[1], "--partition", name, *only]
    assert cli.main(["explain", "--protocols", *options]) == 0
    assert printed == capsys.readouterr().out != ""


def test_a_partition_that_is_not_there_is_the_commands_sentence(full: Run, billing: Partition) -> None:
    with pytest.raises(UsageError, match="--partition 'billing': not TOPIC-N"):
        full.partition("billing")
    with pytest.raises(UsageError, match=r"--partition billing-9: not in run .*; it has billing-0, billing-1, billing-2"):
        full.partition("billing-9")
    with pytest.raises(UsageError, match="give one with --cluster"):
        full.partition("__consumer_offsets-0")
    assert full.partition("__consumer_offsets-0", cluster=billing.cluster_id).cluster_id == billing.cluster_id


def test_rounds_are_those_of_the_table(full: Run) -> None:
    rounds = full.partition("ledger-0").rounds()
    names = ["requested_epoch", "answered_epoch", "answered_end_offset", "truncate_to", "complete", "decided_by"]
    for row in full.truncation_points(topic="ledger", partition=0, kind="protocol").to_dict("records"):
        own = rounds[rounds["protocol"] == row["protocol"]]
        found = [{name: plain(value) for name, value in asked.items()} for asked in own[names].to_dict("records")]
        assert found == [{name: answer[name] for name in names} for answer in row["rounds"]]
        assert all(one["decided_by"] in set(Case) for one in found)
        assert list(own["round"]) == list(range(1, len(found) + 1))
    assert set(rounds.loc[rounds["applies"], "protocol"]) == {"truncate-on-fetch"}


def test_batches_are_those_of_the_segments(nights: Path, billing: Partition) -> None:
    for broker in billing.brokers:
        expected = headers(inputs_of(nights, RUNS[1]) / "committed-loss" / f"broker-{broker}" / "data-0" / "billing-0")
        frame = billing.batches(broker)
        assert len(frame) == len(expected) > 1
        for row, batch in zip(frame.to_dict("records"), expected, strict=True):
            named = {
                "leader_epoch": batch.leader_epoch,
                "records": batch.record_count,
                "crc": f"{batch.crc:08x}",
                "crc_valid": True,
                "compression": batch.codec,
                "transactional": batch.is_transactional,
                "control": batch.is_control,
                "producer_id": batch.producer_id,
            }
            same = ("base_offset", "last_offset", "size_bytes", "position", "magic")
            assert {name: row[name] for name in (*named, *same)} == named | {name: getattr(batch, name) for name in same}
            assert row["max_timestamp"].timestamp() * 1000 == batch.max_timestamp_ms
            assert pd.isna(row["damage"])


def test_a_range_takes_the_batches_that_hold_its_ends(billing: Partition) -> None:
    frame = billing.batches(1, first=11, last=13)
    assert list(zip(frame["base_offset"], frame["last_offset"], strict=True)) == [(10, 12), (13, 15)]


def test_both_sides_stand_side_by_side_from_the_divergence_on(billing: Partition) -> None:
    both = billing.side_by_side()
    assert list(both["is"]) == ["same"] * 3 + ["differs"] * 2 + ["only follower"] * 5
    assert list(both["base_offset"]) == [0, 4, 8, 10, 13, 16, 19, 22, 25, 28]
    assert list(both["truncated"]) == [False] * 3 + [True] * 7
    assert list(billing.side_by_side(before=1)["base_offset"])[:2] == [8, 10]
    assert billing.side_by_side(before=0)["base_offset"].iloc[0] == 10
    # what one side was not read far enough for is not said to be missing
    assert list(billing.side_by_side(before=0, most=1)["is"]) == ["differs"]
    assert billing.side_by_side(follower=1).equals(both)
    with pytest.raises(UsageError, match="--follower 2: leads billing-0"):
        billing.side_by_side(follower=2)


def test_where_nothing_differs_the_ends_are_compared(full: Run, billing: Partition) -> None:
    both = full.partition("__consumer_offsets-0", cluster=billing.cluster_id).side_by_side()
    assert set(both["is"]) <= {"same", "only leader"}
    assert len(both)


def test_a_broker_without_a_replica_is_told(billing: Partition) -> None:
    with pytest.raises(UsageError, match="broker 7 has no replica of billing-0 in the input; these have: 1, 2"):
        billing.batches(7)


@pytest.fixture
def moved(tmp_path: Path) -> tuple[Path, Partition]:
    """A partition whose input may be changed after the audit."""
    shutil.copytree(SAMPLE / "committed-loss", tmp_path / "brokers")
    write_warehouse(tmp_path / "warehouse", tmp_path / "brokers")
    return tmp_path / "brokers", open_warehouse(str(tmp_path / "warehouse")).latest().partition("billing-0")


def test_files_that_are_gone_are_one_sentence(moved: tuple[Path, Partition]) -> None:
    brokers, partition = moved
    shutil.rmtree(brokers / "broker-1" / "data-0" / "billing-0")
    with pytest.raises(UsageError, match=r"the files of broker 1 are not where the audit read them; put its input back"):
        partition.batches(1)
    assert partition.lineage().data is not None


def test_damage_and_wrong_crcs_are_rows(moved: tuple[Path, Partition]) -> None:
    brokers, partition = moved
    segment = brokers / "broker-1" / "data-0" / "billing-0" / "00000000000000000000.log"
    content = bytearray(segment.read_bytes())
    second = partition.batches(1)["position"].iloc[1]
    content[second + 70] ^= 1  # inside of its records
    segment.write_bytes(bytes(content[:-5]))
    frame = partition.batches(1)
    assert list(frame["crc_valid"].iloc[:3]) == [True, False, True]
    assert frame["damage"].notna().sum() == 1
    assert frame["damage"].iloc[-1].startswith("torn-batch: ")
    assert frame["base_offset"].isna().iloc[-1]
    assert len(partition.side_by_side())


def test_collected_batches_are_the_brokers(tmp_path: Path) -> None:
    """A collection has no segments; its batch indexes tell the same headers."""
    write_warehouse(tmp_path / "warehouse", collect_cluster(SAMPLE / "committed-loss", tmp_path / "collected"))
    partition = open_warehouse(str(tmp_path / "warehouse")).latest().partition("billing-0")
    frame = partition.batches(1, first=11, last=13)
    expected = [one for one in headers(SAMPLE / "committed-loss" / "broker-1" / "data-0" / "billing-0") if one.base_offset in (10, 13)]
    assert [(row["base_offset"], int(row["crc"], 16), row["size_bytes"]) for row in frame.to_dict("records")] == [
        (batch.base_offset, batch.crc, batch.size_bytes) for batch in expected
    ]
    assert list(partition.side_by_side()["is"]) == ["same"] * 3 + ["differs"] * 2 + ["only follower"] * 5


def spec_data(chart: Any) -> list[dict[str, Any]]:
    """The rows that a plot holds."""
    return [row for rows in chart.to_dict()["datasets"].values() for row in rows]


def test_the_lineage_draws_every_batch_run_of_the_tables_once(full: Run, billing: Partition) -> None:
    drawn = [row for row in spec_data(billing.lineage()) if "fate" in row]
    spans = {(row["replica"], row["leader_epoch"], row["first_offset"], row["end_offset"], row["fate"]) for row in drawn}
    assert spans == {
        ("leader 2", "0", 0, 10, "stays"),
        ("leader 2", "2", 10, 15, "stays"),
        ("follower 1", "0", 0, 10, "stays"),
        ("follower 1", "0", 10, 30, "truncated"),
    }
    by_table = full.table("segment_epochs", topic="billing", partition=0).to_dict("records")
    runs = {(row["broker_id"], row["leader_epoch"], row["first_offset"], row["last_offset"] + 1) for row in by_table}
    assert runs == {(2, 0, 0, 10), (2, 2, 10, 15), (1, 0, 0, 30)}


def test_the_lineage_marks_what_the_tables_say(full: Run, billing: Partition) -> None:
    marks = [row for row in spec_data(billing.lineage()) if "mark" in row]
    verdict = full.verdicts(topic="billing", partition=0).iloc[0]
    at = {(row["replica"], row["mark"]): row["offset"] for row in marks}
    assert at["follower 1", "cut"] == verdict["truncation_offset"]
    assert at["follower 1", "logs diverge"] == verdict["divergence_offset"]
    watermarks = full.replicas(topic="billing", partition=0, state="current").set_index("broker_id")["high_watermark"]
    assert (at["leader 2", "high watermark"], at["follower 1", "high watermark"]) == (watermarks[2], watermarks[1])
    cuts = {row["offset"]: row["detail"] for row in marks if row["mark"].startswith("cut")}
    points = full.truncation_points(topic="billing", partition=0, kind="protocol")
    assert set(cuts) == set(points["truncation_offset"].dropna())
    for point in points.dropna(subset=["truncation_offset"]).to_dict("records"):
        assert point["protocol"] in cuts[point["truncation_offset"]]
    positions = {row["offset"] for row in marks if row["replica"] == "consumers"}
    assert positions == set(full.consumer_impacts(topic="billing", partition=0)["committed_offset"])


def test_plots_have_labelled_axes_and_a_text_alternative(full: Run, billing: Partition) -> None:
    for chart in (billing.lineage(), billing.batch_plot(), full.heatmap()):
        spec = chart.to_dict()
        assert len(spec["description"]) > 50
        assert spec["title"]["text"]
        titled = {layer["encoding"]["x"].get("title") for layer in spec["layer"] if "x" in layer.get("encoding", {})}
        assert titled - {None}
    said = billing.lineage().to_dict()["description"]
    assert "Follower 1: offsets 0..9 in epoch 0, stays; offsets 10..29 in epoch 0, truncated" in said
    assert "cut at 10" in said


def shown(chart: Any) -> dict[str, Any]:
    bundle: dict[str, Any] = chart._repr_mimebundle_(None, None)
    return bundle


def test_a_plot_is_shown_with_a_picture_that_says_what_it_shows(billing: Partition) -> None:
    bundle = shown(billing.lineage())
    assert '<svg role="img" aria-label="Partition billing-0. ' in bundle["image/svg+xml"]
    assert bundle["text/plain"].startswith("Partition billing-0. ")
    assert any(kind.startswith("application/vnd.vegalite") for kind in bundle)
    assert "http" not in bundle["image/svg+xml"].replace("http://www.w3.org/", "")


def test_the_window_is_around_what_differs_in_a_long_log(tmp_path: Path) -> None:
    shared = [(0, base, base + 9) for base in range(0, 10_000, 10)]
    leader, follower = Disk(batches=[*shared, (2, 10_000, 10_009)]), Disk(batches=[*shared, (1, 10_000, 10_004)], high_watermark=10_000)
    (tmp_path / "input").mkdir()
    Cluster(disks={1: leader, 2: follower}, leader_epoch=2).audit(tmp_path / "input", Protocol.TRUNCATE_ON_FETCH)
    write_warehouse(tmp_path / "warehouse", next((tmp_path / "input").iterdir()))
    partition = open_warehouse(str(tmp_path / "warehouse")).latest().partition("orders-0")
    assert partition.lineage().to_dict()["title"]["text"] == "orders-0: offsets 9,990..10,009"
    assert partition.lineage(first=0).to_dict()["title"]["text"] == "orders-0: offsets 0..10,009"
    assert partition.lineage(first=500, last=600).to_dict()["title"]["text"] == "orders-0: offsets 500..600"
    # the batches before the place are found without reading the whole log
    assert list(partition.side_by_side(before=2)["base_offset"]) == [9_980, 9_990, 10_000]


def test_a_partition_with_one_replica_is_drawn_by_its_epochs(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    alone = Cluster(disks={1: Disk(batches=[(0, 0, 9), (2, 10, 14)])}, leader_epoch=2)
    alone.audit(tmp_path / "input", Protocol.TRUNCATE_ON_FETCH)
    write_warehouse(tmp_path / "warehouse", next((tmp_path / "input").iterdir()))
    partition = open_warehouse(str(tmp_path / "warehouse")).latest().partition("orders-0")
    drawn = {(row["replica"], row["first_offset"], row["end_offset"]) for row in spec_data(partition.lineage()) if "fate" in row}
    assert drawn == {("broker 1", 0, 10), ("broker 1", 10, 15)}
    assert "no follower" not in repr(partition).split(":")[0]
    with pytest.raises(UsageError, match="orders-0 has no follower to compare: only broker 1"):
        partition.side_by_side()
