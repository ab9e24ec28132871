"""Broker folders and metadata files → one row per replica directory, metadata partition or problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

from replica_audit.errors import MetadataError
from replica_audit.formats import broker_files, cluster_metadata
from replica_audit.model import Problem
from replica_audit.schemas import INVENTORY
from replica_audit.transforms.arrow import spark_schema
from replica_audit.transforms.rows import Row, map_rows, replica_row
from replica_audit.transforms.topics import topic_filter

SOURCES = "cluster_id string, broker_id int, path string, kind string"


def inventory(sources: DataFrame, topics: str = "") -> DataFrame:
    """List every source inside tasks.

    Args:
        sources: one row per broker folder (`kind` is broker) or cluster-metadata.json (`kind` is metadata); columns SOURCES.
        topics: regular expression that a topic's whole name must match; empty for all.

    Returns:
        Rows of the shape INVENTORY: exactly one of `replica`, `metadata` and `problem` is not null.
    """
    return sources.mapInArrow(map_rows(partial(list_source, topics=topics), INVENTORY), spark_schema(INVENTORY))


def list_source(source: Row, topics: str = "") -> Iterator[Row]:
    """The rows of one source, those of other topics left out; problems that belong to no replica stay."""
    is_wanted = topic_filter(topics)
    for row in _list_broker(source) if source["kind"] == "broker" else _list_metadata(source):
        if row.get("topic") is None or is_wanted(row["topic"]):
            yield row


def _row(source: Row, **values: object) -> Row:
    return {"cluster_id": source["cluster_id"], "broker_id": source["broker_id"], **values}


def _list_broker(source: Row) -> Iterator[Row]:
    for found in broker_files.replicas_of(Path(source["path"])):
        if isinstance(found, Problem):
            yield _row(source, problem=asdict(found))
        else:
            yield _row(source, topic=found.topic, partition=found.partition, replica=replica_row(found))


def _list_metadata(source: Row) -> Iterator[Row]:
    path = Path(source["path"])
    try:
        _head, document = cluster_metadata.read(path)
        partitions = list(cluster_metadata.partitions(document))  # all or none: half of the leaders would mislead
    except MetadataError as error:
        yield _row(source, problem=asdict(metadata_problem(path, error)))
        return
    except OSError as error:
        yield _row(source, problem=asdict(metadata_problem(path, MetadataError(error.strerror or str(error)))))
        return
    for partition in partitions:
        values = asdict(partition)
        yield _row(source, topic=values.pop("topic"), partition=values.pop("partition"), metadata=values)


def metadata_problem(path: Path, error: MetadataError) -> Problem:
    """What is wrong with a cluster-metadata.json, as a row of input_errors."""
    return Problem(
        path=str(path),
        kind="cluster-metadata.json",
        code="malformed",
        detail=error.reason,
        remedy="write the file again; without it leaders are inferred and no replica is known to be in the ISR",
        line=error.line,
        byte_offset=error.byte_offset,
    )
