"""Records compared from files to verdicts: planted differences, healthy near misses, and input that cannot be compared."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replica_audit import cli
from replica_audit.config import Settings
from replica_audit.engine import local_records
from replica_audit.engine.local_records import Buckets
from replica_audit.formats.segment.records import ROW, key_hash
from replica_audit.stages import records as stage
from tests.collect.collections import collect_cluster
from tests.formats import kafka_files as kf
from tests.formats import metadata_files as mf
from tests.formats import record_files as rf
from tests.support import in_process

RECORDS = Settings(compare="records", simultaneous_copies=True)
BASE, END = 1_000, 2_000  # of the segments of which the second is the active one
Batch = tuple[int, bytes, bytes | None]


def compacted(count: int = 20) -> list[Batch]:
    """The records that are left of so many keys, one each."""
    return [(at * 2, b"key-%d" % at, b"value-%d" % at) for at in range(count)]


def ahead() -> list[bytes]:
    """What stands in the segment behind the cleaner's end."""
    return [rf.batch(BASE + at, (b"other-%d" % at, b"x")) for at in range(4)]


def replica(root: Path, broker: int, records: Sequence[Batch], tail: Sequence[bytes] = (), *, batches: Sequence[bytes] = ()) -> Path:
    """A broker with one replica that was cleaned up to its second segment."""
    folder = root / f"broker-{broker}" / "data"
    made = [rf.batch(at, (key, value)) for at, key, value in records]
    path = kf.replica(folder, "state-0", batches=[*made, *batches])
    kf.segment(path, BASE, *(tail or ahead()))
    (folder / "cleaner-offset-checkpoint").write_bytes(kf.checkpoint([("state", 0, BASE)]))
    (folder / "meta.properties").write_bytes(kf.meta_properties(broker))
    return path


def audited(root: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    tables = in_process.audit(root, settings=RECORDS)
    (verdict,) = tables["replica_verdicts"]
    return verdict, tables["differences"]


def digits(key: bytes) -> str:
    return f"{key_hash(key)[0] % (1 << 64):016x}"


def test_a_missing_key_is_found_and_a_key_that_was_cleaned_further_is_not(tmp_path: Path) -> None:
    records = compacted()
    newer = rf.batch(BASE, (b"key-3", b"newer"))
    replica(tmp_path, 1, records, [newer])
    replica(tmp_path, 2, [one for one in records if one[1] not in (b"key-3", b"key-7")], [newer])
    verdict, rows = audited(tmp_path)
    (row,) = rows
    assert (row["cause"], row["broker_id"], row["key_hash"]) == ("key-missing-or-deleted", 2, digits(b"key-7"))
    held = row["leader"] if verdict["leader_id"] == 1 else row["follower"]
    assert (held["offset"], held["is_tombstone"]) == (14, False)
    assert verdict["verdict"] == "compaction_differs"
    assert verdict["severity"] == "error"
    assert verdict["differing_keys"] == [{"cause": "key-missing-or-deleted", "broker_id": 2, "keys": 1}]


def test_equal_keys_are_told_to_have_been_compared(tmp_path: Path) -> None:
    for broker in (1, 2):
        replica(tmp_path, broker, compacted())
    verdict, rows = audited(tmp_path)
    assert (verdict["verdict"], verdict["differing_keys"], rows) == ("identical", [], [])
    assert "compared record by record" in verdict["reason"]
    (verdict,) = in_process.audit(tmp_path, settings=Settings())["replica_verdicts"]
    assert verdict["differing_keys"] is None


def test_another_value_and_a_key_that_is_back(tmp_path: Path) -> None:
    records = compacted(4)
    replica(tmp_path, 1, [*records, (20, b"deleted", None)])
    replica(tmp_path, 2, [(0, b"key-0", b"other"), *records[1:], (10, b"deleted", b"back")])
    _verdict, rows = audited(tmp_path)
    assert {(row["cause"], row["key_hash"]) for row in rows} == {("other-value", digits(b"key-0")), ("key-resurrected", digits(b"deleted"))}


@pytest.mark.parametrize("ends_behind", [False, True], ids=["in its segment", "in the next"])
@pytest.mark.parametrize("key", [rf.COMMIT, rf.ABORT], ids=["commit", "abort"])
def test_a_transaction_counts_once_it_is_committed(tmp_path: Path, key: bytes, ends_behind: bool) -> None:
    """One replica has rid itself of what the transaction's records replace, or of the records of an aborted one."""
    old, written = rf.batch(1, (b"k", b"old")), rf.batch(100, (b"k", b"new"), producer_id=7)
    marker = [rf.control_batch(BASE if ends_behind else 101, key, producer_id=7)]
    tail = [*(marker if ends_behind else []), rf.batch(BASE + 1, (b"other", b"x"))]
    inside = [] if ends_behind else marker
    replica(tmp_path, 1, [], tail, batches=[old, written, *inside])
    replica(tmp_path, 2, [], tail, batches=[*([written] if key == rf.COMMIT else [old]), *inside])
    verdict, rows = audited(tmp_path)
    assert (verdict["verdict"], rows) == ("identical", [])


def _running(root: Path, broker: int, *segments: tuple[int, list[bytes]]) -> Path:
    """A replica of a broker that was not stopped, with these segments, cleaned up to the last one."""
    folder = root / f"broker-{broker}" / "data"
    path = kf.replica(folder, "state-0", batches=segments[0][1])
    for base, made in segments[1:]:
        kf.segment(path, base, *made)
    (folder / "cleaner-offset-checkpoint").write_bytes(kf.checkpoint([("state", 0, segments[-1][0])]))
    (folder / "meta.properties").write_bytes(kf.meta_properties(broker))
    return path


@pytest.mark.parametrize("ending", [rf.COMMIT, None], ids=["committed in the next segment", "open"])
def test_a_newer_record_beyond_the_end_counts_though_its_transaction_ends_in_another_segment(tmp_path: Path, ending: bytes | None) -> None:
    """The cleaner has removed the older record for its sake; a follower that is behind has neither."""
    old, other = rf.batch(10, (b"k", b"old")), rf.batch(30, (b"other", b"x"))
    written = rf.batch(50, (b"k", b"new"), producer_id=7)
    marker = [rf.control_batch(BASE, ending, producer_id=7)] if ending else []
    _running(tmp_path, 1, (0, [other, written]), (BASE, [*marker, rf.batch(BASE + 1, (b"last", b"x"))]))
    _running(tmp_path, 2, (0, [old, other]))
    verdict, rows = audited(tmp_path)
    assert (verdict["leader_id"], verdict["verdict"], rows) == (1, "lagging", [])


def test_a_key_whose_only_record_is_in_a_transaction_that_ends_in_another_segment_is_missed(tmp_path: Path) -> None:
    written, tail = rf.batch(50, (b"k", b"new"), producer_id=7), [rf.control_batch(BASE, rf.COMMIT, producer_id=7)]
    first = rf.batch(10, (b"other", b"x"))
    _running(tmp_path, 1, (0, [first, written]), (BASE, tail))
    _running(tmp_path, 2, (0, [first]), (BASE, tail))
    _verdict, (row,) = audited(tmp_path)
    assert (row["cause"], row["broker_id"], row["key_hash"]) == ("key-missing-or-deleted", 2, digits(b"k"))


def test_a_file_that_the_cleaner_replaced_under_the_copy_is_no_difference(tmp_path: Path) -> None:
    """Seen on brokers: the copy has the segment before the cleaner merged the next into it, which was gone when its turn came."""
    first, newer = rf.batch(10, (b"k", b"old")), rf.batch(100, (b"k", b"new"))
    last = [rf.batch(BASE, (b"other", b"x"))]
    _running(tmp_path, 1, (0, [first]), (BASE, last))
    _running(tmp_path, 2, (0, [first]), (100, [newer]), (BASE, last))
    copied_apart = in_process.audit(tmp_path, settings=Settings(compare="records"))
    assert not copied_apart["differences"]
    (verdict,) = copied_apart["replica_verdicts"]
    assert verdict["verdict"] == "identical"
    _verdict, (row,) = audited(tmp_path)  # of stopped brokers, or copied at one instant
    assert row["cause"] == "other-value"


def test_the_end_of_a_transaction_is_not_looked_for_behind_a_file_that_the_copy_may_lack(tmp_path: Path) -> None:
    """Seen on brokers (4.3.1): the file with the abort marker was merged away before its turn; the next marker is of a later commit."""
    older, written = rf.batch(10, (b"k", b"old")), rf.batch(50, (b"k", b"aborted"), producer_id=7)
    commit = rf.control_batch(BASE, rf.COMMIT, producer_id=7)
    _running(tmp_path, 1, (0, [older, rf.control_batch(60, rf.ABORT, producer_id=7)]), (BASE, [commit]))
    _running(tmp_path, 2, (0, [older]), (50, [written]), (BASE, [commit]))
    copied_apart = in_process.audit(tmp_path, settings=Settings(compare="records"))
    assert not copied_apart["differences"]
    assert [row["verdict"] for row in copied_apart["replica_verdicts"]] == ["identical"]
    _verdict, (row,) = audited(tmp_path)  # of stopped brokers, or copied at one instant
    assert (row["cause"], row["key_hash"]) == ("other-value", digits(b"k"))


def test_a_marker_that_is_gone_is_legal_where_its_retention_is_unknown(tmp_path: Path) -> None:
    replica(tmp_path, 1, compacted(), batches=[rf.control_batch(200, rf.COMMIT, producer_id=7)])
    replica(tmp_path, 2, compacted())
    assert audited(tmp_path)[0]["verdict"] == "identical"


class TestInputThatCannotBeCompared:
    def test_a_batch_that_cannot_be_decompressed(self, tmp_path: Path) -> None:
        broken = kf.sealed(rf.with_codec(rf.batch(100, (b"k", b"v")), "zstd", b"no zstd"))
        replica(tmp_path, 1, compacted(), batches=[broken])
        replica(tmp_path, 2, compacted(), batches=[broken])
        tables = in_process.audit(tmp_path, settings=RECORDS)
        (verdict,) = tables["replica_verdicts"]
        assert (verdict["verdict"], verdict["cause"]) == ("inconclusive", "records not compared")
        assert "offsets 100..100" in verdict["records_unread"]
        assert verdict["differing_keys"] is None
        assert {row["code"] for row in tables["input_errors"]} >= {"bad-records"}

    def test_a_segment_that_was_replaced_since(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for broker in (1, 2):
            replica(tmp_path, broker, compacted())
        real = stage.list_wanted

        def cleaned_meanwhile(*given: Any) -> Any:
            wanted = list(real(*given))
            kf.segment(tmp_path / "broker-2" / "data" / "state-0", 0, rf.batch(0, (b"key-0", b"value-0")))
            return wanted

        monkeypatch.setattr(local_records, "list_wanted", cleaned_meanwhile)
        tables = in_process.audit(tmp_path, settings=RECORDS)
        (verdict,) = tables["replica_verdicts"]
        assert verdict["cause"] == "records not compared"
        assert {row["code"] for row in tables["input_errors"]} >= {"changed"}

    def test_a_segment_that_is_gone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for broker in (1, 2):
            replica(tmp_path, broker, compacted())
        real = stage.list_wanted

        def removed_meanwhile(*given: Any) -> Any:
            wanted = list(real(*given))
            (tmp_path / "broker-2" / "data" / "state-0" / f"{0:020d}.log").unlink()
            return wanted

        monkeypatch.setattr(local_records, "list_wanted", removed_meanwhile)
        assert audited(tmp_path)[0]["cause"] == "records not compared"


class TestInputWithoutRecords:
    """Of collections nobody can compare records: the verdict is what `content` gives, and the run says what was not compared."""

    @staticmethod
    def collected(tmp_path: Path) -> Path:
        for broker in (1, 2):
            replica(tmp_path / "raw", broker, compacted())
        return collect_cluster(tmp_path / "raw", tmp_path / "collected")

    def test_the_verdict_is_that_of_the_content(self, tmp_path: Path) -> None:
        verdict, differences = audited(self.collected(tmp_path))
        assert (verdict["verdict"], verdict["severity"], verdict["cause"]) == ("consistent", "none", None)
        assert "batches only, not its records" in verdict["records_unread"]
        assert f"its records were not compared: {verdict['records_unread']}" in verdict["reason"]
        assert (verdict["differing_keys"], differences) == (None, [])

    def test_nor_where_only_one_of_the_two_is_a_collection(self, tmp_path: Path) -> None:
        root = self.collected(tmp_path)
        shutil.rmtree(root / "broker-2")
        shutil.copytree(tmp_path / "raw" / "broker-2", root / "broker-2")
        verdict, _ = audited(root)
        assert (verdict["verdict"], verdict["records_unread"] is None) == ("consistent", False)

    def test_no_earlier_difference_is_over_by_it(self, tmp_path: Path) -> None:
        tables = in_process.audit(self.collected(tmp_path), settings=RECORDS)
        (checked,) = tables["checked"]
        assert (checked["clean"], checked["same_records"]) == ([1, 2], [])

    def test_the_run_counts_it_and_is_not_clean(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        root, found = self.collected(tmp_path), tmp_path / "found.json"
        assert cli.main(["triage", "--input", str(root), "--compare", "records", "--json", str(found)]) == 3
        assert "records of 1 follower not compared: the input does not hold them" in " ".join(capsys.readouterr().out.split())
        assert json.loads(found.read_text())["clusters"][0]["records_unread"] == 1
        assert cli.main(["triage", "--input", str(root)]) == 3, "the leader is a guess"
        assert "records of 1 follower" not in " ".join(capsys.readouterr().out.split())

    def test_other_findings_stay_what_they_are(self, tmp_path: Path) -> None:
        replica(tmp_path / "raw", 1, compacted())
        replica(tmp_path / "raw", 2, compacted(), [*ahead()[:3], kf.batch(BASE + 3, 7)])
        verdict, _ = audited(collect_cluster(tmp_path / "raw", tmp_path / "collected"))
        assert verdict["severity"] != "none"


class TestBuckets:
    def test_they_change_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        records = compacted(400)
        replica(tmp_path, 1, records)
        replica(tmp_path, 2, records[30:])
        at_once = audited(tmp_path)
        monkeypatch.setattr(stage, "IN_BUCKET", 50)
        assert audited(tmp_path) == at_once
        assert at_once[0]["differing_keys"] == [{"cause": "key-missing-or-deleted", "broker_id": 2, "keys": 30}]

    def test_all_rows_come_back_once_by_their_keys(self) -> None:
        rows = np.arange(600, dtype=np.int64).reshape(100, len(ROW)) * 7919
        with Buckets(7) as buckets:
            buckets.add(1, rows[:50])
            buckets.add(1, rows[50:])
            buckets.add(2, rows)
            found = list(buckets)
        assert len(found) == 7
        for broker in (1, 2):
            back = np.concatenate([part[broker] for part in found if broker in part])
            assert sorted(back.tolist()) == rows.tolist()
        folders = [set(map(tuple, part[2].tolist())) for part in found if 2 in part]
        assert len(folders) > 1


def test_more_keys_than_are_kept_are_counted(tmp_path: Path) -> None:
    records = compacted(400)
    replica(tmp_path, 1, records)
    replica(tmp_path, 2, [])
    verdict, rows = audited(tmp_path)
    assert verdict["differing_keys"] == [{"cause": "key-missing-or-deleted", "broker_id": 2, "keys": 400}]
    assert len(rows) == 100
    assert {row["key_hash"] for row in rows} == {digits(key) for _at, key, _value in records[:100]}


class TestShownKeys:
    """Keys as text, only where that is asked for."""

    SHOWN = Settings(compare="records", simultaneous_copies=True, show_keys=True)

    @staticmethod
    def _two(root: Path) -> None:
        records: list[Batch] = [(0, b"customer-77", b"v"), (2, "\u00fc\n".encode(), b"v"), (4, b"\xff\x00", b"v"), (6, b"same", b"v")]
        marker = rf.control_batch(200, rf.COMMIT, producer_id=7)
        # two keys of one batch, which the other replica does not have
        both = rf.batch(10, (b"first", b"v"), (b"second", b"v"), codec="zstd")
        replica(root, 1, records, batches=[both, marker])
        replica(root, 2, [records[3], (8, b"of the follower", b"v")])

    def test_keys_are_text_if_asked_for(self, tmp_path: Path) -> None:
        self._two(tmp_path)
        tables = in_process.audit(tmp_path, settings=self.SHOWN)
        found = {row["key"]: row["broker_id"] for row in tables["differences"]}
        assert found == {**dict.fromkeys(("customer-77", "\u00fc\\n", "0xff00", "first", "second"), 2), "of the follower": 1}
        for row in tables["differences"]:
            if row["key"] in ("customer-77", "second"):
                assert row["key_hash"] == digits(row["key"].encode())

    def test_otherwise_no_key_is_anywhere(self, tmp_path: Path) -> None:
        self._two(tmp_path)
        tables = in_process.audit(tmp_path, settings=RECORDS)
        assert len(tables["differences"]) == 6
        assert not any(row["key"] for row in tables["differences"])
        told = repr(tables)
        assert not any(key in told for key in ("customer-77", "0xff00", "second", "of the follower"))

    def test_explain_has_them(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._two(tmp_path)
        command = ["triage", "--input", str(tmp_path), "--compare", "records", "--partition", "state-0"]
        assert cli.main([*command, "--show-keys"]) == 1
        shown = " ".join(capsys.readouterr().out.split())
        assert f"customer-77 ({digits(b'customer-77')}): key-missing-or-deleted on broker 2" in shown
        assert cli.main(command) == 1
        hidden = " ".join(capsys.readouterr().out.split())
        assert "customer-77" not in hidden
        assert f"{digits(b'customer-77')}: key-missing-or-deleted on broker 2" in hidden

    def test_a_key_that_is_no_longer_there_is_not_shown(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The cleaner replaces files under an audit: what stands there now may be another record."""
        self._two(tmp_path)
        compared = local_records.records_of

        def changed(*known: Any) -> Any:
            found = compared(*known)
            replica(tmp_path, 1, [(0, b"other", b"v")])
            return found

        monkeypatch.setattr("replica_audit.engine.local.records_of", changed)
        rows = in_process.audit(tmp_path, settings=self.SHOWN)["differences"]
        assert [row["key"] for row in rows if row["broker_id"] == 2] == [None] * 5
        assert [row["key"] for row in rows if row["broker_id"] == 1] == ["of the follower"]


class TestWhatProvesTime:
    """A tombstone that is gone, and a live key that is missing: what is proven of them depends on whose clock their times are of."""

    NOW = 4_000_000_000_000  # of the audit; the times of the records, by clients, lie years behind it
    YOUNG, OLD = NOW - 1_000, NOW - 90_000_000  # delete.retention.ms is a day

    @classmethod
    def _found(cls, root: Path, elected_at: int, *, first_leader: int = 1) -> dict[int, tuple[str, int]]:
        """By offset what is wrong where broker 2 lacks a live key and a tombstone of epoch 0, and the same of epoch 1."""
        made = [(0, b"first", b"v"), (40, b"a", b"v"), (42, b"b", None), (60, b"c", b"v"), (62, b"d", None)]
        for broker in (1, 2):
            held = [rf.batch(at, (key, value)) for at, key, value in made[: None if broker == 1 else 1]]
            held = [kf.with_field(one, ">i", 12, int(at >= 60)) for one, (at, _key, _value) in zip(held, made, strict=False)]
            path = replica(root, broker, [], [kf.with_field(one, ">i", 12, 1) for one in ahead()], batches=held)
            (path / "partition.metadata").write_bytes(kf.partition_metadata(mf.TOPIC_ID))
        configs = {"cleanup.policy": "compact", "delete.retention.ms": "86400000"}
        settings = [mf.record("CONFIG_RECORD", resourceType=2, resourceName="state", name=name, value=configs[name]) for name in configs]
        created = mf.partition(replicas=[1, 2], isr=[first_leader], leader=first_leader, leaderEpoch=0)
        folder = root / "broker-1" / "data" / "__cluster_metadata-0"
        first = mf.batch(0, 1, mf.topic("state"), created, *settings, timestamp=1)
        kf.segment(folder, 0, first, mf.batch(4, 1, mf.change(leader=1, isr=[1, 2]), timestamp=elected_at))
        facts = replace(in_process.audit_cluster(root, settings=RECORDS)[1], audited_at_ms=cls.NOW)
        tables = in_process.audit(root, facts, settings=RECORDS)
        assert not tables["problems"]
        return {row["leader"]["offset"]: (row["cause"], row["broker_id"]) for row in tables["differences"]}

    def test_an_election_proves_that_later_records_are_young(self, tmp_path: Path) -> None:
        """The leader was in the ISR all the time: it was sent every tombstone, so what it holds alone was lost."""
        young = {60: ("key-missing", 2), 62: ("tombstone-gone", 2)}
        assert self._found(tmp_path, self.YOUNG) == {40: ("key-missing", 2), **young}

    def test_an_old_election_proves_nothing_of_tombstones(self, tmp_path: Path) -> None:
        assert self._found(tmp_path, self.OLD) == {40: ("key-missing", 2), 60: ("key-missing", 2)}

    def test_a_leader_that_was_elected_uncleanly_may_have_missed_a_tombstone(self, tmp_path: Path) -> None:
        young = {60: ("key-missing", 2), 62: ("tombstone-gone", 2)}
        assert self._found(tmp_path, self.YOUNG, first_leader=2) == {40: ("key-missing-or-deleted", 2), **young}
