"""A Spark standalone cluster on the loopback: one master and two workers, whose machines know nothing of this project's folder."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.kafka_lab.process import end_with_parent

_WAIT_SECONDS = 600
_ANYWHERE = ("--port", "0", "--webui-port", "0")
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """`master` is the URL to submit to; `spark_home` and `scratch` (for temporary files) are the workers' own."""

    master: str
    spark_home: Path
    scratch: Path


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Start a cluster whose workers have one core each, and each an address of its own; and stop it by its process ids.

    The workers' Spark is under another path than the driver's. Their Python is the one that made .venv/, without any of its packages; their
    home cannot be written to, and they are told nothing of the environment of this process.
    """
    home, path, scratch = folder / "spark", folder / "bin", folder / "scratch"
    home.symlink_to(Path(pyspark.__file__).parent)
    for made in (path, scratch, folder / "elsewhere"):
        made.mkdir()
    bare_python = Path(sys.executable).resolve()
    for name in ("python3", f"python3.{sys.version_info.minor}"):
        (path / name).symlink_to(bare_python)
    java = shutil.which("java")
    assert java
    variables = {
        "PATH": f"{path}:{Path(java).parent}:/usr/bin:/bin",
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_JAVA_OPTS": _JVM,
        "SPARK_DAEMON_MEMORY": "128m",
        "HOME": os.devnull + "/nobody",
        "TMPDIR": str(scratch),
        **({"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}),
    }
    spark_class = str(home / "bin" / "spark-class")
    with ExitStack() as running:

        def daemon(name: str, host: str, *arguments: str) -> _Daemon:
            command = [spark_class, f"org.apache.spark.deploy.{arguments[0]}", "--host", host, *_ANYWHERE, *arguments[1:]]
            its_own = {**variables, "SPARK_LOCAL_IP": host}
            return running.enter_context(_started(command, folder / f"{name}.log", folder / "elsewhere", its_own))

        master = daemon("master", "127.0.0.1", "master.Master")
        url = master.says(r"Starting Spark master at (spark://\S+)")
        size = ("--cores", "1", "--memory", "1g")
        started = [
            daemon(f"worker-{number}", f"127.0.0.{number + 1}", "worker.Worker", "--work-dir", str(folder / f"work-{number}"), *size, url)
            for number in range(workers)
        ]
        for worker in started:
            worker.says(r"Successfully registered with master (\S+)")
        yield Cluster(master=url, spark_home=home, scratch=scratch)


@dataclass(frozen=True, slots=True)
class _Daemon:
    process: subprocess.Popen[bytes]
    log: Path

    def says(self, pattern: str) -> str:
        """What it says in its log, as soon as it does."""
        until = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            match = re.search(pattern, self.log.read_text(errors="replace"))
            if match:
                return match[1]
            time.sleep(0.1)
        raise RuntimeError(f"{self.log.name} does not say {pattern}:\n{self.log.read_text(errors='replace')[-2000:]}")


@contextmanager
def _started(command: Sequence[str], log: Path, cwd: Path, variables: dict[str, str]) -> Iterator[_Daemon]:
    """A process in a session of its own, which is ended with whatever it started there."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
    try:
        yield _Daemon(process, log)
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
