"""The Spark session, and what it is doing."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import ceil
from types import TracebackType

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from replica_audit.engine.releases import is_connect, make_active, settings_of
from replica_audit.files import object_store
from replica_audit.progress import Progress
from replica_audit.storage.warehouse.faults import check, working_places

_EVERY_SECONDS = 0.5
_ENDPOINT = "AWS_ENDPOINT_URL_S3"
_OF_HADOOP = {
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
    "session.token": "AWS_SESSION_TOKEN",
    "endpoint.region": "AWS_REGION",
    "endpoint": _ENDPOINT,
}

_SEGMENTS_ARE_MANY = 2_000
_FOR_MUCH = {
    # setting: (its value in conf/spark-defaults.conf, which suits little input; the one that suits much)
    "spark.sql.adaptive.enabled": ("false", "true"),
    "spark.sql.codegen.wholeStage": ("false", "true"),
    "spark.sql.codegen.factoryMode": ("NO_CODEGEN", "FALLBACK"),
    # a row is a whole partition of a topic, with all that is known or said of it: ten thousand of them are 100 MB, several times at once
    "spark.sql.execution.arrow.maxRecordsPerBatch": ("10000", "512"),
    "spark.sql.inMemoryColumnarStorage.batchSize": ("10000", "512"),
}
_SUITED = (*_FOR_MUCH, "spark.sql.shuffle.partitions")
_LEAST_TASKS, _SEGMENTS_OF_A_TASK = 8, 8_000  # what a task needs of memory does not grow with the input


def suit_size(spark: SparkSession, segments: int) -> None:
    """Let the session plan adaptively, and compile its plans, where many segments are to be judged. What the user set otherwise stays."""
    if segments <= _SEGMENTS_ARE_MANY:
        return
    tasks = max(_LEAST_TASKS, ceil(segments / _SEGMENTS_OF_A_TASK))
    for setting, (little, much) in {**_FOR_MUCH, "spark.sql.shuffle.partitions": ("2", str(tasks))}.items():
        if spark.conf.get(setting) == little:
            spark.conf.set(setting, much)


@contextmanager
def own_session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session for the block alone, with the settings of another: what is set in it is set nowhere else.

    The other is left as it was: its settings, and which session is this thread's active one.
    """
    if is_connect(spark):  # which has but one on its connection
        before = settings_of(spark)
        try:
            yield spark
        finally:
            for name in _SUITED:
                if name in before:
                    spark.conf.set(name, before[name])
                else:
                    spark.conf.unset(name)
        return
    active, own = SparkSession.getActiveSession() or spark, spark.newSession()
    known = settings_of(own)
    for name, value in settings_of(spark).items():
        if known.get(name) != value:
            with suppress(PySparkException):  # of those that no session may change
                own.conf.set(name, value)
    try:
        yield own
    finally:
        with suppress(Py4JError, OSError):  # whose JVM is gone, as has been told
            make_active(active)


def session() -> SparkSession:
    """Return the session that spark-submit configured, in a process that is the command's own.

    Raises:
        OutputError: Spark's working directory cannot be written: it would end the process without a word.
    """
    SparkContext._ensure_initialized()  # the settings are those of the JVM
    conf = SparkConf()
    check(working_places(conf))
    _silence_broken_calls()
    before = signal.getsignal(signal.SIGINT)
    _take_store_settings(conf)
    builder = SparkSession.builder.appName("replica-audit")
    for name, value in _for_hadoop(conf).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    # what functions of Python are sent along with to executors, and shown nowhere
    spark.sparkContext.environment.update({name: os.environ[name] for name in object_store.VARIABLES if name in os.environ})
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)  # Spark takes it for itself
    # without the JVM it would print a traceback
    spark.sparkContext._accumulatorServer.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
    return spark


def _silence_broken_calls() -> None:
    """Keep py4j from logging the traceback of each broken call: all of them are also raised."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    root = logging.getLogger()  # which it uses for some
    if _is_not_of_py4j not in root.filters:
        root.addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


def _take_store_settings(conf: SparkConf) -> None:
    """Let this process find the S3 that Hadoop was told of: by the variables of AWS."""
    for setting, name in _OF_HADOOP.items():
        if value := conf.get(f"spark.hadoop.fs.s3a.{setting}"):
            os.environ[name] = value
    endpoint = os.environ.get(_ENDPOINT, "")
    if endpoint and "://" not in endpoint:
        is_plain = conf.get("spark.hadoop.fs.s3a.connection.ssl.enabled") == "false"
        os.environ[_ENDPOINT] = f"{'http' if is_plain else 'https'}://{endpoint}"


def _for_hadoop(conf: SparkConf) -> dict[str, str]:
    """Return settings that let Hadoop's connector find what the variables of AWS name, as far as Spark was not told itself."""
    settings = {setting: os.environ.get(name) for setting, name in _OF_HADOOP.items()}
    settings["endpoint"] = settings["endpoint"] or os.environ.get("AWS_ENDPOINT_URL")
    settings["endpoint.region"] = settings["endpoint.region"] or os.environ.get("AWS_DEFAULT_REGION")
    if settings["endpoint"]:  # a store of another kind has no name for each bucket, and any region
        settings |= {"path.style.access": "true", "endpoint.region": settings["endpoint.region"] or "us-east-1"}
    named = {f"spark.hadoop.fs.s3a.{setting}": value for setting, value in settings.items() if value}
    return {name: value for name, value in named.items() if not conf.contains(name)}


class StageProgress:
    """Counts while it is entered, twice a second, how many tasks of the running stages are done, unless they are Spark Connect's."""

    def __init__(self, spark: SparkSession, progress: Progress) -> None:
        """Watch a session."""
        self._tracker = None if is_connect(spark) else spark.sparkContext.statusTracker()
        self._progress = progress
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
        while self._tracker is not None and not self._stop.wait(_EVERY_SECONDS):
            try:
                stages = [info for stage in self._tracker.getActiveStageIds() if (info := self._tracker.getStageInfo(stage))]
            except (Py4JError, OSError):  # whose JVM is gone, as the work will find, too
                return
            if stages:
                done, total = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
                self._progress.count(done, total, "tasks")
