"""Segments of more than 2 GiB, where 32-bit positions end: every batch is found, and no more memory is taken than for small ones."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import crc32c
import pytest

from replica_audit.formats.native import native_code
from replica_audit.formats.replicas.segment_reader import scan_file
from replica_audit.formats.segment.segment_fold import Scan
from replica_audit.formats.segment.segment_scan import read_batches, scan
from replica_audit.model import Amounts, Damage
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.stages.items import Item, Reading
from replica_audit.stages.segments import scan as scan_item
from tests.formats import kafka_files as kf
from tests.support.items import listed_in_spark, scanned_in_spark, source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_BYTES = 1 << 20
BATCHES = 2200  # of which the last 152 begin beyond 2 GiB
LAST_EPOCH_FROM = 2100
RECORDS = 10
MOST_MEMORY = 64 << 20
TORN = b"\0" * 40


def write(path: Path) -> Path:
    """A file of holes between the headers of batches, whose CRCs are those of zeros: it takes no room on the disk, and is soon written."""
    covered = struct.pack(">hiqqqhii", 0, RECORDS - 1, 0, 1_700_000_000_000, -1, -1, -1, RECORDS)
    crc = crc32c.crc32c(bytes(BATCH_BYTES - 61), crc32c.crc32c(covered))
    with path.open("wb") as stream:
        for number in range(BATCHES):
            stream.seek(number * BATCH_BYTES)
            epoch = 1 + (number >= LAST_EPOCH_FROM)
            stream.write(struct.pack(">qiibI", number * RECORDS, BATCH_BYTES - 12, epoch, 2, crc) + covered)
        stream.seek(BATCHES * BATCH_BYTES)
        stream.write(TORN)
    return path


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("large") / "broker-1"
    replica = kf.log_dir(folder / "data-0", "orders-0", broker_id=1) / "orders-0"
    segment = write(replica / f"{0:020d}.log")
    assert segment.stat().st_size > 1 << 31
    yield folder
    segment.unlink()


def segment_of(broker: Path) -> Path:
    return broker / "data-0" / "orders-0" / f"{0:020d}.log"


def check(found: Scan) -> None:
    assert [(run.leader_epoch, run.first_offset, run.last_offset, run.batch_count, run.intact) for run in found.runs] == [
        (1, 0, LAST_EPOCH_FROM * RECORDS - 1, LAST_EPOCH_FROM, True),
        (2, LAST_EPOCH_FROM * RECORDS, BATCHES * RECORDS - 1, BATCHES - LAST_EPOCH_FROM, True),
    ]
    assert found.first_bad_crc is None
    assert found.damage is not None
    assert found.damage.byte_offset == BATCHES * BATCH_BYTES


def test_in_native_code(broker: Path) -> None:
    assert native_code.scanner(1 << 60) is not None
    check(scan_file(segment_of(broker)))


@pytest.mark.nightly
def test_in_python(broker: Path) -> None:
    check(scan(read_batches(segment_of(broker))))
    *_others, batch, damage = read_batches(segment_of(broker), verify_crc=False)
    assert isinstance(damage, Damage)
    assert not isinstance(batch, Damage)
    assert batch.position == (BATCHES - 1) * BATCH_BYTES


def measured(item: Item) -> Iterator[Item]:
    """Scan as the audit does, and tell by how many bytes the memory of the task's process grew meanwhile at most."""

    def memory(name: str) -> int:
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
        return int(line.split()[1]) << 10

    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = memory("VmRSS")
    for _scans in scan_item(item, CompareMode.CONTENT):
        pass
    yield item._replace(value=Amounts(size_bytes=memory("VmHWM") - before))


@pytest.mark.spark
@pytest.mark.nightly
def test_in_spark_without_taking_memory(spark: SparkSession, broker: Path) -> None:
    engine, listed, amounts = listed_in_spark(spark, [source(broker)])
    (item,) = scanned_in_spark(engine, listed, amounts)
    assert item.value.segment.runs[-1].last_offset == BATCHES * RECORDS - 1
    assert [problem.byte_offset for problem in item.value.problems] == [BATCHES * BATCH_BYTES]
    (grown,) = engine.collect(engine.flat_map(engine.select(listed, [Reading]), measured), [Amounts])
    engine.release()
    assert grown.value.size_bytes < MOST_MEMORY
