"""The SQL that a document shows, run by the project's own Spark and Delta on real tables."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.house.checkout import ROOT
from tests.support.warehouse import STARTED, write_warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE = ROOT / "tests" / "data" / "sample" / "multi-round"
STATEMENTS = [
    statement
    for document in sorted((ROOT / "docs").glob("*.md"))
    for statement in re.findall(r"```sql\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
]
_VERSION = re.compile(r"(table_changes_by_path\('[^']+', )\d+\)")  # of the reader's own table


@pytest.mark.spark
def test_the_documents_sql(spark: SparkSession, tmp_path: Path) -> None:
    write_warehouse(tmp_path, SAMPLE, run_id="old", started_at=STARTED - timedelta(days=9))
    write_warehouse(tmp_path, SAMPLE, run_id="new")
    statements = [_VERSION.sub(r"\g<1>1)", statement.replace("/srv/audits", str(tmp_path))) for statement in STATEMENTS]
    answers = [spark.sql(statement).collect() for statement in statements]
    (runs,) = [rows for rows in answers if rows and "_change_type" not in rows[0]]
    assert [row["run_id"] for row in runs] == ["new", "old"]
    (changes,) = [rows for rows in answers if rows and "_change_type" in rows[0]]
    assert {(row["run_id"], row["_change_type"]) for row in changes} == {("new", "insert")}
