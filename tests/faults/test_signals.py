"""Audits that are asked to end, and audits that lose a process: one line, the exit code of the signal, and what does not count is said.

REPLICA_AUDIT_SIGNALS is how many more signals are sent at random moments (0), REPLICA_AUDIT_SIGNAL_SEED what they are drawn from (0).
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.audit_process import AuditProcess, Victim, started
from tests.faults.nights import LOSS, runs

pytestmark = [pytest.mark.spark, pytest.mark.slow]
RANDOM = int(os.environ.get("REPLICA_AUDIT_SIGNALS", "0"))
SEED = int(os.environ.get("REPLICA_AUDIT_SIGNAL_SEED", "0"))
NOT_COUNTED = "interrupted: the run is not complete, its rows do not count"
COUNTED = "interrupted: the run is complete and counts; what --json, --html and --metrics name may be missing"
STARTING, READING, WRITING, REPORTING = "run ", "reading", "writing the tables", "] done"
_MOST_SECONDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A signal, to whom it goes, and when: so many seconds after a line of progress."""

    number: signal.Signals
    to_group: bool
    after: str
    seconds: float = 0.0

    def __str__(self) -> str:
        to = "group" if self.to_group else "process"
        return f"{self.number.name}-{to}-{self.after.strip('] ')}-{self.seconds:.2f}"


def drawn(point: int) -> Request:
    chosen = random.Random(f"{SEED} {point}")  # noqa: S311
    return Request(
        number=chosen.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]),
        to_group=chosen.random() < 0.5,
        after=chosen.choice([STARTING, READING, WRITING, REPORTING]),
        seconds=chosen.uniform(0, 4),
    )


BY_DAY = [Request(number=signal.SIGINT, to_group=True, after=READING)]  # SIGTERM: jobs/test_watching.py
IN_THE_NIGHT = [
    Request(number=signal.SIGHUP, to_group=True, after=WRITING),
    Request(number=signal.SIGTERM, to_group=False, after=STARTING),
    Request(number=signal.SIGTERM, to_group=True, after=REPORTING),
    *map(drawn, range(RANDOM)),
]


def wait_for(process: AuditProcess, line: str) -> None:
    until = time.monotonic() + _MOST_SECONDS
    while not any(line in told.removeprefix("[r] ") for told in list(process.lines)):
        assert process.is_running() and time.monotonic() < until, process.lines
        time.sleep(0.01)


def arguments(folder: Path) -> list[str]:
    return ["--input", str(LOSS), "--run-id", "r", "--termination-message", str(folder / "message"), "--html", str(folder / "page.html")]


def own_lines(process: AuditProcess) -> list[str]:
    """What was told besides progress."""
    told = [line.removeprefix("[r] ") for line in process.lines]
    return [line for line in told if not line.startswith(("[", "run r "))]


@pytest.mark.parametrize("request_", [*BY_DAY, *(pytest.param(one, marks=pytest.mark.nightly) for one in IN_THE_NIGHT)], ids=str)
def test_a_signal_ends_it_in_a_line(tmp_path: Path, request_: Request) -> None:
    warehouse = tmp_path / "warehouse"
    with started(warehouse, tmp_path, *arguments(tmp_path)) as process:
        wait_for(process, request_.after)
        time.sleep(request_.seconds)
        was_running = process.is_running()
        if was_running:
            process.send(request_.number, to_group=request_.to_group)
        code = process.end()
    message = json.loads((tmp_path / "message").read_text())
    assert message["exit_code"] == code
    is_complete = warehouse.is_dir() and runs(warehouse).get("r") == {"complete"}
    if code == 1:  # it had ended all the same
        assert is_complete
        return
    assert was_running
    assert code == 128 + request_.number
    (line,) = own_lines(process)
    assert line == message["message"] == (COUNTED if is_complete else NOT_COUNTED)


@pytest.mark.parametrize(
    ("victim", "said"),
    [
        (Victim.JVM, "error: the JVM that runs Spark was killed (SIGKILL), most likely by the system for want of memory: "),
        pytest.param(
            Victim.WORKERS,
            "error: a Python worker of Spark was killed, most likely by the system for want of memory: ",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_a_lost_process_is_named(tmp_path: Path, victim: Victim, said: str) -> None:
    warehouse = tmp_path / "warehouse"
    with started(warehouse, tmp_path, *arguments(tmp_path)) as process:
        wait_for(process, READING)
        until = time.monotonic() + _MOST_SECONDS
        while not (chosen := list(process.pids(victim))):
            assert process.is_running() and time.monotonic() < until
        for pid in chosen:
            os.kill(pid, signal.SIGKILL)
        code = process.end()
    message = json.loads((tmp_path / "message").read_text())
    assert code == message["exit_code"] == 137
    *_others, line = own_lines(process)
    assert line.startswith(said) and line == f"error: {message['message']}"
    assert "Traceback" not in "".join(process.lines) and "bug" not in line and "fix that" not in line
    assert runs(warehouse) == {"r": {"running"}}
