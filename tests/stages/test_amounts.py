"""What there is to read of raw and collected brokers, one of whose coordinators is not audited; and that nothing of it is left out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replica_audit.engine.spark import Amounts, inventory, segments, source_rows
from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC
from tests.collect.collections import collect_broker
from tests.formats import kafka_files as kf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
REPLICAS = ("orders-0", f"{GROUP_OFFSETS_TOPIC}-0")


@pytest.mark.parametrize(
    ("forms", "logs", "collections"),
    [(("raw",), 2, 0), (("collected",), 0, 2), (("raw", "collected"), 2, 2), (("raw", "collected", "collected"), 2, 4)],
)
def test_segments_of_either_form_are_read(spark: SparkSession, tmp_path: Path, forms: tuple[str, ...], logs: int, collections: int) -> None:
    sources = []
    for broker, form in enumerate(forms, 1):
        folder = tmp_path / "raw" / f"broker-{broker}"
        kf.log_dir(folder / "data-0", *REPLICAS, broker_id=broker)
        if form == "collected":
            folder = collect_broker(folder, tmp_path / "collected").folder
        sources.append(("c", broker, str(folder), "broker"))
    listed = inventory(source_rows(spark, sources), "orders")
    there = Amounts.of(listed)
    assert (there.logs, there.collections) == (logs, collections)
    assert there.replicas == len(forms), "a coordinator is read, and not audited"
    read = segments(listed, 2, there.size, has_collections=bool(there.collections), has_logs=bool(there.logs))
    found = sorted((row["broker_id"], row["topic"]) for row in read.select("broker_id", "topic").collect())
    assert found == sorted((broker, name.rpartition("-")[0]) for broker in range(1, len(forms) + 1) for name in REPLICAS)
