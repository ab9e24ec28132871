"""Faults of the places that a run writes to: full, read-only, taken away. They are the machine's, not the program's, and said in a line.

What the JVM says is the trace of whoever met the fault first, in the words of the machine's language. So each place is tried again, here.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from delta import exceptions as delta_exceptions
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from replica_audit.engine.releases import is_connect
from replica_audit.errors import OutputError
from replica_audit.rows import AUDIT_RUNS
from replica_audit.storage.warehouse.place import WrittenPlace, fault_of, warehouse_place
from replica_audit.storage.warehouse.rewrites import CommitConflictError

_DEEPEST = 20
# what Delta raises where two commits cannot both be; whoever lost has changed nothing, and may try again
_CONFLICTS = (
    delta_exceptions.ConcurrentAppendException,
    delta_exceptions.ConcurrentDeleteDeleteException,
    delta_exceptions.ConcurrentDeleteReadException,
    delta_exceptions.ConcurrentTransactionException,
    delta_exceptions.ConcurrentWriteException,
    delta_exceptions.MetadataChangedException,
    delta_exceptions.ProtocolChangedException,
)
_CONFLICT_CLASSES = frozenset(f"io.delta.exceptions.{kind.__name__}" for kind in _CONFLICTS)
_NAMED_CLASS = re.compile(r"\(([\w.]+)\) ")

_BROKEN_CONNECTIONS = frozenset(
    ("java.io.EOFException", "java.io.IOException", "java.net.SocketException", "java.nio.channels.ClosedChannelException")
)
_OF_WORKERS = ("org.apache.spark.api.python.", "org.apache.spark.sql.execution.python.")


def causes(error: BaseException) -> Iterator[Any]:
    """The Java exceptions of a failure, outermost first; none if it happened in Python alone."""
    found: BaseException | None = error
    while isinstance(found, CapturedException) and found._origin is None:
        found = found._cause
    thrown = found.java_exception if isinstance(found, Py4JJavaError) else found._origin if isinstance(found, CapturedException) else None
    for _depth in range(_DEEPEST):
        if thrown is None:
            return
        yield thrown
        thrown = thrown.getCause()


def class_name(thrown: Any) -> str:
    """The class of a Java exception, with its package."""
    return str(thrown.getClass().getName())


def is_of_worker(error: BaseException) -> bool:
    """Whether Spark lost the connection to one of its Python workers, which ends where that process does."""
    innermost = list(causes(error))[-1:]
    return any(class_name(thrown) in _BROKEN_CONNECTIONS and _speaks_to_worker(thrown) for thrown in innermost)


def _speaks_to_worker(thrown: Any) -> bool:
    return any(str(frame.getClassName()).startswith(_OF_WORKERS) for frame in thrown.getStackTrace())


def is_conflict(error: BaseException) -> bool:
    """Whether a commit failed only because another was there first."""
    if isinstance(error, (CommitConflictError, *_CONFLICTS)) or any(class_name(thrown) in _CONFLICT_CLASSES for thrown in causes(error)):
        return True
    # of an exception on the server Spark Connect gives but a text, which begins with its class
    named = _NAMED_CLASS.match(str(error)) if isinstance(error, PySparkException) else None
    return named is not None and named[1] in _CONFLICT_CLASSES


_LOCAL_DIR = "spark.local.dir"
_FULL = {os.strerror(code).lower() for code in (errno.ENOSPC, errno.EDQUOT)} | {"no space left on device", "disk quota exceeded"}
_AGAIN = "then give the same --run-id again; what this run wrote does not count"
_IO_CLASSES = ("java.io.", "java.nio.file.", "java.net.", "org.apache.hadoop.fs.", "org.apache.hadoop.security.")


def working_places(conf: SparkConf) -> tuple[WrittenPlace, ...]:
    """Where Spark keeps what does not fit into memory, as far as that is on this machine."""
    told = os.environ.get("SPARK_LOCAL_DIRS") or conf.get(_LOCAL_DIR) or tempfile.gettempdir()
    instead = f"give another with SPARK_SUBMIT_ARGS='--conf {_LOCAL_DIR}=DIR'"
    if os.environ.get("SPARK_LOCAL_DIRS"):
        instead = "give another with the variable SPARK_LOCAL_DIRS"
    paths = [Path(path.strip()) for path in told.split(",") if path.strip()]
    return tuple(WrittenPlace(name=f"Spark's working directory {path}", path=path, instead=instead) for path in paths)


def check(places: Sequence[WrittenPlace | None]) -> None:
    """Try each place before the work.

    Raises:
        OutputError: one of them cannot be written; says which, why, and what to do.
    """
    for place in places:
        if place is not None and (code := fault_of(place.path)) is not None:
            raise OutputError(_sentence(place, code))


def told(error: BaseException, spark: SparkSession, warehouse: str) -> OutputError | None:
    """What a failure of a run was, if one of the places is at fault.

    Args:
        error: what the run ended with.
        spark: its session.
        warehouse: where its tables are.
    """
    if not isinstance(error, OSError | DeltaError | CommitConflictError | PySparkException) and not any(True for _thrown in causes(error)):
        return None
    if is_conflict(error):
        return OutputError(f"warehouse {warehouse}: commits of other audits always came first; give the same --run-id again")
    if (removed := removal(warehouse)) is not None:
        return removed
    place = warehouse_place(warehouse)
    working = () if is_connect(spark) else working_places(spark.sparkContext.getConf())  # of a server that may be elsewhere
    for each in (place, *working):
        if each is not None and (code := fault_of(each.path)) is not None:
            return OutputError(_sentence(each, code))
    said = list(_said(error))
    if any(words in line.lower() for line in said for words in _FULL):
        # what was being written was taken away again, and the space is back
        of_tables = place is not None and any(str(place.path) in line for line in said)
        full = place if of_tables and place else next(iter(working), None)
        if full is not None:
            return OutputError(_sentence(full, errno.ENOSPC))
    return _of_tables(error, warehouse)


def removal(warehouse: str) -> OutputError | None:
    """What to say of a warehouse whose tables were made and are not there any more; None if they are."""
    place = warehouse_place(warehouse)
    if place is None or (place.path / AUDIT_RUNS.name / "_delta_log").is_dir():
        return None
    return OutputError(_sentence(place, errno.ENOENT))


def _said(error: BaseException) -> Iterator[str]:
    """What each exception of a failure says for itself."""
    yield str((error.strerror if isinstance(error, OSError) else None) or error)
    for thrown in causes(error):
        yield str(thrown.getMessage())


def _of_tables(error: BaseException, warehouse: str) -> OutputError | None:
    """The innermost exception, where it is one of files or of a store: only tables are read and written by the JVM and delta-rs."""
    if isinstance(error, DeltaError):
        return OutputError(f"warehouse {warehouse}: {' '.join(str(error).split())[:300]}; fix that, {_AGAIN}")
    thrown = list(causes(error))
    kind = class_name(thrown[-1]) if thrown else ""
    if not kind.startswith(_IO_CLASSES) or is_of_worker(error):
        return None
    why = " ".join(str(thrown[-1].getMessage()).split())[:300]
    return OutputError(f"warehouse {warehouse}: {kind.rpartition('.')[2]}: {why}; fix that, {_AGAIN}")


def _sentence(place: WrittenPlace, code: int) -> str:
    remedy = "free some space" if code in (errno.ENOSPC, errno.EDQUOT) else "make it writable"
    if code == errno.ENOENT:
        return f"{place.name}: it or its disk was removed; bring it back or {place.instead}, {_AGAIN}"
    return f"{place.name}: {os.strerror(code)}; {remedy} or {place.instead}, {_AGAIN}"
