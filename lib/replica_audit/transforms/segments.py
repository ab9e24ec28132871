"""Replica directories → one row per segment: its runs of one epoch, read inside tasks by path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from replica_audit.errors import DumpLogError
from replica_audit.formats.replica_reader import read_segment
from replica_audit.formats.segment_scan import Scan, scan
from replica_audit.model import Problem, SegmentFile
from replica_audit.schemas import SEGMENTS
from replica_audit.transforms.arrow import spark_schema
from replica_audit.transforms.rows import Row, map_rows, segment_file

_BIG = 4  # a file of more than this part of a task's share is placed by its size, the others by a hash
_RESTORE = "else restore the segment from another replica"
_REMEDIES = {
    "torn-batch": f"none if it is the newest segment: the broker cuts the rest off when it recovers the log; {_RESTORE}",
    "trailing-bytes": f"none if it is the newest segment: the broker ignores the bytes; {_RESTORE}",
    "zero-filled-tail": f"none if it is the newest segment (a preallocated file after a crash); {_RESTORE}",
    "dump-truncated": "dump the segment again and keep the whole text",
    "dump-malformed": "dump the segment again with batch lines only, without --print-data-log",
}
_DAMAGED = "the broker will not notice; move the replica's directory away on the broker and let it be recovered from the leader"
_NOT_READ = "give the audit's user read permission on it, or copy it again"


def segments(inventory: DataFrame, tasks: int, total_bytes: int) -> DataFrame:
    """Scan every segment.

    Args:
        inventory: rows of the shape INVENTORY.
        tasks: over how many tasks the segments are spread, by bytes.
        total_bytes: the sum of the segments' sizes.

    Returns:
        Rows of the shape SEGMENTS, one per segment file.
    """
    files = inventory.where(F.col("replica").isNotNull()).select(
        "cluster_id",
        "broker_id",
        "topic",
        "partition",
        F.col("replica.log_dir").alias("log_dir"),
        F.col("replica.directory").alias("directory"),
        F.explode("replica.segments").alias("file"),
    )
    return spread(files, tasks, total_bytes).mapInArrow(map_rows(scan_segment, SEGMENTS), spark_schema(SEGMENTS))


def spread(files: DataFrame, tasks: int, total_bytes: int) -> DataFrame:
    """Give every task about as many bytes; the tasks that start first get the biggest files, so that none of them is left to the end.

    Args:
        files: rows with a struct `file` of the shape SEGMENT_FILE.
        tasks: partitions of the result.
        total_bytes: the sum of the sizes.
    """
    size = F.col("file.size_bytes")
    # at most a few for each task, so that ranking them in one place costs nothing
    is_big = size * _BIG >= F.lit(max(1, total_bytes // tasks))
    by_size = Window.orderBy(size.desc(), "file.path", "file.byte_start")
    big = files.where(is_big).withColumn("task", F.pmod(F.row_number().over(by_size) - 1, F.lit(tasks)))
    small = files.where(~is_big).withColumn("task", F.pmod(F.xxhash64("file.path", "file.byte_start"), F.lit(tasks)).cast("int"))
    return big.unionByName(small).repartitionById(tasks, "task").drop("task")


def scan_segment(row: Row) -> Iterator[Row]:
    """One segment file of a replica as its row of the shape SEGMENTS."""
    file = segment_file(row["file"])
    found, problems, failed = _scanned(file)
    yield {
        **{key: row[key] for key in ("cluster_id", "broker_id", "topic", "partition")},
        "segment": {
            "log_dir": row["log_dir"],
            "directory": row["directory"],
            "file": row["file"],
            "runs": [run._asdict() for run in found.runs],
            "damaged": found.damage is not None,
            "failed": failed,
            "problems": [asdict(problem) for problem in problems],
        },
    }


def _scanned(file: SegmentFile) -> tuple[Scan, list[Problem], bool]:
    nothing = Scan(runs=(), damage=None, first_bad_crc=None)
    try:
        found = scan(read_segment(file))
    except DumpLogError as error:
        problem = Problem(
            path=file.path,
            kind="dump",
            code="unusable-dump",
            detail=error.reason,
            remedy="dump the segment again, batch lines only",
            line=error.line,
        )
        return nothing, [problem], True
    except OSError as error:
        detail = error.strerror or str(error)
        return nothing, [Problem(path=file.path, kind="segment", code="cannot-read", detail=detail, remedy=_NOT_READ)], True
    return found, list(_problems(file, found)), False


def _problems(file: SegmentFile, found: Scan) -> Iterator[Problem]:
    if found.first_bad_crc is not None:
        yield Problem(
            path=file.path,
            kind="segment",
            code="crc-mismatch",
            detail="the batch at this byte does not match its CRC: its bytes changed after they were written",
            remedy=_DAMAGED,
            byte_offset=found.first_bad_crc,
        )
    if found.damage is not None:
        yield Problem(
            path=file.path,
            kind="segment" if file.source == "raw" else "dump",
            code=found.damage.code,
            detail=found.damage.detail,
            remedy=_REMEDIES.get(found.damage.code, _DAMAGED),
            line=found.damage.line,
            byte_offset=found.damage.byte_offset,
        )
