"""Kafka's own classes in a JVM of their own: what they are asked and what they answer, as this project's values."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from py4j.java_gateway import get_field
from py4j.protocol import Py4JJavaError

from replica_audit.model import AbortedTransaction, BatchHeader, ProducerState
from replica_audit.protocol.epochs.epoch_table import EpochEntry, EpochTable
from tests.support.jvm import jvm, own_exceptions

# Any other exception would say that the test itself is broken.
_REFUSALS = (
    "java.lang.IllegalArgumentException",
    "java.lang.NumberFormatException",
    "java.lang.OutOfMemoryError",  # room for the announced number of entries is made before the first is read
    "org.apache.kafka.common.errors.CorruptRecordException",
    "org.apache.kafka.common.errors.KafkaStorageException",
    "org.apache.kafka.common.errors.OutOfOrderSequenceException",
    "org.apache.kafka.common.KafkaException",  # an aborted transaction of an unknown version
    "org.apache.kafka.storage.internals.log.CorruptIndexException",
    "org.apache.kafka.storage.internals.log.CorruptSnapshotException",
)
_INTEGER = re.compile(r"-?\d+")
# Runs are too short for the second compiler; the heap is small enough for an absurd announcement to exhaust it at once.
_JVM_OPTIONS = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


class Refused(Exception):
    """Kafka does not accept what it was given."""


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        with own_exceptions():
            yield
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() not in _REFUSALS:
            raise
        raise Refused(error.java_exception.toString()) from None


def _integers(answer: Any) -> list[int]:
    """The integers in what a Java value prints: one call, where asking for its fields would take one each."""
    return [int(text) for text in _INTEGER.findall(answer.toString())]


def _table(answer: Any) -> EpochTable:
    numbers = iter(_integers(answer))
    return tuple(EpochEntry(epoch, start_offset) for epoch, start_offset in zip(numbers, numbers, strict=True))


def _optional(answer: Any) -> int | None:
    numbers = _integers(answer)
    return numbers[0] if numbers else None


class EpochCache:
    """A LeaderEpochFileCache. The methods have the names of our functions and answer in their terms."""

    def __init__(self, cache: Any, file: Path) -> None:
        self._cache = cache
        self.file = file

    def entries(self) -> EpochTable:
        return _table(self._cache.epochEntries())

    def assign(self, epoch: int, start_offset: int) -> None:
        with _refusals():
            self._cache.assign(epoch, start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        self._cache.truncateFromEndAsyncFlush(end_offset)

    def truncate_from_start(self, start_offset: int) -> None:
        self._cache.truncateFromStartAsyncFlush(start_offset)

    def clear(self) -> None:
        self._cache.clearAndFlush()

    def latest_epoch(self) -> int | None:
        return _optional(self._cache.latestEpoch())

    def end_offset_for(self, requested_epoch: int, log_end_offset: int) -> EpochEntry:
        return EpochEntry(*_integers(self._cache.endOffsetFor(requested_epoch, log_end_offset)))

    def epoch_for_offset(self, offset: int) -> int | None:
        return _optional(self._cache.epochForOffset(offset))

    def entries_in_range(self, start_offset: int, end_offset: int) -> EpochTable:
        return _table(self._cache.epochEntriesInRange(start_offset, end_offset))


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A FileChannelRecordBatch: what its place in the file tells, and the header on demand, for reading an impossible one fails."""

    position: int
    size_bytes: int
    magic: int
    java: Any

    def header(self, *, reads_base_offset: bool) -> BatchHeader:
        """All that Kafka says of the batch; -1 as base offset where it is not to be read, for that decompresses a legacy entry."""
        java = self.java
        try:
            with own_exceptions():
                codec = java.compressionType().toString()
        except Py4JJavaError as error:
            # "Unknown compression type id: 7"
            codec = f"unknown-{_integers(error.java_exception)[-1]}"
        return BatchHeader(
            position=self.position,
            base_offset=java.baseOffset() if reads_base_offset else -1,
            last_offset=java.lastOffset(),
            size_bytes=self.size_bytes,
            magic=self.magic,
            leader_epoch=java.partitionLeaderEpoch(),
            record_count=java.countOrNull(),
            max_timestamp_ms=java.maxTimestamp(),
            crc=java.checksum(),
            crc_valid=java.isValid(),
            codec=codec,
            is_transactional=java.isTransactional(),
            is_control=java.isControlBatch(),
            producer_id=java.producerId(),
            producer_epoch=java.producerEpoch(),
            base_sequence=java.baseSequence(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What FileRecords yields of a segment: its batches, and whether it then threw instead of coming to an end."""

    batches: list[Batch]
    threw: bool

    @property
    def end(self) -> int:
        """The byte position where reading ended."""
        return self.batches[-1].position + self.batches[-1].size_bytes if self.batches else 0


def _producer_state(entry: Any) -> ProducerState:
    open_first = _optional(entry.currentTxnFirstOffset())
    return ProducerState(
        producer_id=entry.producerId(),
        producer_epoch=entry.producerEpoch(),
        last_sequence=entry.lastSeq(),
        last_offset=entry.lastDataOffset(),
        offset_delta=entry.lastOffsetDelta(),
        timestamp_ms=entry.lastTimestamp(),
        coordinator_epoch=entry.coordinatorEpoch(),
        open_first_offset=-1 if open_first is None else open_first,
    )


class Kafka:
    """The classes that the tests compare with. Every checkpoint gets a file of its own: Kafka flushes some later, in a thread."""

    def __init__(self, jvm: Any, folder: Path) -> None:
        apache = jvm.org.apache.kafka
        checkpoints = apache.storage.internals.checkpoint
        self._file, self._channel = jvm.java.io.File, apache.storage.internals.log.LogDirFailureChannel
        self._epoch_checkpoint, self._offset_checkpoint = checkpoints.LeaderEpochCheckpointFile, checkpoints.OffsetCheckpointFile
        self._cache = apache.storage.internals.epoch.LeaderEpochFileCache
        self._segment = apache.common.record.FileRecords
        self._partition = apache.common.TopicPartition("topic", 0)
        self._producers, self._transactions = (
            apache.storage.internals.log.ProducerStateManager,
            apache.storage.internals.log.TransactionIndex,
        )
        self._log = apache.storage.internals.log
        self._scheduler = apache.server.util.KafkaScheduler(1)
        self._scheduler.startup()
        self._folder, self._numbers = folder, count()

    def _written(self, content: bytes) -> Path:
        path = self._folder / str(next(self._numbers))
        path.write_bytes(content)
        return path

    def _opened(self, kind: Any, path: Path) -> Any:
        return kind(self._file(str(path)), self._channel(1))

    def epoch_cache(self, content: bytes = b"") -> EpochCache:
        """The table of a broker that starts with this `leader-epoch-checkpoint`."""
        path = self._written(content)
        with _refusals():
            return EpochCache(self._cache(self._partition, self._opened(self._epoch_checkpoint, path), self._scheduler), path)

    def epoch_lines(self, content: bytes) -> EpochTable:
        """The entries of a `leader-epoch-checkpoint` in file order, before anything is made of them."""
        with _refusals():
            return _table(self._opened(self._epoch_checkpoint, self._written(content)).read())

    def offsets(self, content: bytes) -> dict[tuple[str, int], int]:
        """The offsets in one of the four offset checkpoints."""
        with _refusals():
            read = self._opened(self._offset_checkpoint, self._written(content)).read()
        # Not from what the map prints: a topic may hold any character that is not blank.
        return {(partition.topic(), partition.partition()): read[partition] for partition in read}

    def takes_in_order(self, batches: Sequence[tuple[int, int, int]]) -> bool:
        """Whether a leader that knows nothing of a producer takes its batches: (epoch, first sequence, last sequence) of each."""
        log, producer = self._log, 7
        entry = log.ProducerStateEntry.empty(producer)
        for offset, (epoch, first, last) in enumerate(batches):
            info = log.ProducerAppendInfo(self._partition, producer, entry, log.AppendOrigin.CLIENT, None)
            try:
                with _refusals():
                    info.appendDataBatch(epoch, first, last, 1_000, log.LogOffsetMetadata(offset), offset, False)
            except Refused:
                return False
            entry.update(info.toEntry())
        return True

    def producer_states(self, content: bytes) -> list[ProducerState]:
        """The entries of a producer snapshot."""
        with _refusals():
            return [_producer_state(entry) for entry in self._producers.readSnapshot(self._file(str(self._written(content))))]

    def aborted_transactions(self, content: bytes, base_offset: int) -> list[AbortedTransaction]:
        """The entries of an index of aborted transactions, which is checked as a broker does that loads it."""
        index = self._transactions(base_offset, self._file(str(self._written(content))))
        try:
            with _refusals():
                index.sanityCheck()
                return [
                    AbortedTransaction(one.producerId(), one.firstOffset(), one.lastOffset(), one.lastStableOffset())
                    for one in index.allAbortedTxns()
                ]
        finally:
            index.close()

    def read_by_index(self, path: Path, index: bytes, base_offset: int, offset: int) -> int | None:
        """The position of the batch that a read of an offset finds by an index, as LogSegment.translateOffset does; None if none.

        Raises:
            Refused: the read fails.
        """
        entries = self._log.OffsetIndex(self._file(str(self._written(index))), base_offset, -1, False)
        records = self._segment.open(self._file(str(path)))
        try:
            with _refusals():
                found = records.searchForOffsetFromPosition(offset, entries.lookup(offset).position())
            return None if found is None else int(get_field(found, "position"))
        finally:
            records.close()

    @contextmanager
    def segment(self, path: Path) -> Iterator[Reading]:
        """Read a segment file; the batches serve while the context lasts."""
        records = self._segment.open(self._file(str(path)))
        try:
            iterator, batches, threw = records.batches().iterator(), [], False
            try:
                with _refusals():
                    while iterator.hasNext():
                        java = iterator.next()
                        batches.append(Batch(position=java.position(), size_bytes=java.sizeInBytes(), magic=java.magic(), java=java))
            except Refused:
                threw = True
            yield Reading(batches=batches, threw=threw)
        finally:
            records.close()


@contextmanager
def kafka(jars: Sequence[Path], folder: Path) -> Iterator[Kafka]:
    """Start a JVM with the jars, reachable from this machine and with a token only; ended whatever happens.

    Args:
        jars: Kafka's.
        folder: for the files of the tests and of the JVM's complaints.
    """
    class_path, complaints = os.pathsep.join(map(str, jars)), folder / "jvm-stderr.txt"
    # thousands of checkpoints, some still to be flushed
    with jvm(class_path, _JVM_OPTIONS, complaints) as gateway, TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as checkpoints:
        yield Kafka(gateway.jvm, Path(checkpoints))
