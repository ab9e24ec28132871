"""Broker folders and metadata files → one item per replica directory, metadata partition or problem, and how much there is to read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from replica_audit.errors import MetadataError
from replica_audit.files.locations import located
from replica_audit.formats.collection.broker_folder import SOURCE, OpenedCollections
from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC, METADATA_TOPIC, TRANSACTIONS_TOPIC, topic_filter
from replica_audit.formats.metadata import metadata_files, metadata_log
from replica_audit.formats.replicas import broker_files
from replica_audit.formats.server_log.log_writers import is_named_for_a_broker
from replica_audit.model import Amounts, BytesToRead, MetadataCopy, PartitionMetadata, ReplicaFiles
from replica_audit.protocol.comparison.observed import LogEvent
from replica_audit.stages import server_logs
from replica_audit.stages.fitting import fitting
from replica_audit.stages.items import CollectedReading, Item, Reading, SegmentPart, Source, Value

COORDINATORS = (GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC)  # listed whatever topics are wanted: they say something of others
Listed = Iterator[tuple[int | None, Value]]  # values with their broker, None for the file beside the brokers


def list_items(source: Source, topics: str = "", opened: OpenedCollections | None = None) -> Iterator[Item]:
    """What one source holds, without what is of other topics; problems that belong to no replica stay.

    Args:
        source: a broker's folder, or a file.
        topics: regular expression that a topic's whole name must match; empty for all. Coordinators of groups and transactions are listed
            always: they tell of other partitions.
        opened: as of `replicas_of`.
    """
    is_wanted = topic_filter(topics)
    for broker, value in _list_broker(source, opened) if source.kind == "broker" else _LISTED[source.kind](source):
        topic = getattr(value, "topic", None)
        is_audited = topic is None or is_wanted(topic)
        if is_audited or topic in COORDINATORS:
            yield Item(source.cluster_id, topic, getattr(value, "partition", None), broker, value, is_audited)


def list_source(source: Item, topics: str = "", opened: OpenedCollections | None = None) -> Iterator[Item]:
    """What one source holds, as of `list_items`, then what is to be read of it, and how much it is.

    Args:
        source: an item with a Source.
        topics: as of `list_items`.
        opened: what the process keeps of collections, None if it keeps nothing.
    """
    readings = _Readings()
    for item in fitting(list_items(source.value, topics, opened)):
        yield item
        if isinstance(item.value, ReplicaFiles):
            readings.add(item.value, item.is_audited)
    yield from readings.items(source, topic_filter(topics))


class _Readings:
    """What is to be read of a source: that of coordinators apart from all else."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str | None, str, int], list[SegmentPart]] = defaultdict(list)  # the last of the key is the place in a text
        self._scans: dict[tuple[str | None, str, str], list[ReplicaFiles]] = defaultdict(list)
        self._amounts = Counter[str]()

    def add(self, files: ReplicaFiles, is_audited: bool) -> None:
        amounts, topic = self._amounts, files.topic if files.topic in COORDINATORS else None
        amounts["replicas"] += is_audited
        amounts["segments"] += len(files.segments)
        amounts["size_bytes"] += _segment_bytes(files)
        amounts["group_offsets"] += files.topic == GROUP_OFFSETS_TOPIC
        amounts["transaction_states"] += files.topic == TRANSACTIONS_TOPIC
        if files.scans:
            self._scans[topic, files.scans, files.log_dir].append(files)
            return
        for file in files.segments:
            part = SegmentPart(files.topic, files.partition, files.log_dir, files.directory, file)
            self._parts[topic, file.path, 0 if file.unpacked_bytes else file.byte_start].append(part)

    def items(self, source: Item, is_wanted: Callable[[str], bool]) -> Iterator[Item]:
        found: list[tuple[str | None, Reading | CollectedReading, int]] = []
        for (topic, _path, _start), parts in self._parts.items():
            in_order = sorted(parts, key=lambda part: part.file.byte_start)
            size = parts[0].file.unpacked_bytes or sum(part.file.size_bytes for part in parts)
            found.append((topic, Reading(tuple(in_order)), size))
        for (topic, scans, log_dir), replicas in self._scans.items():
            directories = tuple(one.directory for one in replicas)
            collected = CollectedReading(scans=scans, log_dir=log_dir, directories=directories)
            found.append((topic, collected, sum(map(_segment_bytes, replicas))))
        for number, (topic, reading, size) in enumerate(found):
            is_audited = topic is None or is_wanted(topic)
            yield Item(source.cluster_id, topic, number, source.broker_id, reading, is_audited, size)
        yield source._replace(value=Amounts(**self._amounts))


def _segment_bytes(files: ReplicaFiles) -> int:
    return sum(file.size_bytes for file in files.segments)


def _list_broker(source: Source, opened: OpenedCollections | None) -> Listed:
    for found in broker_files.replicas_of(located(source.path), opened=opened):
        if isinstance(found, broker_files.ServerLog):
            yield from _list_server_log(source._replace(path=str(found.path)))
            continue
        yield (source.broker_id, found)
        if isinstance(found, ReplicaFiles) and found.topic == METADATA_TOPIC and found.state == "current":
            yield from _list_metadata_log(source, found)


def _is_text(found: ReplicaFiles) -> bool:
    """Whether text of kafka-dump-log stands for the directory, which then need not have been copied."""
    return bool(found.segments) and all(file.source == "dump" for file in found.segments)


def _list_server_log(source: Source) -> Listed:
    if source.broker_id is None:
        raise ValueError(f"{source.path} is of no broker")
    path = located(source.path)
    is_told = source.kind == "broker" or is_named_for_a_broker(path)
    for found in server_logs.read_log(path, source.broker_id, is_told=is_told):
        yield (found.broker_id if isinstance(found, LogEvent) else source.broker_id, found)


def _list_metadata_log(source: Source, replica: ReplicaFiles) -> Listed:
    directory, copied_to = located(replica.log_dir) / replica.directory, replica.folder
    if _is_text(replica):
        copy = metadata_log.read_text(directory, replica.segments)
    else:
        copy = metadata_log.read(located(copied_to) if copied_to else directory)
    as_on_the_broker = [replace(one, path=str(directory) + one.path[len(copied_to) :]) if copied_to else one for one in copy.problems]
    yield from _metadata_copy(source, replace(copy, problems=tuple(as_on_the_broker)))


def _metadata_copy(source: Source, copy: metadata_log.MetadataLog) -> Listed:
    found = MetadataCopy(
        metadata_version=copy.metadata_version,
        log_epoch=copy.log_epoch,
        log_end_offset=copy.log_end_offset,
        brokers=copy.brokers,
        broker_events=copy.broker_events,
        min_isr=copy.min_isr,
        last_timestamp_ms=-1 if copy.last_timestamp_ms is None else copy.last_timestamp_ms,
    )
    values: list[Value] = [found, *copy.problems, *copy.partitions]
    for value in values:
        yield (source.broker_id, value)


def _list_metadata(source: Source) -> Listed:
    path = located(source.path)
    try:
        file = metadata_files.read(path)  # all or none: half of the leaders would mislead
    except (MetadataError, OSError) as error:
        yield (source.broker_id, metadata_files.unusable(path, error))
        return
    if file.log is not None:
        yield from _metadata_copy(source, file.log)
        return
    for partition in file.partitions:
        yield (source.broker_id, partition)


_LISTED: dict[str, Callable[[Source], Listed]] = {
    "metadata": _list_metadata,
    "server-log": _list_server_log,
}


def bytes_to_read(items: Iterable[Item]) -> BytesToRead:
    """Add up what an inventory names: of the audited topics, and of the consumers' offsets."""
    compacted, partitions = set(), set()
    replicas: list[ReplicaFiles] = []
    for item in items:
        value = item.value
        if isinstance(value, PartitionMetadata) and value.compacted:
            compacted.add(value.topic)
        if isinstance(value, ReplicaFiles):
            replicas.append(value)
            if item.is_audited:
                partitions.add((value.topic, value.partition))
            if value.cleaner_offset is not None or value.topic == GROUP_OFFSETS_TOPIC:
                compacted.add(value.topic)
    files, raw, cleaned, text = 0, 0, 0, 0
    packed: dict[str, int] = {}
    scans = {one.scans for one in replicas if one.scans is not None}
    for replica in replicas:
        for file in replica.segments:
            files += 1
            if file.source == "raw":
                raw += file.size_bytes
                cleaned += file.size_bytes if replica.topic in compacted else 0
            elif file.source != SOURCE:
                packed[file.path] = file.unpacked_bytes
                text += 0 if file.unpacked_bytes else max(0, file.byte_end - file.byte_start)
    return BytesToRead(
        partitions=len(partitions),
        replicas=len(replicas),
        files=files,
        raw_bytes=raw,
        compacted_bytes=cleaned,
        text_bytes=text + sum(packed.values()),
        collected_bytes=sum(map(_size, scans)),
    )


def _size(path: str) -> int:
    try:
        return located(path).stat().st_size
    except OSError:
        return 0  # told when it is read
