"""Segments told by sections of one packed text: a task scans them in one go, unpacks it once, and gives the rows of the plain text."""

from __future__ import annotations

import gzip
import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from replica_audit.engine import spark as spark_stages
from replica_audit.engine.spark import inventory, segments, source_rows
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.stages.inventory import list_source
from replica_audit.stages.segments import scan_segments
from tests.formats import packed_dumps
from tests.formats.packed_dumps import PACKED
from tests.support import in_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
SECTIONS = range(50)
TEXT = packed_dumps.text(SECTIONS)
CODES = {"dump-malformed", "unusable-dump", "torn-batch"}  # of the sections that are damaged


def files_of(broker: Path) -> list[Row]:
    """What the inventory says of a broker's segments, as `scan_segments` takes it."""
    replicas = [
        row for row in list_source({"cluster_id": "c", "broker_id": 1, "path": str(broker), "kind": "broker"}) if row.get("replica")
    ]
    keys = ("cluster_id", "broker_id", "topic", "partition")
    return [
        {**{key: row[key] for key in keys}, "log_dir": "/data", "directory": row["replica"]["directory"], "file": file}
        for row in replicas
        for file in row["replica"]["segments"]
    ]


def scanned(files: Iterable[Row]) -> list[Row]:
    """As one task does, its rows coming in more than one batch."""
    rows = list(files)
    batches = (pa.RecordBatch.from_pylist(rows[at : at + 20]) for at in range(0, len(rows), 20))
    return [row for batch in scan_segments(batches) for row in batch.to_pylist()]


def bare(rows: Iterable[Row]) -> list[str]:
    """Rows without what tells of the file; of a section's place only how long it is."""
    told = []
    for row in rows:
        file = row["segment"]["file"]
        of_file = {"path", "unpacked_bytes", "byte_start", "byte_end", "first_line"}
        problems = [{key: value for key, value in problem.items() if key not in ("path", "line")} for problem in row["segment"]["problems"]]
        segment = row["segment"] | {"file": {key: file[key] for key in file if key not in of_file}, "problems": problems}
        told.append(json.dumps(row | {"segment": segment}, sort_keys=True))
    return sorted(told)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The rows of the plain text."""
    broker = packed_dumps.write(tmp_path_factory.mktemp("plain") / "broker-1", "dump.txt", TEXT)
    rows = scanned(files_of(broker))
    assert len(rows) == len(SECTIONS)
    assert {problem["code"] for row in rows for problem in row["segment"]["problems"]} == CODES
    return bare(rows)


@pytest.mark.parametrize("form", PACKED)
def test_a_task_unpacks_a_text_once(tmp_path: Path, plain: list[str], form: str) -> None:
    files = files_of(packed_dumps.write(tmp_path / "broker-1", "dump", PACKED[form](TEXT)))
    with packed_dumps.unpacked() as sizes:
        assert bare(scanned(files)) == plain
    assert sizes == [len(TEXT)]


def test_sections_in_any_order_give_the_same(tmp_path: Path, plain: list[str]) -> None:
    files = files_of(packed_dumps.write(tmp_path / "broker-1", "dump", gzip.compress(TEXT)))
    assert bare(scanned(files[20:] + files[10:20] + files[9::-1])) == plain


def test_what_is_damaged_and_cut_off_is_told_as_of_the_plain_text(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(TEXT, 1))
    packed[len(packed) // 2] ^= 0xFF
    files = files_of(packed_dumps.write(tmp_path / "broker-1", "dump", bytes(packed)))
    assert 10 < len(files) < 50
    alone = [row for file in files for row in scanned([file])]
    assert bare(scanned(files)) == bare(alone)


def test_an_audit_in_process_unpacks_a_text_to_list_it_and_to_scan_it(tmp_path: Path) -> None:
    sound = packed_dumps.text(range(7))
    packed_dumps.write(tmp_path / "broker-1", "dump", gzip.compress(sound))
    with packed_dumps.unpacked() as sizes:
        tables = in_process.audit(tmp_path)
    assert len(tables["segment_epochs"]) == 7
    assert sizes == [len(sound)] * 2


def counting(folder: Path) -> Callable[..., Iterator[pa.RecordBatch]]:
    """`scan_segments`, which besides writes into the folder what each task unpacked."""

    def scan(files: Iterator[pa.RecordBatch], *, mode: CompareMode) -> Iterator[pa.RecordBatch]:
        with packed_dumps.unpacked() as sizes:
            yield from scan_segments(files, mode=mode)
        (folder / uuid.uuid4().hex).write_text(json.dumps(sizes), encoding="utf-8")

    return scan


@pytest.mark.spark
def test_spark_reads_each_packed_text_in_one_task(
    spark: SparkSession, tmp_path: Path, plain: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two texts whose sections come in another order than the segments, between them a plain one, which is spread as before."""
    shuffled = packed_dumps.text([*range(1, 50, 2), *range(48, -1, -2)])
    other = b"".join(packed_dumps.section(number, partition) for number in SECTIONS for partition in (2, 3))
    broker = packed_dumps.write(tmp_path / "broker-1", "1.gz", gzip.compress(shuffled))
    packed_dumps.write(broker, "3.utf-16", PACKED["utf-16"](other))
    packed_dumps.write(broker, "2.txt", packed_dumps.text(SECTIONS, 1))
    counts = tmp_path / "counts"
    counts.mkdir()
    monkeypatch.setattr(spark_stages, "scan_segments", counting(counts))
    listed = inventory(source_rows(spark, [("c", 1, str(broker), "broker")])).persist()
    total = len(shuffled) + len(other) + len(TEXT)
    rows = [row.asDict(recursive=True) for row in segments(listed, 8, total, has_collections=False).collect()]
    listed.unpersist()
    assert len(rows) == 200
    of_tasks = [json.loads(count.read_text(encoding="utf-8")) for count in counts.iterdir()]
    assert sorted(size for sizes in of_tasks for size in sizes) == sorted([len(shuffled), len(other)])
    for partition in range(4):
        found = [row for row in rows if row["partition"] == partition]
        assert {row["segment"]["directory"] for row in found} == {f"orders-{partition}"}
        assert bare({**row, "partition": 0, "segment": row["segment"] | {"directory": "orders-0"}} for row in found) == plain
