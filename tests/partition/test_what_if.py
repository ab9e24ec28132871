"""Every replica as the leader, on real brokers' files and on built ones, against counting the batches with another decoder."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings

from replica_audit.config import Settings
from replica_audit.rows.codes import Protocol
from tests.formats import kafka_files
from tests.protocol import logs
from tests.protocol.lineages import Partition, partitions
from tests.support import in_process
from tests.support.in_process import Row
from tests.support.shares import by_day

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "data" / "sample"
SHARED = ROOT.parent / "shared" / "clusters"
ASKED = Settings(what_if_leaders=True, follow_links=True)
OTHER_TOPIC_ID = "zzzzzzzzQF-e2A5xW3-mBQ"  # sorts behind kafka_files.TOPIC_ID

# where every cut is complete, so that what a follower has and its leader has not is lost: from KIP-279 on, with the brokers' own tables
ROOTS = [*sorted(SAMPLE.iterdir()), *sorted(SHARED.glob("*/before")), *sorted(SHARED.glob("*/after"))]
ROOTS = [path for path in ROOTS if not re.search(r"1\.1\.1|ibp|tampered|corrupted|compacted|trimmed", str(path))]


def _name(path: Path) -> str:
    return "/".join(path.relative_to(ROOT.parent).parts[-2:])


class Batch(NamedTuple):
    """What tells a batch apart: two replicas hold the same one if all of this is the same."""

    epoch: int
    base_offset: int
    last_offset: int
    records: int
    size_bytes: int


def _batches(directory: Path) -> set[Batch]:
    """A replica's batches by kafka-python's decoder."""
    found = [batch for path in sorted(directory.glob("*.log")) for batch in kafka_files.decoded(path.read_bytes())]
    return {
        Batch(batch.leader_epoch, batch.base_offset, batch.base_offset + batch.last_offset_delta, batch.records_count, batch.size_in_bytes)
        for batch in found
    }


def _without_logs(path: Path, to: Path) -> Path:
    """The same directories without the brokers' own logs, by which the followers have truncated since."""
    shutil.copytree(path, to, copy_function=os.symlink, ignore=shutil.ignore_patterns("server.log"))
    return to


def _leaders(tables: Mapping[str, list[Row]], topic: str, partition: int) -> dict[int, Row]:
    return {row["candidate_id"]: row for row in tables["what_if_leaders"] if (row["topic"], row["partition"]) == (topic, partition)}


def _loss(row: Row) -> tuple[int | None, int | None, int | None]:
    return row["lost_offsets"], row["lost_records"], row["lost_bytes"]


# --- real brokers' files ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partition", "if_1_leads", "if_2_leads", "ranks"),
    [
        # (offsets lost, of which committed): broker 1 wrote up to 30, 26 (22 with acks=all) and 16, broker 2 then from 10 to 15, 40 and 10
        pytest.param(0, 5, 20, (1, 2), id="billing-0"),
        pytest.param(1, 30, 16, (2, 1), id="billing-1"),
        pytest.param(2, 0, 6, (1, 2), id="billing-2"),
    ],
)
def test_committed_loss(partition: int, if_1_leads: int, if_2_leads: int, ranks: tuple[int, int], tmp_path: Path) -> None:
    """Broker 1 would cut away what broker 2 wrote after the unclean election, and the other way round."""
    tables = in_process.audit(_without_logs(SAMPLE / "committed-loss", tmp_path / "copy"), settings=ASKED)
    rows = _leaders(tables, "billing", partition)
    assert sorted(rows) == [1, 2], "broker 3 has no replica"
    for broker, lost in ((1, if_1_leads), (2, if_2_leads)):
        assert (rows[broker]["lost_offsets"], rows[broker]["lost_records"]) == (lost, lost)
        assert rows[broker]["lost_below_high_watermark"] == lost, "each side had its records committed with an ISR of its own"
        assert rows[broker]["followers_cut"] == bool(lost)
    assert (rows[1]["rank"], rows[2]["rank"]) == ranks
    assert (rows[1]["is_leader"], rows[2]["is_leader"]) == (False, True)
    assert (rows[1]["in_isr"], rows[2]["in_isr"]) == (False, True)
    verdict = next(row for row in tables["replica_verdicts"] if (row["topic"], row["partition"]) == ("billing", partition))
    assert _loss(rows[2]) == (verdict["removed_offsets"], verdict["removed_records"], verdict["removed_bytes"])
    assert rows[2]["lost_below_high_watermark"] == verdict["removed_below_high_watermark"]


@pytest.mark.parametrize(
    ("partition", "lost"),
    [
        # broker 1: epoch 0, then seven, seven and five records of epoch 6; 2: part of epoch 0, and epoch 4; 3: ten of epoch 0, and epoch 2
        pytest.param(0, {1: 4 + 8, 2: 5 + 7 + 8, 3: 11 + 7 + 4}, id="stock-0"),
        pytest.param(1, {1: 9 + 2, 2: 3 + 7 + 2, 3: 8 + 7 + 9}, id="stock-1"),
        pytest.param(2, {1: 3 + 12, 2: 5 + 12, 3: 4 + 5 + 3}, id="stock-2"),
    ],
)
def test_three_way(partition: int, lost: dict[int, int], tmp_path: Path) -> None:
    """What brokers 1 and 2 both have of epoch 0, and 3 has not, is lost once; what each wrote alone is lost each."""
    rows = _leaders(in_process.audit(_without_logs(SAMPLE / "three-way", tmp_path / "copy"), settings=ASKED), "stock", partition)
    assert {broker: row["lost_records"] for broker, row in rows.items()} == lost
    assert {broker: row["lost_offsets"] for broker, row in rows.items()} == lost
    assert {broker: row["lost_committed"] for broker, row in rows.items()} == lost, "each led alone in the ISR"
    assert rows[1]["lost_committed_offsets"] == {"sole-in-sync-replica": lost[1]}, "high watermarks of 0 were written down of the others"
    assert min(rows, key=lambda broker: (lost[broker], broker != 1, broker)) == next(b for b, row in rows.items() if row["rank"] == 1)
    assert {row["followers_cut"] for row in rows.values()} == {2}


@pytest.mark.parametrize(("partition", "already"), [(0, 20), (1, 16), (2, 6)])
def test_what_a_broker_has_truncated_already_is_no_survivor(partition: int, already: int) -> None:
    """By its server.log broker 1 was cut to 10 since it was copied: to elect it brings nothing back."""
    tables = in_process.audit(SAMPLE / "committed-loss", settings=ASKED)
    rows = _leaders(tables, "billing", partition)
    verdict = next(row for row in tables["replica_verdicts"] if (row["topic"], row["partition"]) == ("billing", partition))
    assert verdict["already_truncated"] is True
    assert rows[1]["log_end_offset"] == verdict["truncation_offset"]
    assert [rows[broker]["already_lost_offsets"] for broker in (1, 2)] == [already] * 2
    assert (rows[2]["lost_offsets"], rows[2]["rank"], rows[2]["followers_cut"]) == (0, 1, 0)
    assert rows[2]["reason"] == f"nothing is lost; broker 1 has already truncated {already} offsets, which only its audited copy holds"
    assert rows[1]["lost_offsets"] == {0: 5, 1: 30, 2: 0}[partition]


def test_a_broker_that_logged_another_cut_keeps_what_it_holds(tmp_path: Path) -> None:
    """One above the rule's, by an earlier answer of a leader: it proves nothing of these files."""
    root = tmp_path / "copy"
    shutil.copytree(SAMPLE / "committed-loss", root)
    log = root / "broker-1" / "server.log"
    log.write_text(re.sub(r"((?:Truncating to offset |offset=|endOffset=))10\b", r"\g<1>12", log.read_text()))
    tables = in_process.audit(root, settings=ASKED)
    verdict = next(row for row in tables["replica_verdicts"] if (row["topic"], row["partition"]) == ("billing", 1))
    assert verdict["observed_truncation_offset"] == 12
    assert verdict["already_truncated"] is False
    rows = _leaders(tables, "billing", 1)
    assert (rows[2]["lost_offsets"], rows[2]["already_lost_offsets"], rows[1]["rank"]) == (16, 0, 2)


@pytest.mark.clusters
@pytest.mark.parametrize("path", by_day(ROOTS), ids=_name)
def test_losses_by_every_batch(path: Path, tmp_path: Path) -> None:
    """A batch is lost if a replica holds it and the candidate does not; one that several hold is one batch."""
    tables = in_process.audit(_without_logs(path, tmp_path / "copy"), settings=ASKED)
    found: dict[tuple[str, int], dict[int, Row]] = {}
    for row in tables["replica_logs"]:
        if row["state"] == "current" and row["topic"] != "__cluster_metadata":
            found.setdefault((row["topic"], row["partition"]), {})[row["broker_id"]] = row
    compared = 0
    for (topic, partition), replicas in found.items():
        if any(row["log_start_offset"] != 0 or row["cleaner_offset"] is not None or row["unreadable_reason"] for row in replicas.values()):
            continue  # retention and compaction lose nothing
        held = {broker: _batches(Path(row["log_dir"]) / row["directory"]) for broker, row in replicas.items()}
        rows = _leaders(tables, topic, partition)
        assert sorted(rows) == (sorted(held) if len(held) > 1 else [])
        for broker, row in rows.items():
            lost = set().union(*held.values()) - held[broker]
            offsets = sum(batch.last_offset - batch.base_offset + 1 for batch in lost)
            expected = offsets, sum(batch.records for batch in lost), sum(batch.size_bytes for batch in lost)
            assert _loss(row) == expected, (topic, partition, broker)
            committed = {
                offset
                for batch in lost
                for offset in range(batch.base_offset, batch.last_offset + 1)
                if any(batch in held[other] and offset < (replicas[other]["high_watermark"] or 0) for other in held)
            }
            assert row["lost_below_high_watermark"] == len(committed), (topic, partition, broker)
            cut = sum(bool(theirs - held[broker]) for theirs in held.values())
            assert (row["followers_cut"], row["followers_restarted"], row["followers_diverged"]) == (cut, 0, 0)
            compared += 1
        assert sorted(row["rank"] for row in rows.values()) == list(range(1, len(rows) + 1))
    assert compared, "nothing was compared"


def test_roots_were_found() -> None:
    """Guards the parametrisation above: an empty list of cases would pass."""
    assert len(ROOTS) >= 5
    assert not SHARED.is_dir() or len(ROOTS) > 50


def test_without_being_asked_nothing_is_computed() -> None:
    assert not in_process.audit(SAMPLE / "committed-loss")["what_if_leaders"]


# --- built files --------------------------------------------------------------------------------------------------------------------------


def _write(
    root: Path,
    held: Mapping[int, Sequence[logs.Batch]],
    *,
    high_watermarks: Mapping[int, int] | None = None,
    epochs: Mapping[int, Mapping[int, int]] | None = None,
    starts: Mapping[int, int] | None = None,
    topic_ids: Mapping[int, str] | None = None,
) -> Path:
    """A cluster with one partition, t-0; the batches of each broker's replica as (epoch, base, last)."""
    for broker, batches in held.items():
        log_dir = root / f"broker-{broker}" / "data-0"
        directory = log_dir / "t-0"
        start = (starts or {}).get(broker, 0)
        # what is made of the same numbers is the same batch on every broker
        made = [kafka_files.batch(base, epoch, deltas=range(last - base + 1), value=b"%d" % epoch) for epoch, base, last in batches]
        kafka_files.segment(directory, start, *made)
        table = (epochs or {}).get(broker)
        entries = logs.first_of_each_epoch(batches) if table is None else table.items()
        (directory / "leader-epoch-checkpoint").write_bytes(kafka_files.checkpoint(entries))
        topic_id = (topic_ids or {}).get(broker, kafka_files.TOPIC_ID)
        (directory / "partition.metadata").write_bytes(kafka_files.partition_metadata(topic_id))
        (log_dir / "meta.properties").write_bytes(kafka_files.meta_properties(broker))
        mark = (high_watermarks or {}).get(broker, 0)
        (log_dir / "replication-offset-checkpoint").write_bytes(kafka_files.checkpoint([("t", 0, mark)]))
    return root


def _metadata(
    root: Path, leader: int, *, epoch: int, brokers: Sequence[int], isr: Sequence[int] = (), state: str = "down", **fields: Any
) -> Path:
    partition = {"partition": 0, "leader": leader, "leader_epoch": epoch, "replicas": list(brokers), "isr": list(isr or [leader])}
    written = {
        "version": 1,
        "cluster_id": kafka_files.CLUSTER_ID,
        "kafka_version": "4.2.0",
        "features": {"metadata.version": 29},
        "brokers": [{"id": broker, "state": state} for broker in brokers],
        "topics": [{"topic": "t", "topic_id": kafka_files.TOPIC_ID, "configs": {}, "partitions": [partition], **fields}],
    }
    (root / "cluster-metadata.json").write_text(json.dumps(written), encoding="utf-8")
    return root


def _audit(root: Path) -> tuple[dict[int, Row], dict[str, list[Row]]]:
    tables = in_process.audit(root, settings=ASKED)
    return _leaders(tables, "t", 0), tables


COMMON = [(0, 0, 4), (0, 5, 9)]


def test_a_single_replica_has_no_alternative(tmp_path: Path) -> None:
    rows, _tables = _audit(_metadata(_write(tmp_path, {1: COMMON}), 1, epoch=0, brokers=[1]))
    assert not rows


def test_what_two_followers_hold_is_lost_once(tmp_path: Path) -> None:
    held = {1: COMMON, 2: [*COMMON, (1, 10, 11), (1, 12, 15)], 3: [*COMMON, (1, 10, 11)]}
    root = _write(tmp_path, held, high_watermarks={1: 10, 2: 12, 3: 11})
    rows, _tables = _audit(_metadata(root, 1, epoch=2, brokers=[1, 2, 3]))
    assert {broker: row["lost_records"] for broker, row in rows.items()} == {1: 6, 2: 0, 3: 4}
    assert {broker: row["lost_below_high_watermark"] for broker, row in rows.items()} == {1: 2, 2: 0, 3: 0}
    assert {broker: row["rank"] for broker, row in rows.items()} == {1: 3, 2: 1, 3: 2}
    assert {broker: row["followers_cut"] for broker, row in rows.items()} == {1: 2, 2: 0, 3: 1}
    assert rows[2]["reason"] == "nothing is lost"


def test_committed_versions_of_the_same_offsets_are_lost_each(tmp_path: Path) -> None:
    """Both 2 and 3 led alone and committed 10..13 and 10..12: seven committed records go, as `lost_offsets` says."""
    held = {1: COMMON, 2: [*COMMON, (1, 10, 13)], 3: [*COMMON, (3, 10, 12)]}
    root = _write(tmp_path, held, high_watermarks={1: 10, 2: 14, 3: 13})
    rows, _tables = _audit(_metadata(root, 1, epoch=5, brokers=[1, 2, 3]))
    assert (rows[1]["lost_offsets"], rows[1]["lost_records"]) == (7, 7)
    assert rows[1]["lost_below_high_watermark"] == 7


def test_an_empty_replica_that_leads_takes_everything(tmp_path: Path) -> None:
    root = _write(tmp_path, {1: COMMON, 2: [], 3: COMMON}, high_watermarks={1: 10, 3: 8})
    rows, _tables = _audit(_metadata(root, 1, epoch=0, brokers=[1, 2, 3], isr=[1, 3]))
    assert _loss(rows[2])[:2] == (10, 10)
    assert (rows[2]["lost_below_high_watermark"], rows[2]["followers_cut"], rows[2]["rank"]) == (10, 2, 3)
    assert (rows[2]["last_epoch"], rows[2]["log_end_offset"]) == (-1, 0)
    assert (rows[1]["rank"], rows[3]["rank"]) == (1, 2), "of two that lose nothing the leader, for it needs no election"


def test_what_retention_took_from_the_candidate_is_not_lost(tmp_path: Path) -> None:
    held = {1: [(0, 5, 9), (1, 10, 14)], 2: [*COMMON, (0, 10, 12)]}
    root = _write(tmp_path, held, starts={1: 5})
    rows, _tables = _audit(_metadata(root, 1, epoch=1, brokers=[1, 2]))
    assert rows[1]["lost_records"] == 3
    assert rows[2]["lost_records"] == 5


def test_what_a_follower_fetched_after_the_leader_was_copied_is_not_called_a_committed_loss(tmp_path: Path) -> None:
    """A healthy running cluster, copied broker after broker: `replica_verdicts` says so, and counts no loss."""
    root = _write(tmp_path, {1: COMMON, 2: [*COMMON, (0, 10, 14)]}, high_watermarks={1: 10, 2: 12})
    rows, tables = _audit(_metadata(root, 1, epoch=0, brokers=[1, 2], isr=[1, 2], state="up"))
    (verdict,) = tables["replica_verdicts"]
    assert (verdict["verdict"], verdict["removed_below_high_watermark"]) == ("consistent", 0)
    assert rows[1]["lost_below_high_watermark"] in (0, None)
    assert "were committed" not in rows[1]["reason"] or "0 of their offsets" in rows[1]["reason"]


def test_nobody_is_the_leader_of_a_partition_without_one(tmp_path: Path) -> None:
    """Which is when the question is asked: metadata says that nobody leads, and whoever is inferred to does not."""
    root = _write(tmp_path, {1: COMMON, 2: [*COMMON, (1, 10, 14)]})
    rows, _tables = _audit(_metadata(root, -1, epoch=2, brokers=[1, 2], isr=[2]))
    assert [rows[broker]["rank"] for broker in (2, 1)] == [1, 2]
    assert [row["is_leader"] for row in rows.values()] == [False, False]


def test_an_unreadable_replica_is_shown_without_rank_and_its_cost_is_unknown(tmp_path: Path) -> None:
    root = _write(tmp_path, {1: COMMON, 2: [*COMMON, (1, 10, 14)], 3: COMMON})
    (root / "broker-2" / "data-0" / "t-0" / "leader-epoch-checkpoint").write_bytes(b"garbled\n")
    rows, _tables = _audit(_metadata(root, 1, epoch=2, brokers=[1, 2, 3]))
    assert {broker: row["rank"] for broker, row in rows.items()} == {1: 1, 3: 2, 2: None}
    assert "cannot lead" in rows[2]["reason"]
    assert "1 replica could not be read" in rows[1]["reason"]
    assert _loss(rows[2]) == (None, None, None), "0 would say that it loses nothing"


@pytest.mark.parametrize("leader", [1, 2, 3])
def test_a_directory_of_an_earlier_topic_is_no_candidate_and_loses_nothing(tmp_path: Path, leader: int) -> None:
    """Also if the metadata names its broker as the leader."""
    root = _write(tmp_path, {1: COMMON, 2: COMMON, 3: [(7, 0, 99)]}, topic_ids={3: OTHER_TOPIC_ID}, high_watermarks={3: 100})
    rows, _tables = _audit(_metadata(root, leader, epoch=8, brokers=[1, 2, 3]))
    assert sorted(rows) == [1, 2]
    assert {row["lost_offsets"] for row in rows.values()} == {0}


ANY_ORDER = pytest.mark.parametrize("of_stale", [OTHER_TOPIC_ID, "AAAAAAAAQF-e2A5xW3-mBQ"], ids=["sorts behind", "sorts before"])


@pytest.mark.parametrize("stale", [1, 3])
@ANY_ORDER
def test_without_metadata_each_topic_id_may_be_the_right_one(tmp_path: Path, stale: int, of_stale: str) -> None:
    """Broker 2 leads by inference: its last epoch is the highest. Whoever is elected, what has the other id counts as lost."""
    held = {1: COMMON, 2: [*COMMON, (9, 10, 12)], 3: COMMON} | {stale: [(7, 0, 99)]}
    rows, tables = _audit(_write(tmp_path, held, topic_ids={stale: of_stale}))
    assert {row["leader_id"] for row in tables["replica_verdicts"]} == {2}
    other = 4 - stale
    assert {broker: row["lost_offsets"] for broker, row in rows.items()} == {stale: 13, 2: 100, other: 103}
    assert {broker: row["rank"] for broker, row in rows.items()} == {stale: 1, 2: 2, other: 3}
    for row in rows.values():
        assert f"broker {stale} has topic id {of_stale}, and records up to offset 99" in row["reason"]


@ANY_ORDER
def test_equal_offsets_under_two_topic_ids_are_no_equal_records(tmp_path: Path, of_stale: str) -> None:
    """A topic that was made again begins with epoch 0, as the earlier one did. What two replicas of one id hold is lost once."""
    rows, _tables = _audit(_write(tmp_path, {1: COMMON, 2: COMMON, 3: COMMON}, topic_ids={3: of_stale}))
    assert {broker: _loss(row)[:2] for broker, row in rows.items()} == {1: (10, 10), 2: (10, 10), 3: (10, 10)}
    assert not any("nothing is lost" in row["reason"] for row in rows.values())


@pytest.mark.parametrize("stale", [1, 3])
@ANY_ORDER
def test_of_a_known_leader_whose_topic_id_only_its_log_has_candidates_are_of_that(tmp_path: Path, stale: int, of_stale: str) -> None:
    held = {1: COMMON, 2: [*COMMON, (9, 10, 12)], 3: COMMON} | {stale: [(7, 0, 99)]}
    root = _metadata(_write(tmp_path, held, topic_ids={stale: of_stale}), 2, epoch=9, brokers=[1, 2, 3], topic_id=None)
    rows, tables = _audit(root)
    assert {row["leader_id"] for row in tables["replica_verdicts"]} == {2}
    assert sorted(rows) == [broker for broker in (1, 2, 3) if broker != stale]
    assert (rows[2]["lost_offsets"], rows[2]["rank"]) == (0, 1)


def test_a_candidate_whose_table_lacks_an_epoch_of_its_own_log_is_told(tmp_path: Path) -> None:
    """Broker 1 leads with the line of epoch 1 missing: whoever follows is sent back for good, unless its table is whole."""
    own = [*COMMON, (1, 10, 14)]
    root = _write(tmp_path, {1: own, 2: COMMON, 3: own}, epochs={1: {0: 0, 2: 15}})
    rows, tables = _audit(_metadata(root, 1, epoch=2, brokers=[1, 2, 3]))
    assert {row["follower_id"]: row["verdict"] for row in tables["replica_verdicts"]} == {2: "cannot_rejoin", 3: "cannot_rejoin"}
    assert {broker: row["followers_failing"] for broker, row in rows.items()} == {1: 2, 2: 0, 3: 0}
    assert "2 followers would fail to fetch" in rows[1]["reason"]
    lags = next(row for row in tables["replica_verdicts"] if row["follower_id"] == 2)
    assert (lags["wrong_lines_broker_id"], lags["wrong_lines"]) == (1, [{"epoch": 1, "start_offset": 10, "found_offset": None}])
    assert (lags["stuck"]["fetch_offset"], lags["stuck"]["requested_epoch"], lags["stuck"]["back_to_offset"]) == (15, 1, 10)
    assert "broker-1/data-0/t-0/leader-epoch-checkpoint" in lags["evidence"]
    logs = {row["broker_id"]: row for row in tables["replica_logs"]}
    assert logs[1]["corrected_checkpoint"] == "0\n3\n0 0\n1 10\n2 15\n"
    assert [(one["leader_id"], one["follower_id"], one["catches_up"]) for one in logs[1]["rejoins_once_corrected"]] == [
        (1, 2, True),
        (1, 3, True),
    ]
    assert [logs[broker]["corrected_checkpoint"] for broker in (2, 3)] == [None, None]
    assert [row["catches_up"] for row in tables["truncation_points"] if row["applies"]] == [False, False]
    assert rows[3]["rank"] == 1


def test_followers_that_fail_or_stay_diverged_are_counted(tmp_path: Path) -> None:
    """KIP-279's scenario 1 under the rule of 0.11 to 1.1: n = 20 stays diverged and is not noticed, n = 15 kills the fetcher."""
    leader = [(1, 0, 10), (1, 11, 20), (3, 21, 30)]
    held = {1: leader, 2: [(1, 0, 10), (2, 11, 20)], 3: [(1, 0, 10), (2, 11, 15)]}
    root = _metadata(_write(tmp_path, held), 1, epoch=3, brokers=[1, 2, 3])
    tables = in_process.audit(root, settings=Settings(what_if_leaders=True, protocol="kip-101"))
    row = _leaders(tables, "t", 0)[1]
    assert (row["followers_cut"], row["followers_diverged"], row["followers_failing"]) == (0, 1, 1)
    assert row["lost_offsets"] == 0, "what is not cut is not lost"
    assert "unnoticed" in row["reason"]


@pytest.mark.parametrize("epoch", [2, 5])
def test_an_elected_leader_is_told_by_the_latest_epoch_that_anything_knows(tmp_path: Path, epoch: int) -> None:
    """Epochs 3 to 5 passed with nobody to write: brokers that were stopped cleanly have no entry of them, and lose what they lose."""
    root = _write(tmp_path, {1: COMMON, 2: [*COMMON, (2, 10, 14)]}, high_watermarks={1: 10, 2: 13})
    for broker in (1, 2):
        (root / f"broker-{broker}" / "data-0" / ".kafka_cleanshutdown").touch()
    rows, _tables = _audit(_metadata(root, -1, epoch=epoch, brokers=[1, 2], isr=[2]))
    assert (rows[1]["lost_offsets"], rows[1]["lost_below_high_watermark"]) == (5, 3)
    assert (rows[2]["lost_offsets"], rows[2]["lost_below_high_watermark"]) == (0, 0)
    assert [rows[broker]["rank"] for broker in (2, 1)] == [1, 2]


def test_what_two_followers_lose_of_one_epoch_at_other_offsets_adds_up(tmp_path: Path) -> None:
    """Of epoch 11 broker 1, whose log starts late, holds 15..19 and broker 2 holds 9..14."""
    common: list[logs.Batch] = [(0, 0, 4), (0, 5, 8)]
    held = {1: [(11, 15, 16), (11, 17, 19)], 2: [*common, (11, 9, 11), (11, 12, 14)], 3: common}
    root = _write(tmp_path, held, starts={1: 15}, high_watermarks={1: 18, 2: 11})
    rows, _tables = _audit(_metadata(root, 3, epoch=12, brokers=[1, 2, 3]))
    lost = [batch for broker in (1, 2) for batch in _batches(root / f"broker-{broker}" / "data-0" / "t-0") if batch.epoch == 11]
    assert len(lost) == 4
    assert _loss(rows[3]) == (11, 11, sum(batch.size_bytes for batch in lost))
    assert (rows[3]["lost_below_high_watermark"], rows[3]["followers_cut"]) == (3 + 2, 2)


def test_what_another_follower_keeps_is_not_lost(tmp_path: Path) -> None:
    """The rule of 0.11 to 1.1 cuts broker 3 to 11, where epoch 3 began. Broker 2 asks for its own epoch 4 and diverges, uncut."""
    old: list[logs.Batch] = [(1, 0, 10), (2, 11, 14), (2, 15, 17)]
    held = {1: [(1, 0, 10), (3, 11, 25), (3, 26, 30), (5, 31, 32)], 2: [*old, (4, 18, 25)], 3: old}
    root = _metadata(_write(tmp_path, held, high_watermarks={3: 14}), 1, epoch=5, brokers=[1, 2, 3])
    tables = in_process.audit(root, settings=Settings(what_if_leaders=True, protocol="kip-101"))
    verdicts = {row["follower_id"]: row for row in tables["replica_verdicts"]}
    assert (verdicts[3]["removed_offsets"], verdicts[3]["removed_below_high_watermark"]) == (7, 3)
    row = _leaders(tables, "t", 0)[1]
    assert (row["followers_cut"], row["followers_diverged"], row["followers_failing"]) == (1, 1, 0)
    assert _loss(row) == (0, 0, 0)
    assert row["lost_below_high_watermark"] == 0


# --- logs without epochs ------------------------------------------------------------------------------------------------------------------


def _legacy(root: Path, held: Mapping[int, Sequence[tuple[int, int, bytes]]], *, high_watermarks: Mapping[int, int]) -> Path:
    """The same of single messages of magic 1: (first, last, value)."""
    _write(root, dict.fromkeys(held, ()), high_watermarks=high_watermarks)
    for broker, parts in held.items():
        made = [kafka_files.legacy(1, range(first, last + 1), value=value) for first, last, value in parts]
        kafka_files.segment(root / f"broker-{broker}" / "data-0" / "t-0", 0, *made)
    return root


def _size(offsets: int, value: bytes) -> int:
    return offsets * len(kafka_files.legacy(1, [0], value=value))


@pytest.mark.parametrize(
    ("theirs", "offsets", "size"),
    [
        pytest.param([(0, 9, b"old")], 0, 0, id="a prefix"),
        pytest.param([(0, 9, b"old"), (10, 13, b"longer")], 4, _size(4, b"longer"), id="others above its high watermark"),
        pytest.param([(0, 9, b"old"), (10, 19, b"new")], 0, 0, id="the same above it"),
        pytest.param([(0, 11, b"old"), (12, 13, b"new")], 2, _size(2, b"old"), id="some of them"),
        pytest.param([(0, 9, b"old"), (12, 13, b"new")], 0, 0, id="the same, and some are missing"),
        pytest.param([(0, 9, b"old"), (10, 24, b"new")], 5, _size(5, b"new"), id="it is longer"),
        pytest.param([(0, 6, b"old"), (7, 13, b"longer")], 4, _size(4, b"longer"), id="what is not cut is not lost, though it differs"),
    ],
)
def test_without_epochs_the_batches_tell_what_is_lost(
    tmp_path: Path, theirs: list[tuple[int, int, bytes]], offsets: int, size: int
) -> None:
    leader = [(0, 9, b"old"), (10, 19, b"new")]
    root = _legacy(tmp_path, {1: leader, 2: theirs}, high_watermarks={1: 20, 2: 10})
    rows, _tables = _audit(_metadata(root, 1, epoch=3, brokers=[1, 2]))
    assert _loss(rows[1]) == (offsets, offsets, size)


def test_without_epochs_messages_of_another_format_prove_no_loss(tmp_path: Path) -> None:
    """They may be the same, converted when they were fetched."""
    root = _legacy(tmp_path, {1: [(0, 19, b"same")], 2: []}, high_watermarks={1: 20, 2: 10})
    kafka_files.segment(root / "broker-2" / "data-0" / "t-0", 0, kafka_files.legacy(0, range(14), value=b"same"))
    rows, tables = _audit(_metadata(root, 1, epoch=3, brokers=[1, 2]))
    assert [row["removed_offsets"] for row in tables["replica_verdicts"]] == [4]
    assert _loss(rows[1]) == (0, 0, 0)


# --- random lineages ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=60)
@given(partitions())
def test_random_lineages_by_every_record(found: Partition) -> None:
    held = {broker: {(epoch, offset) for offset, epoch in log.records.items()} for broker, log in found.replicas.items()}
    marks = {broker: log.high_watermark for broker, log in found.replicas.items()}
    with tempfile.TemporaryDirectory() as folder:
        root = _write(
            Path(folder),
            {broker: log.batches for broker, log in found.replicas.items()},
            high_watermarks=marks,
            epochs={broker: log.table for broker, log in found.replicas.items()},
        )
        _metadata(root, found.leader, epoch=found.epoch, brokers=sorted(held), isr=sorted(found.isr))
        rows, tables = _audit(root)
    assert sorted(rows) == sorted(held)
    every = set().union(*held.values())
    for broker, row in rows.items():
        lost = every - held[broker]
        assert (row["lost_offsets"], row["lost_records"]) == (len(lost), len(lost))
        proven = {offset for epoch, offset in lost if any((epoch, offset) in held[other] and offset < marks[other] for other in held)}
        assert row["lost_below_high_watermark"] >= len(proven)
        assert row["followers_cut"] == sum(bool(theirs - held[broker]) for theirs in held.values())
        assert (row["followers_restarted"], row["followers_diverged"], row["is_leader"]) == (0, 0, broker == found.leader)
    holds_all = [broker for broker in held if held[broker] == every]
    first = next(broker for broker, row in rows.items() if row["rank"] == 1)
    if holds_all:
        assert first in holds_all
        assert first == found.leader or found.leader not in holds_all
    removed: Counter[int] = Counter()
    for verdict in tables["replica_verdicts"]:
        own = held[verdict["follower_id"]] - held[found.leader]
        assert verdict["removed_records"] == len(own)
        removed[verdict["follower_id"]] = len(own)
    lost_by_leader = rows[found.leader]["lost_records"]
    assert max(removed.values()) <= lost_by_leader <= sum(removed.values())


# --- other rules --------------------------------------------------------------------------------------------------------------------------


def test_rules_side_by_side_only_where_a_follower_is_cut_or_differs() -> None:
    tables = in_process.audit(SAMPLE / "three-way")
    rejected = [row for row in tables["truncation_points"] if row["kind"] == "rejected"]
    pairs = {(row["topic"], row["partition"], row["leader_id"], row["follower_id"]) for row in rejected}
    assert pairs == {("stock", partition, 1, follower) for partition in (0, 1, 2) for follower in (2, 3)}
    names = "unknown-offset-rounds epoch-sequence-exchange high-watermark-epoch leave-isr-on-preferred-election"
    assert Counter(row["protocol"] for row in rejected) == dict.fromkeys(names.split(), 6)
    for row in rejected:
        assert row["reason"] and row["applies"] is False
        assert row["request_bytes"] >= 8 * row["epoch_requests"]
        assert {row[name] for name in ("fetcher_fails", "rounds", "removed_offsets", "still_diverged", "catches_up")} == {None}
    built = [row for row in tables["truncation_points"] if row["kind"] == "protocol" and row["topic"] == "stock"]
    assert Counter(row["protocol"] for row in built) == dict.fromkeys(map(str, Protocol), 6)
    for row in built:
        assert (row["reason"], row["epoch_requests"]) == (None, row["round_trips"])


def test_a_clean_cluster_has_no_rules_to_compare() -> None:
    points = in_process.audit(SAMPLE / "clean-in-sync", settings=Settings(detail="all"))["truncation_points"]
    assert {row["kind"] for row in points} == {"protocol"}


@pytest.mark.parametrize(
    ("partition", "already", "if_2_leads"),
    [
        pytest.param(0, 0, 10, id="it began anew: what it held lay below the leader's log start"),
        pytest.param(1, 7, 11, id="cut at 25, and 24 lay below the log start"),
        pytest.param(2, 11, 19, id="cut at 12, and begun anew at the leader's log start 16"),
        pytest.param(3, 6, 23, id="cut at 12"),
    ],
)
def test_a_trimmed_leader_whose_followers_have_truncated_already(partition: int, already: int, if_2_leads: int) -> None:
    """What lies below the leader's log start was taken by retention, not by the cut."""
    tables = in_process.audit(SAMPLE / "leader-trimmed", settings=ASKED)
    rows = _leaders(tables, "audit", partition)
    verdict = next(row for row in tables["replica_verdicts"] if (row["topic"], row["partition"]) == ("audit", partition))
    assert (rows[1]["already_lost_offsets"], rows[1]["lost_offsets"], rows[2]["lost_offsets"]) == (already, 0, if_2_leads)
    assert already == verdict["removed_below_high_watermark"], "all of it was committed"
    ends = verdict["truncation_offset"] if verdict["restart_offset"] is None else verdict["restart_offset"]
    assert rows[2]["log_end_offset"] == ends
