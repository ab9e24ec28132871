"""By which digest the next run compares a partition: what was found of it, and which of its rows there are, decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from replica_audit.engine.arrow import spark_schema
from replica_audit.engine.spark_unchanged import fingerprint_rows
from replica_audit.formats.shapes import FINGERPRINTS
from replica_audit.rows import COUNTED
from replica_audit.rows.arrow import OUTCOMES
from replica_audit.rows.encoding import as_dict
from replica_audit.rows.findings import CheckedPartition, FoundFinding
from replica_audit.rows.runs import ReportedProblem
from tests.rows.values import full_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
Row = dict[str, Any]
# the tables with rows besides replica_logs, whether something was found, whether a replica was collected; and the digests that are kept
CASES: dict[str, tuple[tuple[str, ...], bool, bool, set[str]]] = {
    "nothing": ((), False, True, {"quiet"}),
    "a finding": ((), True, True, {"whole"}),
    "what-ifs": (("what_if_rules",), False, True, {"whole"}),
    "sequence gaps of log directories": (("sequence_gaps",), True, False, {"whole"}),
    "sequence gaps of a collection": (("sequence_gaps",), True, True, set()),
    "sequence gaps of a collection that are no finding": (("sequence_gaps",), False, True, set()),
    "an open transaction": (("open_transactions",), False, False, set()),
}
# a problem of the partition's files, and the digests that are kept
PROBLEMS: dict[str, set[str]] = {"cannot-read": set(), "incomplete-collection": set(), "crc-mismatch": {"quiet"}}


def outcome(topic: str, tables: tuple[str, ...], *, is_found: bool) -> Row:
    sizes = [int(table.name in (*tables, "replica_logs")) for table in COUNTED]
    checked = as_dict(full_row(CheckedPartition)) | {"topic": topic, "partition": 0}
    known = {"cluster_id": "c", "sizes": sizes, "verdicts": [], "records_unread": 0, "input_errors": [], "checked": [checked]}
    return {name: None for name in OUTCOMES.names} | known | {"found": [as_dict(full_row(FoundFinding))] if is_found else []}


def now(topic: str, *, is_collected: bool) -> Row:
    keys = {"cluster_id": "c", "topic": topic, "partition": 0, "fingerprint": "whole", "quiet_fingerprint": "quiet"}
    return {**keys, "since_last_run": "new", "broker_ids": [1], "is_collected": is_collected}


def frame(spark: SparkSession, rows: list[Row], schema: pa.Schema) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema), spark_schema(schema))


def test_what_the_next_run_compares(spark: SparkSession) -> None:
    outcomes = [outcome(topic, tables, is_found=is_found) for topic, (tables, is_found, _is_collected, _kept) in CASES.items()]
    seen = [now(topic, is_collected=is_collected) for topic, (_tables, _is_found, is_collected, _kept) in CASES.items()]
    rows = fingerprint_rows(frame(spark, outcomes, OUTCOMES), frame(spark, seen, FINGERPRINTS)).collect()
    assert kept_in(rows) == {topic: kept for topic, (_tables, _is_found, _is_collected, kept) in CASES.items()}


def test_what_could_not_be_read_is_judged_again(spark: SparkSession) -> None:
    problems = {code: [as_dict(full_row(ReportedProblem)) | {"code": code}] for code in PROBLEMS}
    outcomes = [outcome(code, (), is_found=False) | {"input_errors": told} for code, told in problems.items()]
    seen = [now(code, is_collected=True) for code in PROBLEMS]
    assert kept_in(fingerprint_rows(frame(spark, outcomes, OUTCOMES), frame(spark, seen, FINGERPRINTS)).collect()) == PROBLEMS


def kept_in(rows: list[Any]) -> dict[str, set[str]]:
    return {row["topic"]: {row["fingerprint"], row["quiet_fingerprint"]} - {None} for row in rows}
