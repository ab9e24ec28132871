"""Logs of equal offsets and epochs that hold other bytes: found wherever they can be, and nothing else taken for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.config import Settings
from replica_audit.partition.pairs import content
from replica_audit.rows.codes import Protocol
from tests.formats import kafka_files as kf
from tests.scenarios.disks import TOPIC, Audited, Cluster, Disk, Row
from tests.support import in_process

RULE = Protocol.TRUNCATE_ON_FETCH
LONG = [(1, first, first + 9_999) for first in range(0, 150_000, 10_000)]  # three windows, the last one not full
SHORT = [(1, 0, 4), (1, 5, 9), (2, 10, 11)]


def audit(tmp_path: Path, leader: Disk, follower: Disk, **given: object) -> Audited:
    return Cluster(disks={1: leader, 2: follower}, leader_epoch=2, isr=(1, 2), **given).audit(tmp_path, RULE)  # type: ignore[arg-type]


def disk(batches: list[tuple[int, int, int]], **given: object) -> Disk:
    return Disk(batches=batches, high_watermark=batches[-1][2] + 1, **given)  # type: ignore[arg-type]


def with_follower(tmp_path: Path, *batches: bytes) -> Row:
    """The verdict on a follower with these batches, whose leader has SHORT."""
    Cluster(disks={1: disk(SHORT), 2: disk(SHORT)}, leader_epoch=2, isr=(1, 2)).audit(tmp_path, RULE)
    (home,) = tmp_path.iterdir()
    (own,) = (home / "broker-2" / "data-0" / f"{TOPIC}-0").glob("*.log")
    own.write_bytes(b"".join(batches))
    (row,) = in_process.audit(home)["replica_verdicts"]
    return row


@pytest.mark.parametrize("other_from", [0, 5, 10])
def test_the_first_other_batch_is_named_with_both_crcs(tmp_path: Path, other_from: int) -> None:
    found = audit(tmp_path, disk(SHORT), disk(SHORT, other_from=other_from))
    row = found.row()
    assert (row["verdict"], row["severity"]) == ("content_mismatch", "critical")
    assert row["divergence_offset"] == row["common_prefix_end_offset"] == other_from
    base, last = next((first, last) for _epoch, first, last in SHORT if first == other_from)
    crcs = [int.from_bytes(kf.batch(base, 1, deltas=range(last - base + 1), value=value)[17:21], "big") for value in (b"value", b"other")]
    assert row["reason"] == (f"offsets {base}..{last} differ from the leader's batch: leader CRC {crcs[0]:08x}, follower CRC {crcs[1]:08x}")
    mismatch = row["mismatch"]
    assert (mismatch["kind"], mismatch["record"]["offset"], mismatch["record"]["parts"]) == ("other_records", base, ["value"])
    assert [mismatch[side]["crc"] for side in ("leader", "follower")] == crcs
    assert (mismatch["leader"]["first_offset"], mismatch["leader"]["last_offset"]) == (base, last)
    assert "broker-2" in mismatch["follower"]["path"]
    (finding,) = found.tables["found"]
    assert finding["mismatch"] == mismatch
    assert f"has epoch {2 if base == 10 else 1} at {base}" in row["evidence"]
    assert row["truncation_offset"] is None and row["removed_offsets"] == 0


def test_a_batch_that_one_side_has_in_two_is_told_as_such(tmp_path: Path) -> None:
    split = [kf.batch(5, 1, deltas=range(2)), kf.batch(7, 1, deltas=range(3), timestamp=1_002)]
    row = with_follower(tmp_path, kf.batch(0, 1, deltas=range(5)), *split, kf.batch(10, 2, deltas=range(2)))
    assert (row["verdict"], row["severity"], row["divergence_offset"]) == ("rebatched", "warning", 5)
    assert row["mismatch"]["kind"] == "other_batching"
    assert row["reason"] == "the same records as the leader's, in other batches from offset 5 on"
    assert row["mismatch"]["compared_end_offset"] == 12


def test_a_log_that_is_compressed_otherwise_is_told_as_such(tmp_path: Path) -> None:
    found = audit(tmp_path, disk(SHORT), disk(SHORT, codec=kf.GZIP))
    assert (found.row()["verdict"], found.row()["mismatch"]["kind"]) == ("rebatched", "other_encoding")


def test_other_batches_before_another_record_are_no_excuse(tmp_path: Path) -> None:
    """The log is split otherwise at 5, and holds another record at 10: the record counts."""
    split = [kf.batch(5, 1, deltas=range(2)), kf.batch(7, 1, deltas=range(3), timestamp=1_002)]
    row = with_follower(tmp_path, kf.batch(0, 1, deltas=range(5)), *split, kf.batch(10, 2, deltas=range(2), value=b"other"))
    assert (row["verdict"], row["severity"], row["divergence_offset"]) == ("content_mismatch", "critical", 5)
    assert row["mismatch"]["record"]["offset"] == 10


@pytest.mark.parametrize("other_from", [20_000, 70_000, 140_000])
def test_in_any_window(tmp_path: Path, other_from: int) -> None:
    found = audit(tmp_path, disk(LONG), disk(LONG, other_from=other_from))
    assert (found.verdict(), found.row()["divergence_offset"]) == ("content_mismatch", other_from)


@pytest.mark.parametrize(("held", "verdict"), [(140_000, "lagging"), (150_000, "content_mismatch")])
def test_a_follower_that_lags_is_compared_as_far_as_it_goes(tmp_path: Path, held: int, verdict: str) -> None:
    """Its last window is not full: the batches in it are read again."""
    follower = disk([batch for batch in LONG if batch[1] < held], other_from=140_000)
    found = audit(tmp_path, disk([*LONG, (1, 150_000, 150_001)]), follower)
    assert found.verdict() == verdict


def test_retention_on_one_side_is_no_difference(tmp_path: Path) -> None:
    kept = [batch for batch in LONG if batch[1] >= 80_000]
    assert audit(tmp_path, disk(LONG), disk(kept, log_start=80_000)).verdict() == "identical"
    other = audit(tmp_path, disk(LONG), disk(kept, log_start=80_000, other_from=90_000))
    assert (other.verdict(), other.row()["divergence_offset"]) == ("content_mismatch", 90_000)


def test_segments_that_begin_elsewhere_are_no_difference(tmp_path: Path) -> None:
    assert audit(tmp_path, disk(LONG, segments=(30_000,)), disk(LONG, segments=(70_000, 110_000))).verdict() == "identical"


@pytest.mark.parametrize("other_from", [None, 5])
def test_a_compacted_topic_is_compared_where_its_cleaner_took_nothing(tmp_path: Path, other_from: int | None) -> None:
    found = audit(tmp_path, disk(SHORT), disk(SHORT, other_from=other_from), configs={"cleanup.policy": "compact"})
    assert found.verdict() == ("identical" if other_from is None else "content_mismatch")
    assert found.row()["keys_may_differ"] is None


@pytest.mark.parametrize("other_from", [None, 5])
def test_other_batches_of_a_compacted_topic_are_no_difference(tmp_path: Path, other_from: int | None) -> None:
    """A cleaner writes batches again, also those of which it takes nothing (delete horizons, KIP-534)."""
    found = audit(tmp_path, disk(SHORT), disk(SHORT, codec=kf.GZIP, other_from=other_from), configs={"cleanup.policy": "compact"})
    assert found.verdict() == ("identical" if other_from is None else "content_mismatch")


def test_a_compacted_topic_proves_nothing_where_its_cleaner_took_records(tmp_path: Path) -> None:
    held = [batch for batch in SHORT if batch[1] != 5]
    found = audit(tmp_path, disk(held, segments=(10,)), disk(held, segments=(10,), other_from=0), configs={"cleanup.policy": "compact"})
    assert (found.verdict(), found.row()["keys_may_differ"]) == ("consistent", False)
    assert found.row()["reason"].endswith("keys not compared: the topic is compacted (`--compare records` compares them)")


def test_batches_with_fewer_records_than_offsets_prove_nothing(tmp_path: Path) -> None:
    """Only the cleaner takes records out of a batch, also where nothing else tells of it; under `delete` nobody does."""
    cluster = Cluster(disks={1: disk(SHORT), 2: disk(SHORT)}, leader_epoch=2, isr=(1, 2))
    cluster.audit(tmp_path, RULE)
    (home,) = tmp_path.iterdir()
    (segment,) = (home / "broker-2" / "data-0" / f"{TOPIC}-0").glob("*.log")
    segment.write_bytes(kf.batch(0, 1, deltas=(0, 4)) + kf.batch(5, 1, deltas=range(5)) + kf.batch(10, 2, deltas=range(2)))
    (row,) = in_process.audit(home)["replica_verdicts"]
    assert (row["verdict"], row["divergence_offset"]) == ("content_mismatch", 0)
    (row,) = in_process.audit(home, metadata=False)["replica_verdicts"]
    assert row["verdict"] == "consistent"


def test_a_follower_that_was_sent_another_format_is_no_difference(tmp_path: Path) -> None:
    """A leader converts what it sends to a follower of an older version; such batches have no epochs."""
    leader = disk([(1, at, at) for at in range(10)])
    assert audit(tmp_path, leader, disk([(-1, 0, 9)], epochs=())).verdict() == "identical"
    other = audit(tmp_path, leader, disk([(-1, 0, 4), (-1, 5, 9)], epochs=(), other_from=5))
    assert (other.verdict(), other.row()["divergence_offset"]) == ("content_mismatch", 5)


def test_what_a_recovery_would_cut_off_is_not_digested(tmp_path: Path) -> None:
    """The follower's last batch fails its CRC: what is before it is compared, and agrees."""
    Cluster(disks={1: disk(SHORT), 2: disk(SHORT, clean=False)}, leader_epoch=2).audit(tmp_path, RULE)
    (home,) = tmp_path.iterdir()
    (segment,) = (home / "broker-2" / "data-0" / f"{TOPIC}-0").glob("*.log")
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    (row,) = in_process.audit(home)["replica_verdicts"]
    assert (row["verdict"], row["common_prefix_end_offset"]) == ("lagging", 10)


@pytest.mark.parametrize("with_index", [True, False])
def test_collected_logs_are_compared_too(tmp_path: Path, with_index: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replica_audit.collect.pace.lower_priority", lambda: None)
    Cluster(disks={1: disk(SHORT), 2: disk(SHORT, other_from=5)}, leader_epoch=2).audit(tmp_path, RULE)
    (home,) = tmp_path.iterdir()
    for broker in (1, 2):
        log_dirs = ["--log-dir", str(home / f"broker-{broker}" / "data-0")]

        assert cli.main(["collect", *log_dirs, "--output", str(tmp_path / "out")]) == 0
    if not with_index:
        for index in (tmp_path / "out").glob("*/*/batches/*/*.parquet"):
            index.unlink()
    (row,) = in_process.audit(tmp_path / "out")["replica_verdicts"]
    assert row["verdict"] == "content_mismatch"
    told = "offsets 5..9 differ from the leader's batch" if with_index else "among offsets 0..11 are batches that are not the leader's"
    assert told in row["reason"]
    if with_index:
        assert (row["mismatch"]["kind"], row["mismatch"]["follower"]["first_offset"]) == ("not_read", 5)
        assert "headers of batches only" in row["mismatch"]["unread"]


def test_a_segment_that_is_gone_when_it_is_read_again_leaves_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention on a running broker."""

    def gone(*_given: object) -> None:
        raise FileNotFoundError("gone")

    monkeypatch.setattr("replica_audit.stages.partitions.batches_from", gone)
    of_both = ("cannot-read", "cannot-read")
    found = audit(tmp_path, disk(SHORT), disk(SHORT, other_from=5), problems=of_both)
    assert "among offsets 0..11 are batches that are not the leader's" in found.row()["reason"]
    lagging = audit(tmp_path, disk([*SHORT, (2, 12, 12)]), replace(disk(SHORT), other_from=5), problems=of_both)
    assert lagging.verdict() == "lagging"


@pytest.mark.parametrize("written_since", ["shorter", "equal"])
def test_a_log_that_changes_between_the_reads_is_no_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written_since: str) -> None:
    """A running follower is cut, or gets the leader's batches, after its log was scanned."""
    Cluster(disks={1: disk(SHORT), 2: disk(SHORT, other_from=5)}, leader_epoch=2, isr=(1, 2)).audit(tmp_path, RULE)
    (home,) = tmp_path.iterdir()
    (theirs,) = (home / "broker-1" / "data-0" / f"{TOPIC}-0").glob("*.log")
    (own,) = (home / "broker-2" / "data-0" / f"{TOPIC}-0").glob("*.log")
    as_scanned = content.compare

    def after_the_scan(*given: object, **asked: object) -> object:
        own.write_bytes(theirs.read_bytes() if written_since == "equal" else own.read_bytes()[:90])
        return as_scanned(*given, **asked)  # type: ignore[arg-type]

    monkeypatch.setattr("replica_audit.partition.pairs.content.compare", after_the_scan)
    (row,) = in_process.audit(home)["replica_verdicts"]
    if written_since == "equal":
        assert row["verdict"] == "identical"
    else:
        assert "among offsets 0..11 are batches" in row["reason"], "the windows differed when they were scanned; no batch is named"


def test_a_log_that_became_shorter_is_not_another_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(disks={1: disk([*SHORT, (2, 12, 12)]), 2: disk(SHORT)}, leader_epoch=2, isr=(1, 2)).audit(tmp_path, RULE)
    (home,) = tmp_path.iterdir()
    (own,) = (home / "broker-2" / "data-0" / f"{TOPIC}-0").glob("*.log")
    as_scanned = content.compare

    def after_the_scan(*given: object, **asked: object) -> object:
        own.write_bytes(own.read_bytes()[:-30])
        return as_scanned(*given, **asked)  # type: ignore[arg-type]

    monkeypatch.setattr("replica_audit.partition.pairs.content.compare", after_the_scan)
    (row,) = in_process.audit(home)["replica_verdicts"]
    assert row["verdict"] == "lagging"


def counts(row: Row) -> list[tuple[str, int | None, int]]:
    return [(one["part"], one["lacking_id"], one["records"]) for one in row["differing_records"]]


class TestEveryRecord:
    """With `--compare records` all records that differ are counted, and the first ones kept."""

    @staticmethod
    def _rows(tmp_path: Path, *batches: bytes, compare: str = "records", show_keys: bool = False) -> tuple[Row, list[Row]]:
        with_follower(tmp_path, *batches)
        (home,) = tmp_path.iterdir()
        tables = in_process.audit(home, settings=Settings(compare=compare, show_keys=show_keys))  # type: ignore[arg-type]
        (row,) = tables["replica_verdicts"]
        return row, tables["differences"]

    OTHER = (kf.batch(0, 1, deltas=range(5)), kf.batch(5, 1, deltas=range(5), value=b"other"), kf.batch(10, 2, deltas=range(2), value=b"o"))

    def test_they_are_counted_by_what_differs(self, tmp_path: Path) -> None:
        row, found = self._rows(tmp_path, *self.OTHER)
        assert (row["verdict"], counts(row), row["records_unread"]) == ("content_mismatch", [("value", None, 7)], None)
        assert [(one["offset"], one["parts"]) for one in found] == [(offset, ["value"]) for offset in range(5, 12)]
        assert [found[0][side]["value_bytes"] for side in ("leader", "follower")] == [5, 5]
        assert found[0]["leader"]["key_hash"] == found[0]["follower"]["key_hash"]
        assert found[0]["leader"]["value_hash"] != found[0]["follower"]["value_hash"]

    def test_by_content_alone_they_are_not(self, tmp_path: Path) -> None:
        row, found = self._rows(tmp_path, *self.OTHER, compare="content")
        assert (row["verdict"], row["differing_records"], found) == ("content_mismatch", None, [])

    def test_other_batches_with_the_same_records_have_none(self, tmp_path: Path) -> None:
        split = [kf.batch(5, 1, deltas=range(2)), kf.batch(7, 1, deltas=range(3), timestamp=1_002)]
        row, found = self._rows(tmp_path, kf.batch(0, 1, deltas=range(5)), *split, kf.batch(10, 2, deltas=range(2)))
        assert (row["verdict"], counts(row), found) == ("rebatched", [], [])

    def test_equal_logs_are_not_read_for_them(self, tmp_path: Path) -> None:
        row, found = self._rows(tmp_path, *(kf.batch(first, epoch, deltas=range(last - first + 1)) for epoch, first, last in SHORT))
        assert (row["verdict"], row["differing_records"], found) == ("identical", None, [])

    def test_a_log_of_more_records_than_content_looks_at_is_read_to_its_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("replica_audit.protocol.comparison.content.MOST_RECORDS", 6)
        split = [kf.batch(5, 1, deltas=range(2)), kf.batch(7, 1, deltas=range(3), timestamp=1_002)]
        batches = (kf.batch(0, 1, deltas=range(5)), *split, kf.batch(10, 2, deltas=range(2), value=b"other"))
        row, _found = self._rows(tmp_path, *batches)
        assert (row["mismatch"]["kind"], counts(row)) == ("other_records", [("value", None, 2)])

    def test_explain_lists_them(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._rows(tmp_path, *self.OTHER)
        (home,) = tmp_path.iterdir()
        assert cli.main(["triage", "--input", str(home), "--compare", "records", "--partition", f"{TOPIC}-0"]) == 1
        told = " ".join(capsys.readouterr().out.split())
        assert "Records that differ - 7 records with another value - offset 5, not the same: value; leader" in told

    def test_a_segment_that_is_gone_meanwhile_leaves_the_verdict(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def gone(*_given: object) -> None:
            raise FileNotFoundError("gone")

        monkeypatch.setattr("replica_audit.stages.partitions.stored_batches", gone)
        row, found = self._rows(tmp_path, *self.OTHER, show_keys=True)
        assert (row["verdict"], row["differing_records"], found) == ("content_mismatch", None, [])

    def test_a_collection_has_no_records(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("replica_audit.collect.pace.lower_priority", lambda: None)
        Cluster(disks={1: disk(SHORT), 2: disk(SHORT, other_from=5)}, leader_epoch=2).audit(tmp_path, RULE)
        (home,) = tmp_path.iterdir()
        for broker in (1, 2):
            log_dirs = ["--log-dir", str(home / f"broker-{broker}" / "data-0")]
            assert cli.main(["collect", *log_dirs, "--output", str(tmp_path / "out")]) == 0
        (row,) = in_process.audit(tmp_path / "out", settings=Settings(compare="records"))["replica_verdicts"]
        assert (row["verdict"], row["differing_records"]) == ("content_mismatch", None)
        assert "headers of batches only" in row["records_unread"]
