"""Segments told by sections of one packed text: a task scans them in one go, unpacks it once, and gives the rows of the plain text."""

from __future__ import annotations

import gzip
import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.stages.inventory import list_source
from replica_audit.stages.items import Item, Reading
from replica_audit.stages.segments import scan
from tests.formats import packed_dumps
from tests.formats.packed_dumps import PACKED
from tests.support import in_process
from tests.support import items as in_spark
from tests.support.items import listed_in_spark, readings, scanned, scanned_in_spark, source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECTIONS = range(50)
TEXT = packed_dumps.text(SECTIONS)
CODES = {"dump-malformed", "unusable-dump", "torn-batch"}  # of the sections that are damaged


def readings_of(broker: Path) -> list[Item]:
    """What is to be read of a broker."""
    return readings(list_source(source(broker)))


def bare(items: Iterable[Item]) -> list[str]:
    """Scans without what tells of the file; of a section's place only how long it is."""
    told = []
    for item in items:
        file = replace(item.value.file, path="", unpacked_bytes=0, byte_start=0, byte_end=0, first_line=0)
        problems = tuple(replace(problem, path="", line=None) for problem in item.value.problems)
        told.append(repr((item.topic, item.partition, replace(item.value, file=file, problems=problems))))
    return sorted(told)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The rows of the plain text."""
    broker = packed_dumps.write(tmp_path_factory.mktemp("plain") / "broker-1", "dump.txt", TEXT)
    found = scanned(readings_of(broker))
    assert len(found) == len(SECTIONS)
    assert {problem.code for item in found for problem in item.value.problems} == CODES
    return bare(found)


@pytest.mark.parametrize("form", PACKED)
def test_a_task_unpacks_a_text_once(tmp_path: Path, plain: list[str], form: str) -> None:
    (reading,) = readings_of(packed_dumps.write(tmp_path / "broker-1", "dump", PACKED[form](TEXT)))
    starts = [part.file.byte_start for part in reading.value.parts]
    assert starts == sorted(starts) and reading.size_bytes == len(TEXT)
    with packed_dumps.unpacked() as sizes:
        assert bare(scanned([reading])) == plain
    assert sizes == [len(TEXT)]


def test_sections_in_any_order_give_the_same(tmp_path: Path, plain: list[str]) -> None:
    (reading,) = readings_of(packed_dumps.write(tmp_path / "broker-1", "dump", gzip.compress(TEXT)))
    parts = reading.value.parts
    assert bare(scanned([reading._replace(value=Reading(parts[20:] + parts[10:20] + parts[9::-1]))])) == plain


def test_what_is_damaged_and_cut_off_is_told_as_of_the_plain_text(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(TEXT, 1))
    packed[len(packed) // 2] ^= 0xFF
    (reading,) = readings_of(packed_dumps.write(tmp_path / "broker-1", "dump", bytes(packed)))
    assert 10 < len(reading.value.parts) < 50
    alone = scanned(reading._replace(value=Reading((part,))) for part in reading.value.parts)
    assert bare(scanned([reading])) == bare(alone)


def test_an_audit_in_process_unpacks_a_text_to_list_it_and_to_scan_it(tmp_path: Path) -> None:
    sound = packed_dumps.text(range(7))
    packed_dumps.write(tmp_path / "broker-1", "dump", gzip.compress(sound))
    with packed_dumps.unpacked() as sizes:
        tables = in_process.audit(tmp_path)
    assert len(tables["segment_epochs"]) == 7
    assert sizes == [len(sound)] * 2


def counting(folder: Path) -> Callable[..., Iterator[Item]]:
    """`scan`, which besides writes into the folder what each reading unpacked."""

    def counted(item: Item, mode: CompareMode, opened: None = None) -> Iterator[Item]:
        with packed_dumps.unpacked() as sizes:
            yield from scan(item, mode, opened)
        (folder / uuid.uuid4().hex).write_text(json.dumps(sizes), encoding="utf-8")

    return counted


@pytest.mark.spark
def test_spark_reads_each_packed_text_in_one_task(
    spark: SparkSession, tmp_path: Path, plain: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two texts whose sections come in another order than the segments, between them a plain one, which is spread."""
    shuffled = packed_dumps.text([*range(1, 50, 2), *range(48, -1, -2)])
    other = b"".join(packed_dumps.section(number, partition) for number in SECTIONS for partition in (2, 3))
    broker = packed_dumps.write(tmp_path / "broker-1", "1.gz", gzip.compress(shuffled))
    packed_dumps.write(broker, "3.utf-16", PACKED["utf-16"](other))
    packed_dumps.write(broker, "2.txt", packed_dumps.text(SECTIONS, 1))
    counts = tmp_path / "counts"
    counts.mkdir()
    monkeypatch.setattr(in_spark, "scan", counting(counts))
    engine, listed, amounts = listed_in_spark(spark, [source(broker)])
    found = scanned_in_spark(engine, listed, amounts)
    assert len(engine.collect(listed, [Reading])) == 52 and amounts.segments == 200
    engine.release()
    assert len(found) == 200
    of_tasks = [json.loads(count.read_text(encoding="utf-8")) for count in counts.iterdir()]
    assert sorted(size for sizes in of_tasks for size in sizes) == sorted([len(shuffled), len(other)])
    for partition in range(4):
        of_partition = [item for item in found if item.partition == partition]
        assert {item.value.directory for item in of_partition} == {f"orders-{partition}"}
        assert bare(item._replace(partition=0, value=replace(item.value, directory="orders-0")) for item in of_partition) == plain
