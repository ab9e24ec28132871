"""The comparison of records in this process, one partition after the other: what does not fit into memory waits on disk, by key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from types import TracebackType

import numpy as np

from replica_audit.formats.segment.records import ROW, Rows
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import KnownPartition, ReadRecords
from replica_audit.stages.items import FollowerKeys, Item, UnreadRecords, read_records
from replica_audit.stages.records import bucket_of, compared_rows, list_wanted, read_segment_records

_READERS = 2  # segments that are read at once: decoding, hashing and sorting leave Python's lock to each other


def records_of(known: KnownPartition, facts: ClusterFacts) -> ReadRecords:
    """What comparing the records of a partition gives; nothing where they are not compared."""
    wanted = list(list_wanted(known, facts))
    if not wanted:
        return ReadRecords()
    found: list[FollowerKeys | UnreadRecords] = []
    head, *segments = wanted
    with Buckets(head.value.buckets) as buckets, ThreadPoolExecutor(_READERS) as readers:
        for problems in readers.map(partial(_read, buckets), segments):
            found += problems
        for by_broker in buckets:
            found += compared_rows(head.value.pairs, by_broker)
    return read_records(found)


def _read(buckets: Buckets, segment: Item) -> list[UnreadRecords]:
    """Put the records of a segment into buckets; returns what could not be read."""
    if segment.broker_id is None:
        raise ValueError(f"{segment.value.file.path} is of no broker")
    problems = []
    for part in read_segment_records(segment.value):
        if isinstance(part, np.ndarray):
            buckets.add(segment.broker_id, part)
        else:
            problems.append(UnreadRecords(segment.broker_id, part))
    return problems


class Buckets:
    """Rows of brokers, spread by their keys over files if there are several buckets."""

    def __init__(self, count: int) -> None:
        """Make so many."""
        self._count = count
        self._rows: defaultdict[int, list[Rows]] = defaultdict(list)
        self._folder: TemporaryDirectory[str] | None = None
        self._lock = Lock()

    def __enter__(self) -> Buckets:
        """Make room on disk where that is wanted."""
        if self._count > 1:
            self._folder = TemporaryDirectory(prefix="replica-audit-records-")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Remove it again."""
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, broker_id: int, rows: Rows) -> None:
        """Take rows of a broker; called by several threads."""
        if self._folder is None:
            with self._lock:
                self._rows[broker_id].append(rows)
            return
        bucket = bucket_of(rows, self._count)
        for number in np.unique(bucket).tolist():
            content = np.ascontiguousarray(rows[bucket == number]).tobytes()
            with self._lock, self._path(number, broker_id).open("ab") as stream:
                stream.write(content)

    def __iter__(self) -> Iterator[Mapping[int, Rows]]:
        """Yield the rows of each bucket, by broker."""
        if self._folder is None:
            yield {broker: np.concatenate(parts) for broker, parts in self._rows.items()}
            return
        for number in range(self._count):
            held = sorted(Path(self._folder.name).glob(f"{number}-*"))
            yield {int(path.name.partition("-")[2]): np.fromfile(path, np.int64).reshape(-1, len(ROW)) for path in held}

    def _path(self, number: int, broker_id: int) -> Path:
        return Path(self._folder.name if self._folder else ".") / f"{number}-{broker_id}"
