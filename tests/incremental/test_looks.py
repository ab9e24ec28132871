"""How replica directories look: what a listing or a scan would find other is another look, and nothing else is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replica_audit.formats.collection.collected_rows import DIGESTED, OF_COLLECTING, ROWS
from replica_audit.formats.collection.collection_manifest import MANIFEST, read
from replica_audit.formats.collection.row_digests import row_digests
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.model import PartitionLook, ReplicaFiles
from tests.collect.collections import as_version_1, resealed
from tests.collect.nights import at_rest, taken
from tests.formats import kafka_files as kf
from tests.formats.packed_dumps import section

LONG_AGO_NS = 1_700_000_000_000_000_000


def looks(folder: Path) -> dict[str, str | None]:
    """The identities of a broker's replicas, by directory; the same whether or not anything is read."""
    read, only = (
        {one.look.directory or "": one.look.identity for one in found if isinstance(one, PartitionLook)}
        for found in (replicas_of(folder, looks=True), replicas_of(folder, looks=True, wanted=lambda _topic, _partition: False))
    )
    assert read == only
    return read


def aged(folder: Path) -> Path:
    for path in folder.rglob("*"):
        if path.is_file() and path.stat().st_mtime_ns > LONG_AGO_NS + 10**15:
            os.utime(path, ns=(0, LONG_AGO_NS))
    return folder


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    kf.log_dir(tmp_path / "broker-1" / "data", "orders-0", "orders-1")
    return aged(tmp_path / "broker-1")


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    os.utime(path, ns=(0, LONG_AGO_NS + 1))


def _later(path: Path) -> None:
    os.utime(path, ns=(0, LONG_AGO_NS + 1))


def _another_file(path: Path) -> None:
    shutil.copy2(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


RAW: dict[str, Callable[[Path], object]] = {
    "a segment grows": lambda data: _write(data / "orders-0" / f"{0:020d}.log", kf.batch(0, 0) + kf.batch(1, 0) + kf.batch(2, 0)),
    "a segment has another time": lambda data: _later(data / "orders-0" / f"{0:020d}.log"),
    "a segment is another file": lambda data: _another_file(data / "orders-0" / f"{0:020d}.log"),
    "a segment more": lambda data: _write(data / "orders-0" / f"{2:020d}.log", b""),
    "a segment is gone": lambda data: (data / "orders-0" / f"{0:020d}.log").unlink(),
    "an epoch checkpoint": lambda data: _write(data / "orders-0" / "leader-epoch-checkpoint", kf.checkpoint([(0, 0), (1, 1)])),
    "no epoch checkpoint": lambda data: (data / "orders-0" / "leader-epoch-checkpoint").unlink(),
    "a topic id": lambda data: _write(data / "orders-0" / "partition.metadata", kf.partition_metadata("A" * 22)),
    "a producer snapshot": lambda data: _write(data / "orders-0" / f"{2:020d}.snapshot", b"snapshot"),
    "its high watermark": lambda data: _write(data / "replication-offset-checkpoint", kf.checkpoint([("orders", 0, 1), ("orders", 1, 2)])),
    "its recovery point": lambda data: _write(data / "recovery-point-offset-checkpoint", kf.checkpoint([("orders", 0, 1)])),
    "its log start": lambda data: _write(data / "log-start-offset-checkpoint", kf.checkpoint([("orders", 0, 1)])),
    "its cleaner offset": lambda data: _write(data / "cleaner-offset-checkpoint", kf.checkpoint([("orders", 0, 1)])),
    "high watermarks that cannot be read": lambda data: _write(data / "replication-offset-checkpoint", b"nonsense"),
    "a clean stop": lambda data: _write(data / ".kafka_cleanshutdown", b'{"version":0,"brokerEpoch":7}'),
    "a lock": lambda data: _write(data / ".lock", b""),
}
BOTH = {"high watermarks that cannot be read", "a clean stop", "a lock", "its recovery point", "its log start", "its cleaner offset"}


@pytest.mark.parametrize("what", RAW)
def test_a_change_of_a_log_directory_is_another_look(broker: Path, what: str) -> None:
    before = looks(broker)
    assert None not in before.values()
    RAW[what](broker / "data")
    after = looks(broker)
    assert after["orders-0"] != before["orders-0"]
    if what not in BOTH:
        assert after["orders-1"] == before["orders-1"], "the other replica has nothing to do with it"


def test_nothing_changed(broker: Path) -> None:
    before = looks(broker)
    (broker / "data" / "orders-0" / f"{0:020d}.log").read_bytes()
    _write(broker / "data" / "orders-0" / f"{0:020d}.index", b"x")
    _write(broker / "data" / "orders-1" / f"{0:020d}.index", b"x")
    with_index = looks(broker)
    _write(broker / "data" / "orders-0" / f"{0:020d}.index", b"another")
    assert looks(broker) == with_index, "what an index holds is never read"
    assert before.keys() == with_index.keys()


def test_an_index_that_appears_counts_as_a_name(broker: Path) -> None:
    before = looks(broker)
    _write(broker / "data" / "orders-0" / f"{0:020d}.index", b"x")
    after = looks(broker)
    assert after["orders-0"] != before["orders-0"]
    assert after["orders-1"] == before["orders-1"]


def test_the_last_small_file_of_a_log_directory_is_gone(broker: Path) -> None:
    """Then none was copied, and no checkpoint is missing: what that says of the other replica is another thing."""
    for name in ("leader-epoch-checkpoint", "partition.metadata"):
        (broker / "data" / "orders-1" / name).unlink()
    (broker / "data" / "orders-0" / "partition.metadata").unlink()
    before = looks(broker)
    (broker / "data" / "orders-0" / "leader-epoch-checkpoint").unlink()
    after = looks(broker)
    assert after["orders-1"] != before["orders-1"]


def test_a_file_that_is_being_written_is_not_known(broker: Path) -> None:
    (broker / "data" / "orders-0" / f"{0:020d}.log").write_bytes(kf.batch(0, 0))
    after = looks(broker)
    assert after["orders-0"] is None
    assert after["orders-1"] is not None


def test_a_text_may_tell_of_any_replica(broker: Path) -> None:
    (broker / "orders-0.txt").write_bytes(section(0))
    assert set(looks(aged(broker)).values()) == {None}


def test_only_wanted_replicas_are_read_and_problems_stay(broker: Path) -> None:
    (broker / "data" / "orders-0" / "folder").mkdir()
    (broker / "something").write_text("else")
    everything = list(replicas_of(broker))
    some = list(replicas_of(broker, wanted=lambda _topic, partition: partition == 1))
    assert [one.directory for one in some if isinstance(one, ReplicaFiles)] == ["orders-1"]
    assert [one for one in some if isinstance(one, ReplicaFiles)] == [
        one for one in everything if isinstance(one, ReplicaFiles) and one.directory == "orders-1"
    ]
    left = [one for one in some if not isinstance(one, ReplicaFiles)]
    assert left == [one for one in everything if not isinstance(one, ReplicaFiles)]
    assert left


@pytest.fixture
def collected(tmp_path: Path) -> Iterator[Path]:
    kf.log_dir(tmp_path / "data", "orders-0", "orders-1")
    with at_rest():
        yield taken(tmp_path / "data", tmp_path / "first").folder


def test_a_collection_looks_the_same_wherever_it_lies_and_whenever_it_was_made(tmp_path: Path, collected: Path) -> None:
    before = looks(collected)
    assert None not in before.values()
    shutil.copytree(collected, tmp_path / "elsewhere")
    assert looks(tmp_path / "elsewhere") == before
    again = taken(tmp_path / "data", tmp_path / "second", since=collected)
    assert again.manifest.started_at_ms > 0
    assert looks(again.folder) == before


COLLECTED: dict[str, Callable[[Path], object]] = {
    "a segment rots": lambda data: _write(data / "orders-0" / f"{0:020d}.log", kf.batch(0, 0) + kf.batch(1, 0, value=b"VALUE")),
    "a segment grows": RAW["a segment grows"],
    "an epoch checkpoint": RAW["an epoch checkpoint"],
    "a topic id": RAW["a topic id"],
    "its high watermark": RAW["its high watermark"],
}


@pytest.mark.parametrize("what", COLLECTED)
def test_a_change_on_the_broker_is_another_look_of_its_collection(tmp_path: Path, collected: Path, what: str) -> None:
    before = looks(collected)
    COLLECTED[what](tmp_path / "data")
    after = looks(taken(tmp_path / "data", tmp_path / "second", since=collected).folder)
    assert after["orders-0"] != before["orders-0"]
    assert after["orders-1"] == before["orders-1"]


def test_nothing_is_known_of_a_collection_of_an_earlier_release(collected: Path) -> None:
    """It tells no digests, so all of it is read every time."""
    assert set(looks(as_version_1(collected)).values()) == {None}


def test_a_digest_in_a_manifest_of_an_earlier_release_counts_for_nothing(collected: Path) -> None:
    """Its small files are files of their own, which no checksum is of."""
    digests = {one.directory: one.digest for one in read(collected / MANIFEST).log_dirs[0].replicas}
    document = json.loads((as_version_1(collected) / MANIFEST).read_text())
    for replica in document["log_dirs"][0]["replicas"]:
        replica["digest"] = digests[replica["directory"]]
    (collected / MANIFEST).write_bytes(resealed(document))
    assert set(looks(collected).values()) == {None}


def test_a_batch_index_that_is_gone_is_another_look(collected: Path) -> None:
    before = looks(collected)
    next(collected.glob("*/batches/orders-0/*.parquet")).unlink()
    after = looks(collected)
    assert (after["orders-0"] == before["orders-0"], after["orders-1"] == before["orders-1"]) == (False, True)


@pytest.mark.parametrize("change", [Path.unlink, lambda copy: copy.write_bytes(copy.read_bytes()[:-1])], ids=["gone", "cut off"])
def test_a_copy_of_a_segment_that_is_not_whole_is_another_look(tmp_path: Path, change: Callable[[Path], object]) -> None:
    kf.log_dir(tmp_path / "data", "orders-0", "__consumer_offsets-0")
    with at_rest():
        folder = taken(tmp_path / "data", tmp_path / "first").folder
    before = looks(folder)
    change(next(folder.glob("*/__consumer_offsets-0/*.log")))
    after = looks(folder)
    assert after["__consumer_offsets-0"] != before["__consumer_offsets-0"]
    assert after["orders-0"] == before["orders-0"]


def _changed(value: object) -> object:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return f"{value}x"
        case list():
            return [*value[:-1], _changed(value[-1])] if value else value
        case dict():
            name = next((name for name, one in value.items() if one not in (None, [])), None)
            return value if name is None else {**value, name: _changed(value[name])}
    return 1


def test_every_column_of_a_row_is_in_its_digest(collected: Path) -> None:
    rows = pq.read_table(next(collected.glob("*/segments.parquet")))
    rows = rows.cast(pa.schema([ROWS.field(name) for name in rows.schema.names]))
    first = rows.slice(0, 1).to_pylist()[0]
    first["problems"] = [dict.fromkeys(("path", "kind", "code", "detail", "remedy"), "x") | {"line": 1, "byte_offset": None}]

    def digest(row: dict[str, object]) -> int:
        return row_digests(pa.RecordBatch.from_pylist([row], schema=rows.schema))[0]

    whole = digest(first)
    assert set(DIGESTED) == set(ROWS.names) - {"capture"} - set(OF_COLLECTING)
    for name in DIGESTED:
        changed = _changed(first[name])
        assert changed != first[name], name
        assert digest({**first, name: changed}) != whole, name
        if first[name] is not None:
            assert digest({**first, name: None}) != whole, name


def test_digests_of_lists_depend_on_order_and_length() -> None:
    def digests(lists: list[list[int] | None]) -> list[int]:
        return row_digests(pa.RecordBatch.from_pydict({"a": pa.array(lists, pa.list_(pa.int64()))}))

    made = digests([[1, 2], [2, 1], [1], [], None, [1, 2, 0], [0]])
    assert len(set(made)) == len(made)
    assert digests([[5], [1, 2], []])[1] == made[0], "it does not depend on the rows around it"
    assert digests([[], None])[:2] == made[3:5]
    sliced = pa.RecordBatch.from_pydict({"a": pa.array([[9], [1, 2], [3]], pa.list_(pa.int64()))}).slice(1, 1)
    assert row_digests(sliced) == [made[0]]
