"""The JVM in which Spark runs for a command: a child of this process, which ends when this one does. How it is ended, and what ended it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from replica_audit.errors import LostProcessError
from replica_audit.interruption import Interruption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOISE = b"WARNING: Using incubator modules"  # the JVM announces a module that Spark asks for; no option stops it
_END_SECONDS = 30.0
_NOTICED_SECONDS = 5.0  # a broken connection is seen before the end of the process that broke it
_LAST_LINES_SECONDS = 2.0  # a worker may outlive the JVM, whose standard error it has
_OUT_OF_MEMORY = 52  # Spark's own exit code
_AGAIN = "what was being done does not count: start it again"


class _PassedOn:
    """The standard error of what is started while this is entered: it reaches this process's, except for one line."""

    def __init__(self) -> None:
        self.is_dropped = False
        self._own = os.dup(2)
        self._reading, self._writing = os.pipe()
        self._thread = threading.Thread(target=self._pass_on, daemon=True)

    def __enter__(self) -> _PassedOn:
        os.dup2(self._writing, 2)
        os.close(self._writing)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.dup2(self._own, 2)

    def finish(self) -> None:
        """Wait for the last lines."""
        self._thread.join(_LAST_LINES_SECONDS)

    def _pass_on(self) -> None:
        with os.fdopen(self._reading, "rb") as lines:
            for line in lines:
                if not self.is_dropped and not line.startswith(_NOISE):
                    with suppress(OSError):
                        os.write(self._own, line)


@dataclass(frozen=True, slots=True)
class _Jvm:
    process: subprocess.Popen[bytes]
    stderr: _PassedOn


_jvms: list[_Jvm] = []


def start() -> None:
    """Start the JVM by the variable PYSPARK_SUBMIT_ARGS; where spark-submit has started this process, its JVM is there."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    with _PassedOn() as stderr:
        # in a process group of its own: what is sent to this one's, as by Ctrl-C, is for this process, which ends the JVM
        gateway = launch_gateway(popen_kwargs={"process_group": 0})  # type: ignore[no-untyped-call]
    _jvms[:] = [_Jvm(gateway.proc, stderr)]
    SparkContext._ensure_initialized(gateway=gateway)
    # as spark-submit does it: the Python of executors is taken from there (PythonRunner)
    if of_executors := SparkConf().get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = of_executors


def own_session(run_id: str | None = None) -> SparkSession:
    """Return the session of a process that is a command's own; what its JVM logs names the run (conf/log4j2.properties).

    Raises:
        OutputError: as `storage.session.session`.
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    from replica_audit.storage.session import session

    spark = session()
    java: Any = SparkContext._jvm
    if run_id is not None:
        java.System.setProperty("replica_audit.run", f"[{run_id}] ")
    with suppress(Py4JError, TypeError):  # another release of Scala: then Delta prints a line of its own for each VACUUM
        nowhere = java.java.io.PrintStream(java.java.io.OutputStream.nullOutputStream())
        getattr(getattr(java.scala, "Console$"), "MODULE$").setOutDirect(nowhere)
    return spark


def end(*, silently: bool = False) -> None:
    """End the JVM, with all that it does, and wait for it. `silently`: that tasks are broken off is no news."""
    while _jvms:
        jvm = _jvms.pop()
        jvm.stderr.is_dropped = silently
        if jvm.process.stdin:
            with suppress(OSError):
                jvm.process.stdin.close()
        try:
            jvm.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            jvm.process.kill()
            jvm.process.wait()
        jvm.stderr.finish()


def fate(error: BaseException) -> LostProcessError | Interruption | None:
    """Find the process of Spark whose end caused a failure; None if none has ended."""
    if "pyspark" not in sys.modules:
        return None
    from py4j.protocol import Py4JError

    is_cut = isinstance(error, Py4JError | ConnectionError)
    for jvm in _jvms:
        with suppress(subprocess.TimeoutExpired):
            return LostProcessError(_of_jvm(jvm.process.wait(_NOTICED_SECONDS if is_cut else 0)))
    if "PYSPARK_GATEWAY_PORT" in os.environ and is_cut:
        return _of_parent()
    from replica_audit.storage.warehouse.faults import is_of_worker

    if is_of_worker(error):
        return LostProcessError(
            "a Python worker of Spark was killed, most likely by the system for want of memory: give the machine or container more of it, "
            f"or Spark fewer tasks at once (SPARK_MASTER=local[2]); {_AGAIN}"
        )
    return None


def _of_jvm(code: int) -> str:
    more = "give the machine or container more of it, or Spark's JVM less (SPARK_DRIVER_MEMORY)"
    if code == -signal.SIGKILL:
        return f"the JVM that runs Spark was killed (SIGKILL), most likely by the system for want of memory: {more}; {_AGAIN}"
    if code == _OUT_OF_MEMORY:
        return f"the JVM that runs Spark had no memory left: give it more with SPARK_DRIVER_MEMORY (default: 2g); {_AGAIN}"
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return f"the JVM that runs Spark ended {how}, which this command did not ask for; {_AGAIN}"


def _of_parent() -> LostProcessError | Interruption:
    """Explain the end of the JVM that has started this process: its own signals are not seen from here."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    try:
        if SparkContext._jvm and SparkContext._jvm.org.apache.spark.util.ShutdownHookManager.inShutdown():
            return Interruption(signal.SIGTERM)
    except (Py4JError, OSError):
        pass
    return LostProcessError(f"the JVM that runs Spark has ended, by a signal or for want of memory; {_AGAIN}")
