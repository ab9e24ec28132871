"""One process at a time makes a run, and what another still writes does not count."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replica_audit.errors import UsageError
from replica_audit.rows import AUDIT_RUNS, INPUT_ERRORS, Table
from replica_audit.storage.warehouse.attempts import Attempt, this_process
from replica_audit.storage.warehouse.holds import Hold, latest_attempt, take
from replica_audit.storage.warehouse.tables import DeltaWarehouse, _do_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ELSEWHERE = replace(this_process(), host="elsewhere", pid=4242)


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DeltaWarehouse:
    made = DeltaWarehouse(spark, str(tmp_path_factory.mktemp("warehouse")))
    for table in (AUDIT_RUNS, INPUT_ERRORS):
        made._create(table)
    return made


class Run:
    """A run of one cluster, as the pipeline writes it."""

    def __init__(self, warehouse: DeltaWarehouse, run_id: str) -> None:
        self.warehouse, self.run_id = warehouse, run_id

    def begun(self, attempt: Attempt, replaces: bool) -> None:
        common = {"run_id": self.run_id, "cluster_id": "c", "run_date": date(2026, 1, 2), "status": attempt.status}
        times = {"started_at": attempt.started_at, "alive_at": attempt.alive_at}
        row = common | times | {"attempt": attempt.number, "holder": asdict(attempt.holder) if attempt.holder else None}
        self.write(AUDIT_RUNS, row, attempt.version, replaces=replaces)

    def write(self, table: Table, row: dict[str, object], fence: int, *, replaces: bool) -> None:
        self.warehouse.write_run(table, self.warehouse.frame(table, [row]), self.run_id, replace=replaces, fence=fence)

    def rows(self, hold: Hold, broker: int) -> None:
        words = {name: "w" for name in ("path", "kind", "code", "detail", "remedy")}
        row = {"run_id": self.run_id, "cluster_id": "c", "broker_id": broker, **words}
        self.write(INPUT_ERRORS, row, hold.attempt.fence, replaces=hold.replaces)

    def take(self, **options: Any) -> Hold:
        return take(self.warehouse, self.run_id, self.begun, **{"started_at": datetime.now(UTC)} | options)

    def brokers(self) -> list[int]:
        """Who has rows, as often as they are there."""
        return sorted(row.broker_id for row in self.warehouse.read(INPUT_ERRORS).where(f"run_id = '{self.run_id}'").collect())

    def attempts(self) -> int:
        return self.warehouse.read(AUDIT_RUNS).where(f"run_id = '{self.run_id}'").count()


@contextmanager
def other_process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def by(process: subprocess.Popen[bytes]) -> Attempt:
    """A running attempt of another process of this machine."""
    began = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    holder = replace(this_process(), pid=process.pid, began=began)
    return Attempt(number=1, started_at=datetime.now(UTC), status="running", holder=holder, alive_at=datetime.now(UTC))


def test_of_several_that_begin_a_run_at_once_one_makes_it(warehouse: DeltaWarehouse) -> None:
    for name in ("new", "new-2"):
        run, got, refused = Run(warehouse, name), list[Hold](), list[str]()
        gate = threading.Barrier(3)

        def begin(run: Run = run, got: list[Hold] = got, refused: list[str] = refused, gate: threading.Barrier = gate) -> None:
            session = run.warehouse.spark.newSession()
            gate.wait()
            try:
                got.append(Run(DeltaWarehouse(session, run.warehouse.location), run.run_id).take())
            except UsageError as error:
                refused.append(str(error))

        threads = [threading.Thread(target=begin) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(got), len(refused), run.attempts()) == (1, 2, 1)
        who = f"--run-id {name} is held by process {os.getpid()} on {this_process().host} since 20"
        assert all(told.startswith(who) for told in refused)


def test_a_run_that_another_process_makes_is_refused_until_that_has_ended(warehouse: DeltaWarehouse) -> None:
    run = Run(warehouse, "taken")
    with other_process() as other:
        theirs = by(other)
        run.begun(theirs, False)
        with pytest.raises(UsageError, match=f"held by process {other.pid} on .* since {theirs.started_at:%Y-%m-%d %H:%M:%S} UTC"):
            run.take()
    hold = run.take()
    assert (hold.attempt.number, hold.replaces, run.attempts()) == (2, True, 1)


def test_a_later_process_of_the_same_number_holds_nothing(warehouse: DeltaWarehouse) -> None:
    run = Run(warehouse, "recycled")
    with other_process() as other:
        theirs = by(other)
        assert theirs.holder
        run.begun(replace(theirs, holder=replace(theirs.holder, began="1")), False)
        assert run.take().attempt.number == 2


@pytest.mark.parametrize(("silent", "is_refused"), [(timedelta(minutes=10), True), (timedelta(minutes=20), False)])
def test_a_process_elsewhere_is_believed_as_long_as_it_shows_life(warehouse: DeltaWarehouse, silent: timedelta, is_refused: bool) -> None:
    run = Run(warehouse, f"elsewhere-{is_refused}")
    began = datetime.now(UTC) - timedelta(hours=3)
    theirs = Attempt(number=1, started_at=began, status="running", holder=ELSEWHERE, alive_at=datetime.now(UTC) - silent)
    run.begun(theirs, False)
    if is_refused:
        with pytest.raises(UsageError, match=r"held by process 4242 on elsewhere since .* last sign of life .* --take-over"):
            run.take()
    hold = run.take(take_over=is_refused)
    assert hold.attempt.number == 2


def test_a_run_of_this_process_that_was_broken_off_is_begun_again(warehouse: DeltaWarehouse) -> None:
    run = Run(warehouse, "broken")
    with pytest.raises(KeyboardInterrupt), run.take() as first:
        run.rows(first, 1)
        with pytest.raises(UsageError, match="held by"):
            run.take()
        raise KeyboardInterrupt
    with run.take() as again:
        run.rows(again, 2)
        run.begun(again.complete(), True)
        again.confirm()
    assert (run.brokers(), run.attempts()) == ([2], 1)
    complete = run.take()
    assert (complete.attempt.number, complete.replaces) == (3, True), "a run that is complete is replaced, as ever"


def test_what_an_earlier_attempt_still_writes_is_passed_over(warehouse: DeltaWarehouse) -> None:
    run = Run(warehouse, "fenced")
    early = run.take()
    late = run.take(take_over=True)
    run.rows(early, 1)  # before the later one has written: replaced by it
    run.rows(late, 2)
    run.rows(early, 1)  # after it
    run.rows(late, 2)  # once more, as after a commit whose answer was lost
    run.begun(late.complete(), True)
    run.begun(early.complete(), True)
    assert (run.brokers(), run.attempts()) == ([2], 1)
    late.confirm()
    with pytest.raises(UsageError, match=f"was taken over by process {os.getpid()} on .*: what this process found does not count"):
        early.confirm()


def test_rows_of_both_at_the_same_moment_are_those_of_one(warehouse: DeltaWarehouse) -> None:
    run = Run(warehouse, "crossed")
    early = run.take()
    late = run.take(take_over=True)
    threads = [threading.Thread(target=run.rows, args=(hold, broker)) for hold, broker in ((early, 1), (late, 2), (early, 1), (late, 2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert run.brokers() == [2]


def test_attempts_of_equal_number_never_append_twice(warehouse: DeltaWarehouse) -> None:
    run = Run(warehouse, "doubled")
    hold = run.take()
    threads = [threading.Thread(target=run.rows, args=(hold, 1)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert run.brokers() == [1]


def test_a_run_whose_rows_were_deleted_can_be_made_again(warehouse: DeltaWarehouse) -> None:
    run = Run(warehouse, "deleted")
    for _attempt in range(3):
        hold = run.take(take_over=True)
    run.rows(hold, 1)
    for table in (INPUT_ERRORS, AUDIT_RUNS):
        warehouse.spark.sql(f"DELETE FROM {warehouse.identifier(table)} WHERE run_id = 'deleted'")  # noqa: S608
    again = run.take()
    run.rows(again, 2)
    run.begun(again.complete(), True)
    again.confirm()
    assert (run.brokers(), run.attempts()) == ([2], 1)


def test_a_run_shows_life_and_ends_when_it_is_taken_over(warehouse: DeltaWarehouse) -> None:
    run = Run(warehouse, "lively")
    with pytest.raises(UsageError, match="was taken over by"), run.take(every_seconds=0.2) as hold:
        deadline = time.monotonic() + 1200
        while time.monotonic() < deadline:
            now = latest_attempt(warehouse, run.run_id)
            assert now is not None
            assert now.alive_at is not None
            if now.alive_at > (hold.attempt.alive_at or now.alive_at):
                break
        else:
            pytest.fail("no sign of life")
        run.take(take_over=True)
        while time.monotonic() < deadline:  # what an audit does: one job after the other
            warehouse.spark.range(10**12).selectExpr("sum(id)").collect()


def test_what_others_run_in_the_same_spark_goes_on_when_a_run_is_taken_over(warehouse: DeltaWarehouse) -> None:
    run, spark, others = Run(warehouse, "beside"), warehouse.spark, list[int]()
    held = threading.Event()

    def slow(row: Any) -> Any:
        time.sleep(4)
        return row

    def beside() -> None:
        held.wait(30)
        others.extend(spark.sparkContext.parallelize([1, 2], 1).map(slow).collect())

    thread = threading.Thread(target=beside)
    thread.start()
    with pytest.raises(UsageError, match="was taken over by"), run.take(every_seconds=0.2):
        held.set()
        time.sleep(1)
        run.take(take_over=True)
        _do_all(spark, [lambda: spark.sparkContext.parallelize(range(60), 1).map(slow).foreach(print)])
    thread.join()
    assert others == [1, 2]
    assert not spark.sparkContext.getJobTags()


def test_a_table_of_an_older_version_gets_the_columns(warehouse: DeltaWarehouse, tmp_path: Path) -> None:
    older = replace(AUDIT_RUNS, columns=tuple(c for c in AUDIT_RUNS.columns if c.name not in ("attempt", "holder", "alive_at")))
    old = DeltaWarehouse(warehouse.spark, str(tmp_path))
    old._create(older)
    run = Run(old, "old")
    began = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    row = {"run_id": "old", "cluster_id": "c", "started_at": began, "run_date": date(2026, 1, 2), "status": "running"}
    old.write_run(older, old.frame(older, [row]), "old", replace=False)
    assert latest_attempt(old, "old") == Attempt(number=0, started_at=began, status="running", holder=None, alive_at=None)
    hold = run.take()
    assert (hold.attempt.number, hold.replaces, run.attempts()) == (1, True, 1)
