"""Files of a collection that somebody made up: right by the manifest's size and checksum, and yet no scans."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import crc32c
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replica_audit.collect.previous_rows import PreviousRows
from replica_audit.formats.collection import collected_rows
from replica_audit.formats.collection.broker_folder import log_dirs_of
from replica_audit.formats.collection.collected_rows import ROWS, SMALL_FILE_ROWS
from replica_audit.formats.collection.manifest import MANIFEST, SEGMENTS_FILE, SMALL_FILES_FILE
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.formats.segment.batch_index import read_index
from replica_audit.formats.values import producers_row
from replica_audit.model import Problem, Producers, ReplicaFiles, ScannedSegment, SequenceGap
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.protocol.transactions.producer_spans import of_batch
from replica_audit.stages.items import CollectedReading, Item
from replica_audit.stages.segments import scan
from tests.collect.collections import collect_broker, resealed

SAMPLE = Path(__file__).parents[1] / "data" / "sample" / "committed-loss" / "broker-1"
Row = dict[str, Any]
RUN = {"leader_epoch": 0, "first_offset": 0, "last_offset": 3, "batch_count": 1, "record_count": 4, "size_bytes": 90}
RUN |= {"min_timestamp_ms": 0, "max_timestamp_ms": 0, "magic": 2, "intact": True}
SPAN = of_batch(7, 0, 0, 0, 0, 1, 1_000, 0, 0)
GAP = SequenceGap(7, 0, 1, 0, 0, 1, 5, 4, 1_000, 1_000)
PROBLEM = {"path": None, "kind": "segment", "code": "c", "detail": "d", "remedy": "r", "line": None, "byte_offset": None}


@pytest.fixture
def collected(tmp_path: Path) -> Path:
    """A collection of one broker; returns its `segments.parquet`."""
    collect_broker(SAMPLE, tmp_path)
    (store,) = tmp_path.rglob(SEGMENTS_FILE)
    return store


def forge(store: Path, content: bytes) -> None:
    """Put a file in the place of the scans, and have the manifest vouch for it."""
    store.write_bytes(content)
    path = store.parent.parent / MANIFEST
    manifest = json.loads(path.read_bytes())
    manifest["log_dirs"][0] |= {"segments_bytes": len(content), "segments_crc32c": crc32c.crc32c(content)}
    path.write_bytes(resealed(manifest))


def rewritten(store: Path, change: Callable[[Row], None], schema: pa.Schema = ROWS) -> None:
    rows = pq.read_table(store).to_pylist()
    for row in rows:
        change(row)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    forge(store, sink.getvalue().to_pybytes())


def listed(store: Path) -> tuple[list[ReplicaFiles], list[Problem]]:
    found = list(replicas_of(store.parent.parent))
    return [one for one in found if isinstance(one, ReplicaFiles)], [one for one in found if isinstance(one, Problem)]


def scans(store: Path) -> list[Row]:
    _manifest, found = log_dirs_of(store.parent.parent)
    (log_dir,) = found.values()
    directories = tuple(replica.directory for replica in log_dir.said.replicas)
    reading = CollectedReading(scans=str(store), log_dir=log_dir.said.path, directories=directories)
    made = (item.value for item in scan(Item("c", None, None, 1, reading), CompareMode.CONTENT))
    return [{**asdict(one), "producers": one.segment.producers} for one in made if isinstance(one, ScannedSegment)]


OTHER_TYPE = pa.schema([pa.field("base_offset", pa.string()) if field.name == "base_offset" else field for field in ROWS])


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(lambda _whole: b"", id="empty"),
        pytest.param(lambda _whole: b"PAR1" * 40, id="not Parquet"),
        pytest.param(lambda whole: whole[: len(whole) // 2], id="cut"),
        pytest.param(lambda whole: bytes(len(whole)), id="zeros"),
    ],
)
def test_what_is_no_parquet_file_is_a_problem_with_its_path(collected: Path, content: Callable[[bytes], bytes]):
    forge(collected, content(collected.read_bytes()))
    replicas, problems = listed(collected)
    assert replicas == []
    (problem,) = problems
    assert (problem.code, problem.kind) == ("incomplete-collection", "collection")
    assert problem.path.endswith(SEGMENTS_FILE)
    assert problem.detail.startswith("not what collect wrote: ")
    assert "\n" not in problem.detail
    assert problem.remedy


@pytest.mark.parametrize("what", ["replicas", "log_dirs"])
def test_two_of_one_name_are_refused(collected: Path, what: str):
    path = collected.parent.parent / MANIFEST
    manifest = json.loads(path.read_bytes())
    named = manifest["log_dirs"] if what == "log_dirs" else manifest["log_dirs"][0]["replicas"]
    named.append({**named[0], "files": []})
    path.write_bytes(resealed(manifest))
    found = list(replicas_of(path.parent))
    told = next(one for one in found if isinstance(one, Problem))
    assert told.code == "malformed"
    assert " twice" in told.detail
    assert not any(isinstance(one, ReplicaFiles) for one in found)


def test_a_copy_that_ended_before_the_rows_is_told(collected: Path):
    collected.unlink()
    (collected.parent.parent / MANIFEST).unlink()
    replicas, problems = listed(collected)
    assert replicas == []
    assert [problem.code for problem in problems] == ["incomplete-collection"]


_LISTED = """
import sys
from pathlib import Path
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.formats.values import producers_row
from replica_audit.model import Problem, ReplicaFiles
found = list(replicas_of(Path(sys.argv[1])))
counts = [sum(isinstance(one, kind) for one in found) for kind in (ReplicaFiles, Problem)]
(most,) = [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print(*counts, most)
"""


def _small_files(store: Path, change: Callable[[list[Row]], object], schema: pa.Schema = SMALL_FILE_ROWS) -> None:
    """Change the rows of `small-files.parquet`, and have the manifest vouch for it."""
    rows = pq.read_table(store.with_name(SMALL_FILES_FILE)).to_pylist()
    change(rows)
    _vouched(store, pa.Table.from_pylist(rows, schema=schema))


def _vouched(store: Path, rows: pa.Table) -> None:
    small = store.with_name(SMALL_FILES_FILE)
    pq.write_table(rows, small, store_schema=False)  # else Arrow remembers what was a dictionary
    manifest = json.loads((store.parent.parent / MANIFEST).read_bytes())
    content = small.read_bytes()
    manifest["log_dirs"][0] |= {"small_files_bytes": len(content), "small_files_crc32c": crc32c.crc32c(content)}
    (store.parent.parent / MANIFEST).write_bytes(resealed(manifest))


@pytest.mark.parametrize(
    ("change", "schema"),
    [
        pytest.param(lambda rows: rows.pop(), SMALL_FILE_ROWS, id="one is missing"),
        pytest.param(lambda rows: rows.append({**rows[0], "name": "another"}), SMALL_FILE_ROWS, id="one more"),
        pytest.param(lambda rows: rows.append({**rows[0], "content": b"another"}), SMALL_FILE_ROWS, id="one is there twice"),
        pytest.param(lambda rows: rows[0].update(content=None), SMALL_FILE_ROWS, id="null"),
        pytest.param(lambda rows: rows[0].update(directory=None, capture=None), SMALL_FILE_ROWS, id="of no replica"),
        pytest.param(lambda rows: rows[0].update(content=bytes((64 << 20) + 1)), SMALL_FILE_ROWS, id="larger than any"),
        pytest.param(lambda rows: rows[0].update(capture=99), SMALL_FILE_ROWS, id="of another capture"),
        pytest.param(
            lambda _rows: None, pa.schema([field for field in SMALL_FILE_ROWS if field.name != "capture"]), id="a column is missing"
        ),
    ],
)
def test_small_files_that_were_not_collected(collected: Path, change: Callable[[list[Row]], object], schema: pa.Schema):
    _small_files(collected, change, schema)
    replicas, (problem,) = listed(collected)
    assert replicas == []
    assert (problem.code, Path(problem.path).name) == ("incomplete-collection", SMALL_FILES_FILE)
    assert problem.detail.startswith("not what collect wrote: ")


def test_more_small_files_than_a_worker_has_memory_for_are_refused(collected: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(collected_rows, "_MOST_SMALL_FILE_BYTES", 100)
    replicas, (problem,) = listed(collected)
    assert replicas == []
    assert "more than the 100 that are read" in problem.detail
    assert (problem.code, problem.remedy[:20]) == ("too-large", "collect fewer topics")


def test_small_files_are_counted_whatever_the_file_says(collected: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(collected_rows, "_MOST_SMALL_FILE_BYTES", 100)
    monkeypatch.setattr(collected_rows, "_declared_bytes", lambda _metadata: 0)
    replicas, (problem,) = listed(collected)
    assert (replicas, problem.code) == ([], "too-large")


_FOOTERS = """
import io, random, struct, sys
from pathlib import Path
from replica_audit.formats.collection.collected_rows import errors_as_forged, opened_rows
from replica_audit.formats.collection.collected_rows import _opened
store, small, changed = map(Path, sys.argv[1:])
sound = 0
for path, most in ((store, 700), (small, 300)):
    whole = path.read_bytes()
    size = 8 + struct.unpack("<I", whole[-8:-4])[0]
    for seed in range(most):
        chance, content = random.Random(seed), bytearray(whole)
        content[chance.randrange(len(whole) - size, len(whole) - 8)] ^= 1 << chance.randrange(8)
        changed.write_bytes(content)
        try:
            with errors_as_forged(), opened_rows(io.BytesIO(content)) if path == store else _opened(changed, len(content)) as file:
                for _rows in file.iter_batches(1000):
                    pass
            sound += 1
        except OSError:
            pass
print(sound)
"""


@pytest.mark.slow
def test_no_footer_ends_the_process(collected: Path, tmp_path: Path):
    """Arrow ends the process of who asks for the columns of some."""
    paths = [str(path) for path in (collected, collected.with_name(SMALL_FILES_FILE), tmp_path / "changed")]
    done = subprocess.run([sys.executable, "-c", _FOOTERS, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 0 < int(done.stdout) < 1000, "some are damaged, and some are not"


def test_what_repeats_in_small_files_is_in_memory_once(collected: Path):
    """Of a capture that was given up, 60 rows of 16 MiB in a file of a few kilobytes."""
    there = pq.read_table(collected.with_name(SMALL_FILES_FILE)).to_pylist()
    rows = [*there, *([{"capture": 99, "directory": "x-0", "name": "leader-epoch-checkpoint"}] * 60)]
    values = [*{row["content"] for row in there}, bytes(16 << 20)]
    places = pa.array([*(values.index(row["content"]) for row in there), *([len(values) - 1] * 60)], pa.int32())
    table = pa.Table.from_pylist(rows, schema=pa.schema(list(SMALL_FILE_ROWS)[:3]))
    _vouched(collected, table.append_column("content", pa.DictionaryArray.from_arrays(places, pa.array(values, pa.binary()))))
    run = subprocess.run([sys.executable, "-c", _LISTED, str(collected.parent.parent)], capture_output=True, text=True, check=True)
    replicas, problems, most_kib = map(int, run.stdout.split())
    assert replicas
    assert problems == 0
    assert most_kib < 512 << 10


def _bomb(store: Path, name: str, element: Row, times: int) -> None:
    """Forge rows, the first of which has a list of one element so many times: some kilobytes of a file."""
    table = pq.read_table(store).cast(ROWS)
    column = table.column(name).combine_chunks()
    kind: Any = column.type
    parts = [pa.repeat(pa.scalar(element[field.name], field.type), times) for field in kind.value_type]
    many = pa.StructArray.from_arrays(parts, fields=list(kind.value_type))
    first = pa.ListArray.from_arrays(pa.array([0, times], pa.int32()), many, type=kind)
    place = ROWS.get_field_index(name)
    sink = pa.BufferOutputStream()
    pq.write_table(table.set_column(place, ROWS.field(name), pa.concat_arrays([first, column[1:]])), sink, compression="zstd")
    forge(store, sink.getvalue().to_pybytes())


@pytest.mark.parametrize(
    ("name", "element", "times", "told"),
    [
        (
            "windows",
            {"window_start_offset": 0, "window_end_offset": 65_536, "digest": 0, "batch_count": 1},
            1_000_000,
            "elements of windows in",
        ),
        ("problems", {**PROBLEM, "path": "p", "detail": "d" * (1 << 20)}, 100, "bytes of text of problems in"),
    ],
)
def test_lists_that_would_fill_memory_are_not_read(collected: Path, name: str, element: Row, times: int, told: str) -> None:
    _bomb(collected, name, element, times)
    assert collected.stat().st_size < 1 << 17
    assert listed(collected)[0], "which needs no lists"
    found = scans(collected)
    assert {one["failed"] for one in found} == {True}
    assert {one["problems"][0]["detail"].partition(told)[1] for one in found} == {told}, found[0]["problems"]


def test_a_name_that_fills_memory_once_for_each_row_is_not_read(collected: Path) -> None:
    rewritten(collected, lambda row: row.update(topic="t" * (16 << 20)))
    found = scans(collected)
    assert "bytes of text of topic" in found[0]["problems"][0]["detail"]


def test_previous_rows_that_would_fill_memory_are_not_read(collected: Path) -> None:
    _bomb(collected, "problems", {**PROBLEM, "path": "p"}, 4_000_000)
    _manifest, found = log_dirs_of(collected.parent.parent)
    (log_dir,) = found.values()
    previous = PreviousRows(log_dir)
    assert list(previous.all_segments()) == []
    previous.close()


def test_small_files_that_are_not_vouched_for(collected: Path):
    small = collected.with_name(SMALL_FILES_FILE)
    content = small.read_bytes()
    for changed, says in ((content[:-1], f"{len(content) - 1} bytes"), (content[:-1] + b"0", "with CRC"), (None, "No such file")):
        small.unlink() if changed is None else small.write_bytes(changed)
        replicas, (problem,) = listed(collected)
        assert replicas == []
        assert problem.code == "incomplete-collection"
        assert f"{SMALL_FILES_FILE}: " in problem.detail
        assert says in problem.detail


@pytest.mark.parametrize(
    ("change", "schema"),
    [
        pytest.param(lambda row: row.update(size_bytes=-1), ROWS, id="a negative size"),
        pytest.param(lambda row: row.update(size_bytes=2**62), ROWS, id="a size that nothing has"),
        pytest.param(lambda row: row.update(base_offset=None), ROWS, id="no offset"),
        pytest.param(lambda row: row.update(name="../../../etc/passwd"), ROWS, id="a path for a name"),
        pytest.param(lambda row: row.update(name="00000000000000000007.log", base_offset=8), ROWS, id="another offset than its name"),
        pytest.param(lambda row: row.update(capture=row["capture"] + 99), ROWS, id="rows of other captures only"),
        pytest.param(lambda row: row.update(base_offset=str(row["base_offset"])), OTHER_TYPE, id="another type"),
        pytest.param(lambda _row: None, pa.schema([field for field in ROWS if field.name != "runs"]), id="a column is missing"),
    ],
)
def test_rows_that_are_of_no_segment(collected: Path, change: Callable[[Row], None], schema: pa.Schema):
    rewritten(collected, change, schema)
    replicas, problems = listed(collected)
    assert replicas == []
    assert [problem.code for problem in problems] == ["incomplete-collection"]


@pytest.mark.parametrize(
    "values",
    [
        {"runs": [{**RUN, "last_offset": -1}]},
        {"runs": [{**RUN, "size_bytes": -(2**60)}]},
        {"runs": [{**RUN, "last_offset": 2**63 - 1}]},
        {"runs": [{**RUN, "leader_epoch": None}]},
        {"runs": [RUN, RUN]},
        {"runs": None},
        {"windows": [{"window_start_offset": 9, "window_end_offset": 9, "digest": 0, "batch_count": 1}]},
        {"producers": {"spans": None, "gaps": [], "untold_batches": 0}},
        {"producers": {"spans": [], "gaps": [], "untold_batches": -1}},
        {"producers": {"spans": [SPAN._replace(last_offset=-1)._asdict()], "gaps": [], "untold_batches": 0}},
        {"producers": {"spans": [SPAN._replace(missing_count=-1)._asdict()], "gaps": [], "untold_batches": 0}},
        {"producers": {"spans": [{**SPAN._asdict(), "last_sequence": None}], "gaps": [], "untold_batches": 0}},
        {"producers": {"spans": [], "gaps": [GAP._replace(first_offset_after=0)._asdict()], "untold_batches": 0}},
        {"problems": [PROBLEM]},
        {"topic": "another"},
        {"damaged": None},
    ],
    ids=str,
)
def test_a_scan_that_cannot_be_one_is_a_segment_that_could_not_be_read(collected: Path, values: Row):
    first = pq.read_table(collected).to_pylist()[0]
    keys = (first["directory"], first["name"])
    rewritten(collected, lambda row: row.update(values) if (row["directory"], row["name"]) == keys else None)
    replicas, problems = listed(collected)
    assert replicas
    assert problems == []
    found = {(one["directory"], one["file"]["path"].rpartition("/")[2]): one for one in scans(collected)}
    assert [key for key, one in found.items() if one["failed"]] == [keys]
    (problem,) = found[keys]["problems"]
    assert problem["code"] == "incomplete-collection"
    assert len(found) > 1


def test_producers_that_a_scan_may_have(collected: Path):
    told = Producers((SPAN,), (GAP,), 3)
    rewritten(collected, lambda row: row.update(producers=producers_row(told)))
    found = scans(collected)
    assert {one["failed"] for one in found} == {False}
    assert [one["producers"] for one in found] == [told] * len(found)


def test_of_a_collection_of_an_older_release_the_producers_are_unknown(collected: Path):
    rewritten(collected, lambda row: row.pop("producers"), pa.schema([field for field in ROWS if field.name != "producers"]))
    replicas, problems = listed(collected)
    found = scans(collected)
    assert replicas
    assert problems == []
    assert {(one["failed"], one["producers"]) for one in found} == {(False, None)}


def test_scans_that_go_while_they_are_read_are_told_for_every_replica(collected: Path):
    """Between the listing and the task that reads them."""
    _manifest, found = log_dirs_of(collected.parent.parent)
    (log_dir,) = found.values()
    directories = {replica.directory for replica in log_dir.said.replicas}
    whole = {one["directory"] for one in scans(collected)}
    assert whole == directories
    collected.write_bytes(b"")
    failed = scans(collected)
    assert {one["directory"] for one in failed if one["failed"]} == directories
    assert all(one["problems"][0]["remedy"] for one in failed)


def test_a_healthy_collection_is_read_in_silence(collected: Path):
    replicas, problems = listed(collected)
    assert replicas
    assert problems == []
    assert not any(one["failed"] for one in scans(collected))


def test_an_index_that_contradicts_itself(collected: Path):
    index = next(path for path in sorted(collected.parent.rglob("batches/*/*.parquet")) if len(list(read_index(path))) > 2)
    table = pq.read_table(index)
    for changed in (table.take(list(reversed(range(table.num_rows)))), pa.concat_tables([table, table])):
        pq.write_table(changed.cast(table.schema), index)
        with pytest.raises(OSError, match="not a batch index"):
            list(read_index(index))
    rows = table.to_pylist()
    rows[1]["leader_epoch"] = None
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), index)
    with pytest.raises(OSError, match="it lacks values"):
        list(read_index(index))
    pq.write_table(pa.Table.from_pylist([{**row, "codec": "brotli"} for row in table.to_pylist()], schema=table.schema), index)
    with pytest.raises(OSError, match="other codecs"):
        list(read_index(index))


def test_a_collection_of_a_later_release_says_what_to_upgrade(collected: Path):
    path = collected.parent.parent / MANIFEST
    path.write_bytes(resealed({**json.loads(path.read_bytes()), "version": 3}))
    replicas, problems = listed(collected)
    assert replicas == []
    assert (problems[0].code, problems[0].path) == ("malformed", str(path))
    assert problems[0].remedy.startswith("upgrade this installation")


def test_a_manifest_that_counts_other_segments(collected: Path):
    path = collected.parent.parent / MANIFEST
    manifest = json.loads(path.read_bytes())
    manifest["log_dirs"][0]["replicas"][-1]["segments"] += 6
    path.write_bytes(resealed(manifest))
    replicas, (problem,) = listed(collected)
    assert replicas == []
    assert problem.code == "incomplete-collection"
    assert "were collected" in problem.detail
