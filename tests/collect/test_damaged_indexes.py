"""A batch index, or a copy of a segment, damaged or lost after it was collected: told, and nothing is made up in place of a damaged one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from replica_audit import cli
from replica_audit.formats.collection.broker_folder import BATCHES_FOLDER, SOURCE, batches
from replica_audit.formats.segment.batch_index import read_index
from replica_audit.model import BatchRun, SegmentFile
from tests.collect.collections import collect_cluster
from tests.formats import kafka_files as kf
from tests.support import in_process

SAMPLE = Path(__file__).parents[1] / "data" / "sample" / "committed-loss"
CLEAN = SAMPLE.parent / "clean-in-sync"
REMOVED = ("removed_offsets", "removed_records", "removed_bytes", "lost_offsets", "lost_records", "lost_bytes")
PARTITION = ("billing", 0)


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    return collect_cluster(SAMPLE, tmp_path / "collection")


def of_partition(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if (row["topic"], row["partition"]) == PARTITION]


def index_of(collection: Path) -> Path:
    """That of the follower which has to be truncated, inside of what its runs tell as one."""
    return collection / "broker-1" / "data-0" / BATCHES_FOLDER / "billing-0" / f"{0:020d}.parquet"


def test_a_flipped_byte(collection: Path) -> None:
    (sound,) = [row for row in of_partition(in_process.audit(collection)["replica_verdicts"]) if row["follower_id"] == 1]
    index = index_of(collection)
    content = bytearray(index.read_bytes())
    content[40] ^= 0x20  # of a page, as a disk rots
    index.write_bytes(content)
    tables = in_process.audit_cluster(collection, anew=True)[0]
    (row,) = [row for row in of_partition(tables["replica_verdicts"]) if row["follower_id"] == 1]
    told = {name for name in row if row[name] != sound[name]}
    assert told <= {*REMOVED, "lost_by_transaction", "first_removed_timestamp_ms", "last_removed_timestamp_ms"}, (
        "what offsets and epochs decide stays"
    )
    assert [row[name] for name in REMOVED] == [None] * len(REMOVED)
    (problem,) = tables["input_errors"]
    assert (problem["code"], problem["path"], problem["broker_id"]) == ("incomplete-collection", str(index), 1)
    assert problem["remedy"].startswith("copy the whole folder again; or collect again; until then")


def test_what_is_not_known_is_not_told_as_nothing(collection: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = index_of(collection)
    content = bytearray(index.read_bytes())
    content[40] ^= 0x20
    index.write_bytes(content)
    for log in collection.rglob("server.log"):  # else the truncations are over
        log.unlink()
    assert cli.main(["triage", "--input", str(collection)]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "truncates at least 22 records (42 offsets committed) of 3 partitions" in told
    assert "billing-0 2>1 10 10 ? records, 20 offsets committed" in told


def test_a_sound_one_is_read_in_silence(collection: Path) -> None:
    assert in_process.audit(collection)["input_errors"] == []


def run_of(first: int, last: int) -> BatchRun:
    return BatchRun(0, first, last, 1, last - first + 1, 100, 0, 0, 2, intact=True)


def test_an_index_that_ends_before_the_segment_did(collection: Path) -> None:
    index = index_of(collection)
    headers = list(read_index(index))
    end = headers[-1].last_offset
    file = SegmentFile(path="/broker/00.log", source=SOURCE, base_offset=0, size_bytes=1, batch_index=str(index))
    assert list(batches(file, 0, [run_of(0, end)])) == headers
    table = pq.read_table(index)
    pq.write_table(table.slice(0, table.num_rows - 1), index)
    with pytest.raises(
        OSError, match=rf"^\[Errno 0\] not what collect wrote: its last batch ends .* that of the segment ended at {end}"
    ) as error:
        list(batches(file, 0, [run_of(0, end)]))
    assert error.value.filename == str(index)
    assert str(error.value.strerror).startswith("not what collect wrote: its last batch ends")


def test_a_copy_that_ends_before_the_segment_did(tmp_path: Path) -> None:
    whole = next(SAMPLE.glob("broker-1/data-0/billing-0/*.log"))
    copy = tmp_path / "data-0" / "billing-0" / whole.name
    copy.parent.mkdir(parents=True)
    file = SegmentFile(path=str(whole), source=SOURCE, base_offset=0, size_bytes=whole.stat().st_size, copy=str(copy))
    with pytest.raises(FileNotFoundError) as gone:
        list(batches(file, 0, []))
    assert gone.value.filename == str(copy)
    copy.write_bytes(whole.read_bytes())
    end = list(batches(file, 0, []))[-1].last_offset
    content = bytearray(whole.read_bytes())
    content[-300:] = bytes(300)
    copy.write_bytes(content)
    with pytest.raises(OSError, match=f"that of the segment ended at {end}"):
        list(batches(file, 0, [run_of(0, end)]))


def test_one_that_goes_while_the_audit_runs(collection: Path) -> None:
    index = index_of(collection)
    file = SegmentFile(path="/broker/00.log", source=SOURCE, base_offset=0, size_bytes=1, batch_index=str(index))
    index.unlink()
    with pytest.raises(FileNotFoundError):
        list(batches(file, 0, [run_of(0, 9)]))


def test_a_damaged_index_where_only_contents_differ(tmp_path: Path) -> None:
    """No truncation asks for its batches; what tells which batch differs does."""
    root = shutil.copytree(CLEAN, tmp_path / "root")
    (log,) = root.glob("broker-2/data-0/c-none-0/*.log")
    content = bytearray(log.read_bytes())
    end = 12 + int.from_bytes(content[8:12], "big")
    content[end - 2] ^= 1
    log.write_bytes(kf.sealed(content[:end]) + content[end:])
    collection = collect_cluster(root, tmp_path / "collection")
    tables = in_process.audit(collection)
    assert "content_mismatch" in {row["verdict"] for row in tables["replica_verdicts"] if row["topic"] == "c-none"}
    assert tables["input_errors"] == []
    index = collection / "broker-2" / "data-0" / BATCHES_FOLDER / "c-none-0" / f"{0:020d}.parquet"
    flipped = bytearray(index.read_bytes())
    flipped[40] ^= 0x20
    index.write_bytes(flipped)
    tables = in_process.audit_cluster(collection, anew=True)[0]
    assert "content_mismatch" in {row["verdict"] for row in tables["replica_verdicts"] if row["topic"] == "c-none"}
    assert [(row["code"], row["path"]) for row in tables["input_errors"]] == [("incomplete-collection", str(index))], "once"


@pytest.mark.parametrize("size", [None, 697, 600], ids=["gone", "cut at a batch", "cut inside of one"])
def test_a_copied_segment_that_is_not_as_long_as_it_was(collection: Path, size: int | None) -> None:
    """Batches that are whole end it, so that nothing else shows that offsets of groups are missing."""
    copy = collection / "broker-3" / "data-0" / "__consumer_offsets-0" / f"{0:020d}.log"
    if size is None:
        copy.unlink()
    else:
        copy.write_bytes(copy.read_bytes()[:size])
    told = [row for row in in_process.audit_cluster(collection, anew=True)[0]["problems"] if row["code"] == "incomplete-collection"]
    assert [row["path"] for row in told] == [str(copy.parents[1])]
    assert f"the first is __consumer_offsets-0/{copy.name}" in told[0]["detail"]


def of_broker_1(collection: Path) -> tuple[list[tuple[str, ...]], list[dict[str, Any]]]:
    """Its problems, and the rows of followers without what truncations remove."""
    tables = in_process.audit_cluster(collection, anew=True)[0]
    told = [tuple(row[name] for name in ("code", "path", "detail", "remedy")) for row in tables["problems"] if row["broker_id"] == 1]
    numbers = {*REMOVED, "first_removed_timestamp_ms", "last_removed_timestamp_ms"}
    return told, [{name: row[name] for name in row if name not in numbers} for row in tables["replica_verdicts"]]


@pytest.mark.parametrize("number", [1, 2], ids=["one", "several"])
def test_an_index_that_was_lost(collection: Path, number: int) -> None:
    """In a copy that was not whole, say: the remedy is another copy, for the options of `collect` were right."""
    nothing, before = of_broker_1(collection)
    folder = index_of(collection).parents[2]
    lost = sorted(path for path in folder.glob("batches/billing-*/*.parquet"))[-number:]
    lost[0].unlink()
    for other in lost[1:]:
        other.write_bytes(other.read_bytes()[:-1])
    detail = f"batch indexes that are missing, or not as long as they were: {number}; the first is {lost[0].relative_to(folder)}"
    detail += "; there what a truncation removes is known by offsets, not by batches"
    told = ("incomplete-collection", str(folder), detail, "copy the whole folder again; or collect again")
    assert (nothing, of_broker_1(collection)) == ([], ([told], before))


def test_indexes_that_were_never_made(tmp_path: Path) -> None:
    collection = collect_cluster(SAMPLE, tmp_path / "without", has_index=False)
    ((code, path, detail, remedy),), _rows = of_broker_1(collection)
    assert (code, path) == ("no-batch-index", str(collection / "broker-1" / "data-0" / "segments.parquet"))
    assert "missing" not in detail
    assert remedy == "collect without --no-batch-index, and copy the whole folder"
