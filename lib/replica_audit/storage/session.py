"""The Spark session, and what it is doing."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

from pyspark.sql import SparkSession

_EVERY_SECONDS = 10.0


def session() -> SparkSession:
    """The session that spark-submit configured."""
    spark = SparkSession.builder.appName("replica-audit").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupted)
    return spark


def _interrupted(_signal: int, _frame: FrameType | None) -> None:
    """Ctrl-C: PySpark's own handler would print the tracebacks of every call that it breaks off."""
    logging.disable(logging.CRITICAL)
    raise KeyboardInterrupt


class StageProgress:
    """Tells, every ten seconds while it is entered, how many tasks of the running stages are done."""

    def __init__(self, spark: SparkSession, tell: Callable[[str], None], every_seconds: float = _EVERY_SECONDS) -> None:
        """Watch a session; `tell` takes a line."""
        self._tracker = spark.sparkContext.statusTracker()
        self._tell = tell
        self._every = every_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> StageProgress:
        """Start watching."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(self._every):
            stages = [info for stage in self._tracker.getActiveStageIds() if (info := self._tracker.getStageInfo(stage))]
            if stages:
                done, total = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
                self._tell(f"... {done} of {total} tasks done")
