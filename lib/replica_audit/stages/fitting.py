"""Values that no column could hold are taken out as soon as they are read, and reported; everything else goes on.

Readers validate what they read; what is found here has come through all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from replica_audit.errors import visible
from replica_audit.formats.log_dir.names import TRANSACTIONS_TOPIC
from replica_audit.formats.values import INT_NAMES
from replica_audit.model import (
    CommittedOffset,
    PartitionMetadata,
    Problem,
    ReplicaFiles,
    ScannedSegment,
    Segment,
    TransactionState,
)
from replica_audit.protocol.comparison.observed import LogEvent
from replica_audit.stages.items import Item
from replica_audit.stages.valid_rows import Misfit, problem_of

_NAMES: dict[type, str] = {
    ReplicaFiles: "replica",
    PartitionMetadata: "metadata",
    LogEvent: "event",
    CommittedOffset: "commit",
    TransactionState: "transaction",
    Problem: "problem",
}
_INT32, _INT64 = 2**31, 2**63


def fitting(items: Iterable[Item]) -> Iterator[Item]:
    """Items, and problems in the place of those that hold what no column could."""
    for item in items:
        kind = type(item.value)
        if kind is ReplicaFiles and _certainly_fits(item.value):
            yield item
            continue
        found = misfit(item.topic, "topic") or misfit(item.value, _NAMES.get(kind, kind.__name__))
        yield item if found is None else Item(item.cluster_id, None, None, item.broker_id, _refused(item, found))


def fitting_scan(scan: ScannedSegment) -> ScannedSegment:
    """A scan; one of values that no column could hold as a segment that could not be read."""
    found = misfit(scan, "segment")
    if found is None:
        return scan
    segment = Segment(base_offset=scan.segment.base_offset, swap=scan.segment.swap, runs=())
    return replace(scan, segment=segment, failed=True, problems=(problem_of(scan.file.path, "segment", found),))


def _certainly_fits(files: ReplicaFiles) -> bool:
    """Whether a replica certainly fits: what is read as a number of Kafka's is one, and only a path or a name can be no Unicode text."""
    texts = (files.log_dir, files.directory, files.folder or "", files.scans or "", files.offline_reason or "")
    return (
        all(map(str.isascii, texts))
        and not (files.problems or files.producer_texts or files.producer_files)
        and all(
            one.path.isascii() and one.base_offset < _INT64 and one.size_bytes < _INT64 and (one.copy or "").isascii()
            for one in files.segments
        )
    )


def misfit(value: Any, column: str, *, limit: int = _INT64) -> Misfit | None:
    """The first number in a value that is too large for its column, or text that is not Unicode; None if all fit.

    Args:
        value: a value of `model`, or a part of one.
        column: how to name it.
        limit: the absolute value that a number does not reach.
    """
    if isinstance(value, int):
        if -limit <= value < limit:
            return None
        return Misfit(column, f"a number of {value.bit_length()} bits does not fit in {'int32' if limit == _INT32 else 'int64'}")
    if isinstance(value, str):
        return None if value.isascii() or _is_unicode(value) else Misfit(column, f"{visible(value[:80])!r} is not Unicode text")
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return next(filter(None, _misfits(value, column)), None)
    kind: Any = type(value)
    for name, bound in _fields(kind):
        part = getattr(value, name)
        if part is not None and part != () and (found := misfit(part, f"{column}.{name}", limit=bound)):
            return found
    return None


def _misfits(values: tuple[Any, ...], column: str) -> Iterator[Misfit | None]:
    """Lists of numbers are of brokers, which are int32; of pairs of numbers one is an offset."""
    for one in values:
        if isinstance(one, tuple) and not hasattr(one, "_fields"):
            yield from (misfit(part, column) for part in one)
        else:
            yield misfit(one, column, limit=_INT32 if isinstance(one, int) else _INT64)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@cache
def _fields(kind: Any) -> tuple[tuple[str, int], ...]:
    """The fields of a class of values, each with what its numbers do not reach; none of anything else."""
    names = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else getattr(kind, "_fields", ())
    return tuple((name, _INT32 if name in INT_NAMES else _INT64) for name in names)


def _refused(item: Item, found: Misfit) -> Problem:
    value = item.value
    if isinstance(value, ReplicaFiles):
        return problem_of(f"{value.log_dir}/{value.directory}", "replica", found)
    if isinstance(value, PartitionMetadata):
        return problem_of(f"{value.topic}-{value.partition}", "metadata", found)
    kind = str(getattr(value, "kind", _NAMES.get(type(value), "")))
    return problem_of(str(getattr(value, "path", TRANSACTIONS_TOPIC)), kind, found)
