"""What a failure in the JVM was: Spark and Delta wrap one exception in another, and the last of them says what happened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from delta import exceptions as delta_exceptions
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

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
    return isinstance(error, _CONFLICTS) or any(class_name(thrown) in _CONFLICT_CLASSES for thrown in causes(error))
