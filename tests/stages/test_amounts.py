"""What there is to read of raw and collected brokers, one of whose coordinators is not audited; and that nothing of it is left out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC
from replica_audit.stages.inventory import COORDINATORS
from replica_audit.stages.items import READINGS
from tests.collect.collections import collect_broker
from tests.formats import kafka_files as kf
from tests.support.items import listed_in_spark, scanned_in_spark, source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
REPLICAS = ("orders-0", f"{GROUP_OFFSETS_TOPIC}-0")


@pytest.mark.parametrize("forms", [("raw",), ("collected",), ("raw", "collected"), ("raw", "collected", "collected")])
def test_segments_of_either_form_are_read(spark: SparkSession, tmp_path: Path, forms: tuple[str, ...]) -> None:
    sources = []
    for broker, form in enumerate(forms, 1):
        folder = tmp_path / "raw" / f"broker-{broker}"
        kf.log_dir(folder / "data-0", *REPLICAS, broker_id=broker)
        if form == "collected":
            folder = collect_broker(folder, tmp_path / "collected").folder
        sources.append(source(folder, broker))
    for topics, read in (("orders", REPLICAS[:1]), ("", REPLICAS)):
        engine, listed, amounts = listed_in_spark(spark, sources, topics)
        assert (amounts.replicas, amounts.group_offsets, amounts.transaction_states) == (len(forms) * len(read), len(forms), 0)
        assert amounts.segments == 2 * len(forms) and amounts.size_bytes > 0, "a coordinator is read, and not always audited"
        found = sorted((item.broker_id, item.topic) for item in scanned_in_spark(engine, listed, amounts))
        assert found == sorted((broker, name.rpartition("-")[0]) for broker in range(1, len(forms) + 1) for name in read)
        apart = engine.of_topic(listed, READINGS, COORDINATORS[0])
        assert {item.topic for item in engine.collect(apart, READINGS)} == {GROUP_OFFSETS_TOPIC}
        engine.release()
