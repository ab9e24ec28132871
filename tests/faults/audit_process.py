"""An audit as spark-submit.sh starts it, its progress as seen from outside, and its end by SIGKILL at a chosen moment of that progress."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.house.checkout import ROOT
from tests.kafka_lab.process import end_with_parent

_PROC = Path("/proc")
_END_SECONDS = 600
_SHELL = ("PATH", "HOME", "JAVA_HOME")
_LEAST_SECONDS = 0.002
_SHARE = 5  # of a core, so that who is watched is not held up


class Victim(StrEnum):
    """Which of an audit's processes are killed: the Python that was started, its JVM and the workers of that, or some of them alone."""

    EVERYTHING = "everything"
    PYTHON = "python"
    JVM = "jvm"
    WORKERS = "workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A moment of an audit: `seconds` after it has told `lines` lines and made `files` files below its warehouse."""

    lines: int
    files: int
    seconds: float


class AuditProcess:
    """A started audit: its session has all that it starts."""

    def __init__(self, process: subprocess.Popen[str], warehouse: Path) -> None:
        """Begin to read what it tells; `warehouse` may not be there yet."""
        self._process, self._warehouse = process, warehouse
        self._known = files_below(warehouse)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            self.lines.append(line.rstrip("\n"))

    def wait_for(self, moment: Moment) -> bool:
        """Wait until the moment has come; False if the audit ended before."""
        while len(self.lines) < moment.lines or not self._has_made(moment.files):
            if self._process.poll() is not None:
                return False
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(moment.seconds)
        return self._process.poll() is None

    def _has_made(self, files: int) -> bool:
        with unhurried():
            return not files or len(files_below(self._warehouse) - self._known) >= files

    def kill(self, victim: Victim) -> None:
        """Kill, at once, and wait until every process of the audit is gone."""
        chosen = list(self.pids(victim))
        for number in (signal.SIGSTOP, signal.SIGKILL):  # none of them sees another one's end
            for pid in chosen:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        self.end()

    def pids(self, of: Victim) -> Iterator[int]:
        """The processes of the audit that are of a kind."""
        for pid in self._session():
            is_one = {
                Victim.EVERYTHING: True,
                Victim.PYTHON: pid == self._process.pid,
                Victim.JVM: b"org.apache.spark.deploy.SparkSubmit" in _command(pid),
                Victim.WORKERS: b"pyspark.daemon" in _command(pid),
            }
            if is_one[of]:
                yield pid

    def send(self, number: int, *, to_group: bool) -> None:
        """Send a signal to the process that was started, or to its group, as a terminal does."""
        (os.killpg if to_group else os.kill)(self._process.pid, number)

    def end(self) -> int:
        """The exit code, once every process of the audit is gone.

        Raises:
            AssertionError: one of them does not end.
        """
        until = time.monotonic() + _END_SECONDS
        try:
            self._process.wait(_END_SECONDS)
            while left := list(self._session()):
                assert time.monotonic() < until, f"still there: {[(pid, _command(pid)) for pid in left]}"
                time.sleep(_LEAST_SECONDS)
        finally:
            self.stop()
        self._reader.join(_END_SECONDS)
        return self._process.returncode

    def stop(self) -> None:
        """End whatever of it is left."""
        for pid in self._session():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def errors(self) -> list[str]:
        """What it told besides its progress."""
        return [line for line in self.lines if not line.startswith("[")]

    def _session(self) -> Iterator[int]:
        for pid, fields in processes():
            if int(fields[3]) == self._process.pid and fields[0] not in "ZX":
                yield pid


def processes() -> Iterator[tuple[int, list[str]]]:
    """Every process with its fields from the state on: state, parent, group, session."""
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                yield int(folder.name), (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()


def _command(pid: int) -> bytes:
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return b""


def files_below(folder: Path) -> set[str]:
    """The paths of all files below a folder, also of those that are about to be renamed or removed."""
    found = set()
    for at, _folders, names in os.walk(folder):
        found |= {f"{at}/{name}" for name in names}
    return found


@contextmanager
def unhurried() -> Iterator[None]:
    """Rest after a look for some times as long as it took."""
    began = time.monotonic()
    yield
    time.sleep(max(_LEAST_SECONDS, _SHARE * (time.monotonic() - began)))


@contextmanager
def started(warehouse: Path, working: Path, *arguments: str, job: str = "audit", **variables: str) -> Iterator[AuditProcess]:
    """Start a job by spark-submit.sh, and leave nothing of it. `working` is for what Spark keeps on disk."""
    with started_job(job, warehouse, working, "--warehouse", str(warehouse), *arguments, **variables) as audit:
        yield audit


@contextmanager
def started_job(job: str, written: Path, working: Path, *arguments: str, **variables: str) -> Iterator[AuditProcess]:
    """The same of a job that may have no warehouse. `written` is the folder in which it makes files."""
    kept = {name: os.environ[name] for name in _SHELL if name in os.environ}
    command: Sequence[str] = [str(ROOT / "spark-submit.sh"), job, *arguments]
    process = subprocess.Popen(
        command,
        env={**kept, "SPARK_LOCAL_DIRS": str(working), "SPARK_MASTER": "local[2]", **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=end_with_parent,
    )
    audit = AuditProcess(process, written)
    try:
        yield audit
    finally:
        audit.stop()
