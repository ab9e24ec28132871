"""Items between the stages of an audit, in this process and in Spark."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from replica_audit.engine.spark import SparkEngine
from replica_audit.model import Amounts, ScannedSegment
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.stages.inventory import list_source
from replica_audit.stages.items import READINGS, Item, Source
from replica_audit.stages.segments import scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def source(path: Path | str, broker_id: int | None = 1, kind: str = "broker", cluster_id: str = "c") -> Item:
    """A source to be listed."""
    return Item(cluster_id, None, None, broker_id, Source(cluster_id, broker_id, str(path), kind))


def readings(items: Iterable[Item]) -> list[Item]:
    """What is to be read."""
    return [item for item in items if isinstance(item.value, READINGS)]


def scanned(items: Iterable[Item]) -> list[Item]:
    """The segments of what is to be read, one reading after the other."""
    made = (found for item in readings(items) for found in scan(item, CompareMode.CONTENT))
    return [item for item in made if isinstance(item.value, ScannedSegment)]


def listed_in_spark(spark: SparkSession, sources: Iterable[Item], topics: str = "") -> tuple[SparkEngine, DataFrame, Amounts]:
    """An engine of two tasks, the kept items of sources, and how much they hold; the caller releases the engine."""
    engine = SparkEngine(spark, 2)
    listed = engine.keep(engine.flat_map(engine.given(list(sources)), partial(list_source, topics=topics)))
    amounts = [item.value for item in engine.collect(listed, [Amounts])]
    return engine, listed, Amounts(*map(sum, zip(*amounts, strict=True)))


def scanned_in_spark(engine: SparkEngine, listed: DataFrame, amounts: Amounts) -> list[Item]:
    """The segments of what is audited, scanned inside tasks."""
    spread = engine.spread(engine.select(listed, READINGS), amounts)
    return engine.collect(engine.flat_map(spread, partial(scan, mode=CompareMode.CONTENT)), [ScannedSegment])
