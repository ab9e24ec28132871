"""A compacted partition from which a cleaner took records: what its offsets prove, and what an election or a cut has to do with it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cases.shapes import COLLECTED, RAW, SHAPES, TEXT, Segments, audited, errors, filled, metadata, replica, shaped, verdicts
from tests.cases.triaged import seen
from tests.collect.collections import collect_cluster
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf
from tests.support.in_process import Row

CASES = Path(__file__).resolve().parents[1] / "data" / "cases"


def keyed(*keys: bytes, base: int = 0) -> bytes:
    """Batches of one record each; None of them where a key is empty."""
    held = (kf.with_field(rf.batch(base + at, (key, b"value of " + key)), ">i", 12, 3) for at, key in enumerate(keys) if key)
    return b"".join(held)


CLEANED = keyed(b"a", b"", b"c", b"", b"e")
ALSO_CLEANED = keyed(b"a", b"b", b"c", b"", b"e")  # the follower's cleaner has not come so far: `b` has a newer record
LOST_A_KEY = keyed(b"", b"", b"c", b"", b"e")  # `a` has none
REST = keyed(b"b", b"d", base=5)
_TRUNCATED = "[2026-06-01 10:00:00,000] INFO [UnifiedLog partition=t-0, dir=/data] Truncating to offset 6 (kafka.log.UnifiedLog)\n"


def cluster(root: Path, follower: bytes, *, shape: str, truncated: bool = False, to: Path) -> Path:
    for broker, first in ((1, CLEANED), (2, follower)):
        segments: Segments = {0: first, 5: REST}
        replica(root, broker, segments, reached=7, cleaner=5)
        (root / f"broker-{broker}" / "data" / ".kafka_cleanshutdown").touch()
    metadata(root, 1, [1, 2], policy="compact", down=[1, 2])
    found = shaped(root, shape, to)
    if truncated:
        logs = found / "broker-2" / "logs"
        logs.mkdir(exist_ok=True)
        (logs / "server.log").write_text(_TRUNCATED, encoding="utf-8")
    return found


def verdict(tables: dict[str, list[Row]]) -> Row:
    (row,) = tables["replica_verdicts"]
    return row


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("follower", [CLEANED, ALSO_CLEANED, LOST_A_KEY])
def test_offsets_alone_prove_no_keys(tmp_path: Path, follower: bytes, shape: str) -> None:
    found = audited(cluster(tmp_path / "raw", follower, shape=shape, to=tmp_path / "as"))
    assert not errors(found)
    assert (verdict(found)["verdict"], verdict(found)["keys_may_differ"]) == ("consistent", False)
    assert "keys not compared" in verdict(found)["reason"]


@pytest.mark.parametrize(("follower", "code"), [(CLEANED, "identical"), (ALSO_CLEANED, "identical"), (LOST_A_KEY, "compaction_differs")])
def test_records_prove_them(tmp_path: Path, follower: bytes, code: str) -> None:
    found = audited(cluster(tmp_path / "raw", follower, shape=RAW, to=tmp_path), compare="records")
    assert verdicts(found) == {2: code}
    assert verdict(found)["keys_may_differ"] is None


@pytest.mark.parametrize(("follower", "code"), [(CLEANED, "identical"), (ALSO_CLEANED, "identical"), (LOST_A_KEY, "compaction_differs")])
def test_few_records_of_what_a_truncation_touched_are_compared_unasked(tmp_path: Path, follower: bytes, code: str) -> None:
    found = audited(cluster(tmp_path / "raw", follower, shape=RAW, truncated=True, to=tmp_path))
    assert verdicts(found) == {2: code}


@pytest.mark.parametrize("shape", [COLLECTED, "text"])
def test_where_the_input_holds_no_records_a_truncation_leaves_a_doubt(tmp_path: Path, shape: str) -> None:
    found = verdict(audited(cluster(tmp_path / "raw", LOST_A_KEY, shape=shape, truncated=True, to=tmp_path / "as")))
    assert (found["verdict"], found["keys_may_differ"]) == ("consistent", True)
    assert found["reason"].endswith("an earlier truncation may have left replicas with other keys")


def test_where_records_are_many_they_are_not_read_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replica_audit.partition.audit.FEW_BYTES", 100)
    found = verdict(audited(cluster(tmp_path / "raw", LOST_A_KEY, shape=RAW, truncated=True, to=tmp_path)))
    assert (found["verdict"], found["keys_may_differ"]) == ("consistent", True)


def superseded(root: Path, table: Sequence[tuple[int, int]], *, left: bytes = b"") -> Path:
    """A leader whose cleaner left nothing, or `left`, below the end of its follower, which ends at 50 in epoch 6."""
    newest = kf.batch(70, 8, deltas=range(5))
    replica(root, 1, {0: left, 70: newest}, reached=75, table=table, cleaner=70)
    replica(root, 2, {0: filled(0, 30, epoch=2) + filled(30, 20, epoch=6)}, reached=50, table=[(2, 0), (6, 30)])
    return metadata(root, 1, [1, 2], isr=[1], policy="compact", epoch=8, down=[2])


@pytest.mark.parametrize(
    ("table", "shape", "code"),
    [
        pytest.param([(2, 0), (6, 30), (8, 60)], RAW, "lagging", id="its table has the follower's epoch, and the keys are compared"),
        pytest.param([(2, 0), (6, 30), (8, 60)], COLLECTED, "consistent", id="so it has where it was collected"),
        pytest.param([(2, 0), (8, 20)], RAW, "stale_tail", id="its table shows another epoch"),
        pytest.param([(2, 0), (6, 30), (8, 60)], TEXT, "inconclusive", id="text has no table"),
        pytest.param([(2, 0), (8, 20)], TEXT, "inconclusive", id="text has none that would show a cut"),
    ],
)
def test_without_a_batch_in_common_only_a_table_tells(tmp_path: Path, table: Sequence[tuple[int, int]], shape: str, code: str) -> None:
    found = audited(shaped(superseded(tmp_path / "raw", table), shape, tmp_path / "as"))
    assert verdicts(found) == {2: code}


@pytest.mark.parametrize(
    ("left", "code"),
    [
        pytest.param(filled(0, 10, epoch=2), "inconclusive", id="of another epoch"),
        pytest.param(filled(30, 10, epoch=6), "inconclusive", id="of the epoch, and short of the end"),
        pytest.param(filled(40, 20, epoch=6), "consistent", id="of the epoch, up to the end and beyond"),
    ],
)
def test_text_tells_as_much_as_is_left(tmp_path: Path, left: bytes, code: str) -> None:
    root = superseded(tmp_path / "raw", [(2, 0), (6, 30), (8, 60)], left=left)
    assert verdicts(audited(shaped(root, TEXT, tmp_path / "as"))) == {2: code}


def test_keys_of_a_segment_that_is_empty_are_compared_unasked() -> None:
    """A cleaner may have emptied it, but not of keys that a follower still has."""
    found = audited(CASES / "22c-leader-all-empty")
    assert verdicts(found) == {3: "compaction_differs"}


def test_keys_of_a_segment_that_is_empty_are_in_doubt_where_they_are_not_in_the_input(tmp_path: Path) -> None:
    """Collections have no records: the follower, cleaned as far, holds batches where the leader's segment is empty."""
    root = shutil.copytree(CASES / "22c-leader-all-empty", tmp_path / "raw")
    found = seen(collect_cluster(root, tmp_path / "collected"))
    assert (found.exit_code, found.verdicts()) == (3, {3: "consistent"})
    (root / "broker-1" / "cleaner-offset-checkpoint").write_bytes(kf.checkpoint([("bal", 0, 120)]))
    assert seen(collect_cluster(root, tmp_path / "later")).exit_code == 0, "the leader's cleaner went on alone"
