"""Replica directories → one row per segment: its runs of one epoch, read inside tasks by path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from replica_audit.errors import InputError
from replica_audit.formats import collected, log_dir
from replica_audit.formats.kept_text import KeptText
from replica_audit.formats.locations import located
from replica_audit.formats.replica_reader import scan_of
from replica_audit.formats.segment_problems import scanned
from replica_audit.formats.tree_walk import cannot_read
from replica_audit.model import SegmentFile
from replica_audit.tables import SEGMENTS
from replica_audit.tables.encoding import as_dict
from replica_audit.transforms.arrow import spark_schema
from replica_audit.transforms.rows import Row, map_rows, segment_file
from replica_audit.transforms.valid_rows import refuse_scan

_OF_BROKER = pa.schema([SEGMENTS.field("cluster_id"), SEGMENTS.field("broker_id")])
_BIG = 4  # a file of more than this part of a task's share is placed by its size, the others by a hash


def segments(inventory: DataFrame, tasks: int, total_bytes: int, *, has_collections: bool) -> DataFrame:
    """Scan every segment.

    Args:
        inventory: rows of the shape INVENTORY.
        tasks: over how many tasks the segments are spread, by bytes.
        total_bytes: the sum of the segments' sizes.
        has_collections: whether any replica was scanned on its broker; if none was, nothing is started to look for such scans.

    Returns:
        Rows of the shape SEGMENTS, one per segment file.
    """
    replicas = inventory.where(F.col("replica").isNotNull())
    files = replicas.where(F.col("replica.scans").isNull()).select(
        "cluster_id",
        "broker_id",
        "topic",
        "partition",
        F.col("replica.log_dir").alias("log_dir"),
        F.col("replica.directory").alias("directory"),
        F.explode("replica.segments").alias("file"),
    )
    scanned_here = spread(files, tasks, total_bytes).mapInArrow(scan_segments, spark_schema(SEGMENTS))
    if not has_collections:
        return scanned_here
    is_collected = F.col("replica.scans").isNotNull()
    places = replicas.where(is_collected).select("cluster_id", "broker_id", "replica.scans", "replica.log_dir", "replica.directory")
    # the replicas of a broker's folder come from one task, so each file of scans is read by one
    return scanned_here.unionByName(places.mapInArrow(collected_scans, spark_schema(SEGMENTS)))


def spread(files: DataFrame, tasks: int, total_bytes: int) -> DataFrame:
    """Give every task about as many bytes; the tasks that start first get the biggest files, so that none of them is left to the end.

    The parts of a packed text are one file here, for its beginning has to be unpacked to read its end.

    Args:
        files: rows with a struct `file` of the shape SEGMENT_FILE.
        tasks: partitions of the result.
        total_bytes: the sum of the sizes.

    Returns:
        The rows of every task ordered by path, those of a text by their place in it.
    """
    is_packed = F.col("file.unpacked_bytes") > 0
    size = F.when(is_packed, F.col("file.unpacked_bytes")).otherwise(F.col("file.size_bytes"))
    begin = F.when(is_packed, 0).otherwise(F.col("file.byte_start"))
    # at most a few files for each task, so that ranking them in one place costs nothing
    is_big = size * _BIG >= F.lit(max(1, total_bytes // tasks))
    by_size = Window.orderBy(size.desc(), "file.path", begin)
    big = files.where(is_big).withColumn("task", F.pmod(F.dense_rank().over(by_size) - 1, F.lit(tasks)))
    small = files.where(~is_big).withColumn("task", F.pmod(F.xxhash64("file.path", begin), F.lit(tasks)).cast("int"))
    return big.unionByName(small).repartitionById(tasks, "task").sortWithinPartitions("file.path", "file.byte_start").drop("task")


def scan_segments(files: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The segment files of one task as rows of the shape SEGMENTS; a packed text is unpacked once if its parts come in order."""
    with KeptText() as kept:
        yield from map_rows(partial(scan_segment, kept=kept), SEGMENTS, refuse_scan)(files)


def scan_segment(row: Row, kept: KeptText | None = None) -> Iterator[Row]:
    """One segment file of a replica as its row of the shape SEGMENTS; `kept` as of `read_segment`."""
    file = segment_file(row["file"])
    found, problems, failed = scanned(file, partial(scan_of, kept=kept))
    yield {
        **{key: row[key] for key in ("cluster_id", "broker_id", "topic", "partition")},
        "segment": {
            "log_dir": row["log_dir"],
            "directory": row["directory"],
            "file": row["file"],
            "runs": [run._asdict() for run in found.runs],
            "damaged": found.damage is not None,
            "failed": failed,
            "problems": [as_dict(problem) for problem in problems],
            "windows": [window._asdict() for window in found.windows],
        },
    }


def collected_scans(places: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The scans that were made on the brokers, each file of them read once.

    Args:
        places: cluster_id, broker_id, scans (the file), log_dir and directory of every replica that was collected.
    """
    wanted: dict[tuple[str, int, str, str], set[str]] = defaultdict(set)
    for row in (row for rows in places for row in rows.to_pylist()):
        wanted[row["cluster_id"], row["broker_id"], row["scans"], row["log_dir"]].add(row["directory"])
    for (cluster_id, broker_id, scans, place), directories in wanted.items():
        keys = {"cluster_id": cluster_id, "broker_id": broker_id}
        try:
            for rows in collected.log_dir_of(located(scans)).scans(directories):
                of_broker = pa.RecordBatch.from_pylist([keys] * rows.num_rows, schema=_OF_BROKER)
                yield pa.record_batch([*of_broker.columns, *rows.columns], schema=SEGMENTS)
        except (OSError, InputError) as error:
            failed = error if isinstance(error, OSError) else OSError(0, str(error))
            unread = [{**keys, **row} for row in _failed(scans, place, sorted(directories), failed)]
            yield pa.RecordBatch.from_pylist(unread, schema=SEGMENTS)


def _failed(scans: str, place: str, directories: Sequence[str], error: OSError) -> Iterator[Row]:
    """For each replica whose scans cannot be read any more, or not to their end, a segment that cannot be read."""
    problem = as_dict(cannot_read(located(scans), "collection", error))
    for directory in directories:
        name = log_dir.replica_directory(directory)
        if name is None:
            continue
        file = as_dict(SegmentFile(path=scans, source=collected.SOURCE, base_offset=0, size_bytes=0))
        segment = {"log_dir": place, "directory": directory, "file": file}
        told = {"runs": [], "windows": [], "damaged": False, "failed": True, "problems": [problem]}
        yield {"topic": name.topic, "partition": name.partition, "segment": {**segment, **told}}
