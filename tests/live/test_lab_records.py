"""What the laboratory reads and plants: records round trip, keys are those that Kafka left, planted differences are there. No broker."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from replica_audit.config import Settings
from tests.kafka_lab.files import replica_directories
from tests.kafka_lab.found import by_follower, not_found
from tests.kafka_lab.keys import Newest, apart, newest
from tests.kafka_lab.planted_records import EQUAL_RECORDS, OF_COMPACTED, Kind, Planted, plant
from tests.kafka_lab.records import Record, RecordBatch, batches_of, decoded
from tests.support import in_process

ROOT = Path(__file__).resolve().parents[2]
_SAMPLES = ROOT / "tests" / "data" / "sample"
_KEY_LOSS = ROOT.parent / "shared" / "clusters" / "compacted-key-loss"
needs_shared = pytest.mark.skipif(not _KEY_LOSS.is_dir(), reason="../shared/clusters is not beside the project")
_NOW_MS, _RETENTION_MS = 100_000, 60_000
_TRANSACTIONAL, _CONTROL = 0x10, 0x30
_ABORT, _COMMIT = b"\0\0\0\0", b"\0\0\0\1"


def _batch(
    base: int, *records: tuple[int, bytes | None, bytes | None], last: int | None = None, flags: int = 0, producer: int = -1
) -> RecordBatch:
    made = tuple(Record(delta, 0, key, value) for delta, key, value in records)
    delta = last if last is not None else records[-1][0]
    return RecordBatch(base, 3, flags, delta, _NOW_MS - 1000, _NOW_MS - 1000, producer, 0 if producer >= 0 else -1, -1, made)


_LOG = (
    _batch(0, (0, b"first", b"value")),
    _batch(1, (0, b"live", b"value"), (3, b"other", b"value"), last=4),
    _batch(6, (0, b"deleted", None)),
    _batch(7, (0, b"in a transaction", b"value"), (1, b"live too", b"value"), flags=_TRANSACTIONAL, producer=9),
    _batch(9, (0, _COMMIT, b"\0\0\0\0\0\0"), flags=_CONTROL, producer=9),
    _batch(10, (0, b"x", b"value"), (1, b"y", b"value"), (2, b"z", b"value")),
    _batch(13, (0, b"of the next one", b"value"), flags=_TRANSACTIONAL, producer=9),
    _batch(14, (0, _COMMIT, b"\0\0\0\0\0\0"), flags=_CONTROL, producer=9),
    _batch(15, (0, b"last", b"value")),
)


def test_what_is_decoded_is_encoded_to_the_same_bytes() -> None:
    compared = 0
    for segment in sorted(_SAMPLES.glob("*/broker-*/**/*.log")):
        content = segment.read_bytes()
        for begin, end, batch in decoded(content):
            if batch.codec == "none":
                assert batch.encoded() == content[begin:end]
            elif batch.codec != "snappy":
                ((_, _, again),) = decoded(batch.encoded())
                assert again == batch
            compared += 1
    assert compared > 100


def test_the_newest_of_a_key_is_that_of_committed_records() -> None:
    aborted = replace(_LOG[4], records=(Record(0, 0, _ABORT, b"\0\0\0\0\0\0"),))
    assert newest(_LOG)[b"live too"] == Newest(8, _NOW_MS - 1000, b"value")
    assert newest(_LOG)[b"deleted"].value is None
    assert b"live too" not in newest([*_LOG[:4], aborted, *_LOG[5:]])
    assert b"live too" not in newest([*_LOG[:4], *_LOG[5:7]])
    assert b"live too" in newest([*_LOG[:4], *_LOG[5:]]), "the next marker ends it"


@needs_shared
def test_keys_that_real_brokers_lost_are_apart() -> None:
    """The brokers of that cluster were asked for their keys; before, the two logs held the same ones."""
    directories = replica_directories(_KEY_LOSS / "after")
    for name, told in json.loads((_KEY_LOSS / "key-state.json").read_text()).items():
        topic, _, partition = name.rpartition("-")
        one, two = (newest(batches_of(directories[topic, int(partition), broker])) for broker in (1, 2))
        missing = {key.encode() for key in told["replicas"]["1"]["keys_missing_that_the_leader_has"]}
        assert missing
        assert apart(one, two, expired_ms=0).keys() == missing
        assert not apart(two, two, expired_ms=0)


def test_a_tombstone_may_be_gone_only_when_it_has_expired() -> None:
    tombstone = {b"key": Newest(5, 1000, None)}
    assert apart(tombstone, {}, expired_ms=999)
    assert not apart(tombstone, {}, expired_ms=1000)
    assert apart(tombstone, {b"key": Newest(3, 900, b"value")}, expired_ms=1000)


def _cluster(root: Path, topic: str) -> dict[tuple[str, int, int], Path]:
    for broker in (1, 2):
        directory = root / f"broker-{broker}" / "data-0" / f"{topic}-0"
        directory.mkdir(parents=True)
        (directory / f"{0:020d}.log").write_bytes(b"".join(batch.encoded() for batch in _LOG))
        (directory.parent / "cleaner-offset-checkpoint").write_text(f"0\n1\n{topic} 0 13\n")
    return replica_directories(root)


@pytest.mark.parametrize("kind", Kind)
def test_what_is_planted_is_there_and_nothing_else(tmp_path: Path, kind: Kind) -> None:
    directories = _cluster(tmp_path, "table")
    follower, leader = directories["table", 0, 2], directories["table", 0, 1]
    retention = {"table": 500 if kind is Kind.OLD_KEY_MISSING else _RETENTION_MS} if kind in OF_COMPACTED else {}
    pairs, chance = {("table", 0, 2): 1}, random.Random(kind)  # noqa: S311
    made = plant(tmp_path, pairs, chance, kind, retention_ms=retention, copied_ms=_NOW_MS, audited_ms=_NOW_MS)
    assert made
    assert made.at == ("table", 0, 2)
    assert batches_of(leader) == list(_LOG)
    differing = apart(newest(batches_of(follower)), newest(_LOG), expired_ms=0)
    records = [(batch.base + record.delta, record.key, record.value) for batch in batches_of(follower) for record in batch.records]
    others = [(batch.base + record.delta, record.key, record.value) for batch in _LOG for record in batch.records]
    if kind in EQUAL_RECORDS:
        assert records == others
        assert batches_of(follower) != list(_LOG)
    elif kind is Kind.MARKER_GONE:
        assert [one for one in others if one not in records] == [(made.offset, _COMMIT, b"\0\0\0\0\0\0")]
    else:
        assert differing.keys() == {made.record_key}
        ours, theirs = differing[made.record_key or b""]
        assert theirs
        assert theirs.offset == made.offset
        expected = {Kind.KEY_MISSING: None, Kind.OLD_KEY_MISSING: None, Kind.TOMBSTONE_GONE: None, Kind.KEY_RESURRECTED: b"back again"}
        if kind in expected:
            assert (ours and ours.value) == expected[kind]
        else:
            assert ours
            assert ours.offset == made.offset
            assert ours.value != theirs.value


def test_a_difference_is_not_planted_where_it_would_be_legal(tmp_path: Path) -> None:
    """The tombstone and the marker have expired; and nothing is cleaned above the checkpoint."""
    directories = _cluster(tmp_path, "table")
    chance, pairs = random.Random(1), {("table", 0, 2): 1}  # noqa: S311
    times = {"copied_ms": _NOW_MS, "audited_ms": _NOW_MS}
    for kind in (Kind.TOMBSTONE_GONE, Kind.MARKER_GONE, Kind.KEY_MISSING):
        assert not plant(tmp_path, pairs, chance, kind, retention_ms={"table": 1}, **times)
    assert not plant(tmp_path, pairs, chance, Kind.OLD_KEY_MISSING, retention_ms={"table": _RETENTION_MS}, **times)
    (directories["table", 0, 2].parent / "cleaner-offset-checkpoint").write_text("0\n0\n")
    for kind in OF_COMPACTED:
        assert not plant(tmp_path, pairs, chance, kind, retention_ms={"table": _RETENTION_MS}, **times)


@pytest.mark.parametrize("kind", [Kind.FLIPPED, Kind.SPLIT, Kind.RECOMPRESSED])
def test_what_is_planted_and_not_found_there_is_told(tmp_path: Path, kind: Kind) -> None:
    root = tmp_path / "copy"
    shutil.copytree(_SAMPLES / "clean-in-sync", root)
    before = in_process.audit(root)
    pairs = {key: row["leader_id"] for key, row in by_follower(before).items() if key[0] not in ("compacted", "__cluster_metadata")}
    made = plant(root, pairs, random.Random(1), kind, retention_ms={}, copied_ms=_NOW_MS, audited_ms=_NOW_MS)  # noqa: S311
    assert made
    after = in_process.audit(root)
    assert not list(not_found([made], before, after))
    for planted, now in (([replace(made, offset=made.offset + 1)], after), ([made], before), ([], after)):
        assert len(list(not_found(planted, before, now))) == 1


@needs_shared
def test_a_difference_of_keys_that_is_not_the_planted_one_is_told() -> None:
    """Of the brokers that lost keys, as if one of them had been planted there: cause, broker, offset and number must be right."""
    after = in_process.audit(_KEY_LOSS / "after", settings=Settings(compare="records"))
    key, row = next(iter(by_follower(after).items()))
    rows = [one for one in after["compaction_differences"] if (one["topic"], one["partition"], one["follower_id"]) == key]
    alone = {"replica_verdicts": [row], "compaction_differences": rows[:1]}
    planted = Planted(Kind.OLD_KEY_MISSING, key, rows[0]["leader"]["offset"], None)
    assert not list(not_found([planted], alone, alone))
    wrong = [replace(planted, kind=Kind.KEY_MISSING), replace(planted, offset=planted.offset + 1)]
    assert all(len(list(not_found([one], alone, alone))) == 1 for one in wrong)
    for others in (rows[:2], [], [rows[0] | {"broker_id": 7}]):
        assert len(list(not_found([planted], alone, alone | {"compaction_differences": others}))) == 1
