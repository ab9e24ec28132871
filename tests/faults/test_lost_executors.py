"""Attempts of tasks that are lost or made twice: each writes files of tables, and of no row a table has more than one.

On a real cluster of two executors, one of which is killed, or stands still, while it writes.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from replica_audit.rows import AUDIT_RUNS
from tests.cluster_mode.standalone import Cluster, standalone
from tests.cluster_mode.test_standalone import AT_LOOPBACK
from tests.faults.audit_process import AuditProcess, files_below, processes, started
from tests.faults.nights import LOSS, read, unknown_files
from tests.support.engines import differing_tables

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.nightly]
SEVERAL_TASKS = (
    f"{AT_LOOPBACK} --conf spark.sql.shuffle.partitions=6 --conf spark.eventLog.enabled=true --conf spark.eventLog.compress=false"
)
SPECULATING = (
    "--conf spark.speculation=true --conf spark.speculation.interval=100ms --conf spark.speculation.quantile=0.1 "
    "--conf spark.speculation.task.duration.threshold=10s"  # of a stage of one task
)
# a table's file as a task writes it; those of Delta's own writer begin with a number
OF_TASKS = re.compile(r"part-[0-9a-f]{8}-[0-9a-f]{4}-.*\.parquet")
ATTEMPTS = 5
EXECUTORS = 2
LINES_BEFORE_TABLES = 2  # what was found, and what is read


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


def below(pid: int) -> Iterator[int]:
    """The processes that a process has started, and what those have, as of now."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from below(int(child))


def executors(cluster: Cluster) -> list[int]:
    """The JVMs of a cluster's executors: each is started in a folder of its worker."""
    found = []
    for pid, _fields in processes():
        with suppress(OSError):
            cwd = str(Path(f"/proc/{pid}/cwd").readlink())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if cwd.startswith(f"{cluster.scratch.parent}/work-") and b"CoarseGrainedExecutorBackend" in command:
                found.append(pid)
    return sorted(found)


def files_of_tasks(warehouse: Path) -> int:
    """How many files of tables tasks have begun; it takes less than the writing of one."""
    return sum(OF_TASKS.fullmatch(Path(path).name) is not None for path in files_below(warehouse))


def writes(pid: int, warehouse: Path) -> bool:
    """Whether a process has a file of a table open."""
    with suppress(OSError):
        for link in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                target = Path(link.path).readlink()
                if target.is_relative_to(warehouse) and OF_TASKS.fullmatch(target.name):
                    return True
    return False


def told(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def wait_for_a_writer(audit: AuditProcess, cluster: Cluster, warehouse: Path) -> tuple[int, int] | None:
    """An executor and its Python that is writing a file of a table, which is stopped; None if none was seen to write."""
    known, running = 0, list[int]()
    while audit.is_running():
        if len(running) < EXECUTORS or len(audit.lines) < LINES_BEFORE_TABLES:
            time.sleep(0.05)
            running = executors(cluster)
            continue
        if (there := files_of_tasks(warehouse)) == known:
            continue
        known = there
        workers = {worker: executor for executor in running for worker in below(executor)}
        told(workers, signal.SIGSTOP)  # all of them, and then a look at which one it is
        writer = next((worker for worker in workers if writes(worker, warehouse)), None)
        told((worker for worker in workers if worker != writer), signal.SIGCONT)
        if writer is not None:
            return workers[writer], writer
    return None


def ends_of_tasks(folder: Path) -> Iterator[dict[str, Any]]:
    """What Spark noted of each attempt at a task that ended."""
    for log in folder.rglob("events_*"):
        for line in log.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd":
                yield event


def audited(cluster: Cluster, folder: Path, settings: str, fault: Callable[[int, int], None]) -> list[dict[str, Any]]:
    """An audit that a fault meets while an executor writes; every row is checked to be there once. Returns how attempts at tasks ended.

    A file is written within milliseconds: the audit is made again where nobody was seen to write one.
    """
    for attempt in range(ATTEMPTS):
        warehouse, working, events = (folder / f"{name}-{attempt}" for name in ("warehouse", "working", "events"))
        for made in (working, events):
            made.mkdir()
        options = f"{SEVERAL_TASKS} --conf spark.eventLog.dir=file://{events} {settings}"
        arguments = ("--input", str(LOSS), "--run-id", "one")
        with started(warehouse, working, *arguments, SPARK_MASTER=cluster.master, SPARK_SUBMIT_ARGS=options) as audit:
            if (writing := wait_for_a_writer(audit, cluster, warehouse)) is None:
                assert audit.end() == 1, audit.errors()
                continue
            try:
                fault(*writing)
                assert audit.end() == 1, audit.errors()
            finally:
                told(writing[1:], signal.SIGKILL)
        assert differing_tables(warehouse, [str(LOSS)], Settings()) == []
        assert any(OF_TASKS.fullmatch(path.name) for path in unknown_files(warehouse)), "what the lost attempt wrote"
        return list(ends_of_tasks(events))
    raise AssertionError(f"no task was seen to write a file in {ATTEMPTS} audits")


def test_an_executor_that_is_killed_while_it_writes(cluster: Cluster, tmp_path: Path) -> None:
    def kill(executor: int, worker: int) -> None:
        for pid in (executor, worker):
            os.kill(pid, signal.SIGKILL)

    ended = audited(cluster, tmp_path, "", kill)
    assert Counter(event["Task End Reason"]["Reason"] for event in ended)["ExecutorLostFailure"] >= 1


def test_a_task_that_is_made_a_second_time_because_it_is_slow(cluster: Cluster, tmp_path: Path) -> None:
    ended = audited(cluster, tmp_path, SPECULATING, lambda _executor, _worker: None)
    assert [event for event in ended if event["Task Info"]["Speculative"] and event["Task End Reason"]["Reason"] == "Success"]
    assert Counter(event["Task End Reason"]["Reason"] for event in ended)["TaskKilled"] >= 1, "the first attempt stood still"


def test_all_executors_are_killed_once_the_replicas_are_compared(cluster: Cluster, tmp_path: Path) -> None:
    for attempt in range(ATTEMPTS):
        warehouse, working = tmp_path / f"warehouse-{attempt}", tmp_path / f"working-{attempt}"
        working.mkdir()
        options = SEVERAL_TASKS.replace("spark.eventLog.enabled=true", "spark.eventLog.enabled=false")
        arguments = ("--input", str(LOSS), "--run-id", "one")
        with started(warehouse, working, *arguments, SPARK_MASTER=cluster.master, SPARK_SUBMIT_ARGS=options) as audit:
            while audit.is_running() and not any("compared the replicas" in line for line in audit.lines):
                time.sleep(0.01)
            told(executors(cluster), signal.SIGKILL)
            code = audit.end()
        if code == 1:
            assert differing_tables(warehouse, [str(LOSS)], Settings()) == []
        else:
            assert (code, any("does not count" in line for line in audit.lines)) == (2, True), audit.lines
            assert {row["status"] for row in read(warehouse, AUDIT_RUNS)} == {"running"}
