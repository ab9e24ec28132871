"""How the session plans, by how much there is to audit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from replica_audit.storage.session import LOOKS_OF_A_TASK, SuitedSession

pytestmark = pytest.mark.spark
COMPILES, TASKS = "spark.sql.codegen.wholeStage", "spark.sql.shuffle.partitions"


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    made = spark.newSession()
    for setting, value in ((COMPILES, "false"), (TASKS, "2")):
        made.conf.set(setting, value)
    yield made


def test_little_input_is_planned_cheaply(session: SparkSession) -> None:
    SuitedSession(session).suit(2_000)
    assert (session.conf.get(COMPILES), session.conf.get(TASKS)) == ("false", "2")


def test_much_input_is_planned_with_care(session: SparkSession) -> None:
    SuitedSession(session).suit(2_001)
    assert (session.conf.get(COMPILES), session.conf.get(TASKS)) == ("true", "8")


def test_a_task_has_no_more_to_do_where_there_is_more(session: SparkSession) -> None:
    SuitedSession(session).suit(300_000)
    assert session.conf.get(TASKS) == "38"
    for setting in ("spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.inMemoryColumnarStorage.batchSize"):
        assert session.conf.get(setting) == "512"  # of the defaults of this release, which are 10000


def test_what_the_user_set_stays(session: SparkSession) -> None:
    session.conf.set(TASKS, "200")
    suited = SuitedSession(session)
    for pieces in (1_000_000, 5_000):
        suited.suit(pieces)
        assert session.conf.get(TASKS) == "200"


def test_what_comes_next_is_suited_by_what_it_is(session: SparkSession) -> None:
    suited = SuitedSession(session)
    for pieces, of_a_task, tasks in ((400_000, LOOKS_OF_A_TASK, "10"), (400_000, 8_000, "50"), (5_000, 8_000, "8"), (10, 8_000, "8")):
        suited.suit(pieces, of_a_task)
        assert session.conf.get(TASKS) == tasks
