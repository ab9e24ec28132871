"""How the session plans, by how much there is to audit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from replica_audit.storage.session import suit_size

pytestmark = pytest.mark.spark
COMPILES, TASKS = "spark.sql.codegen.wholeStage", "spark.sql.shuffle.partitions"


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    made = spark.newSession()
    for setting, value in ((COMPILES, "false"), (TASKS, "2")):
        made.conf.set(setting, value)
    yield made


def test_little_input_is_planned_cheaply(session: SparkSession) -> None:
    suit_size(session, 2_000)
    assert (session.conf.get(COMPILES), session.conf.get(TASKS)) == ("false", "2")


def test_much_input_is_planned_with_care(session: SparkSession) -> None:
    suit_size(session, 2_001)
    assert (session.conf.get(COMPILES), session.conf.get(TASKS)) == ("true", "8")


def test_a_task_has_no_more_to_do_where_there_is_more(session: SparkSession) -> None:
    suit_size(session, 300_000)
    assert session.conf.get(TASKS) == "38"
    for setting in ("spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.inMemoryColumnarStorage.batchSize"):
        assert session.conf.get(setting) == "512"  # of the defaults of this release, which are 10000


def test_what_the_user_set_stays(session: SparkSession) -> None:
    session.conf.set(TASKS, "200")
    for segments in (1_000_000, 5_000):
        suit_size(session, segments)
        assert session.conf.get(TASKS) == "200"
