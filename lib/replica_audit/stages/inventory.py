"""Broker folders and metadata files → one item per replica directory, metadata partition or problem, and how much there is to read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from replica_audit.errors import MetadataError
from replica_audit.files.locations import located
from replica_audit.formats.collection.broker_folder import SOURCE, CollectedLogDir
from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC, METADATA_TOPIC, TRANSACTIONS_TOPIC
from replica_audit.formats.metadata import metadata_files, metadata_log
from replica_audit.formats.replicas import broker_files
from replica_audit.formats.server_log.log_writers import is_named_for_a_broker
from replica_audit.formats.values import INVENTORY, Row, copy_row, event_row, metadata_row, replica_row
from replica_audit.model import (
    BrokerStanding,
    BytesToRead,
    LogDirectory,
    LoggedVersions,
    MetadataCopy,
    PartitionMetadata,
    Problem,
    ReplicaFiles,
)
from replica_audit.protocol.comparison.observed import LogEvent
from replica_audit.rows.encoding import as_dict
from replica_audit.stages import server_logs
from replica_audit.stages.mapping import LARGE
from replica_audit.stages.valid_rows import fitting, refuse_with_problem


def topic_filter(topics: str) -> Callable[[str], bool]:
    """A test of a topic's name: its whole must match the regular expression `topics` (Python's syntax); every name passes an empty one."""
    pattern = re.compile(topics or ".*", re.DOTALL)
    return lambda name: pattern.fullmatch(name) is not None


_AT_ONCE = 256  # items that are held against their columns together
_INT64 = 2**63
Value = ReplicaFiles | PartitionMetadata | MetadataCopy | LogEvent | LoggedVersions | LogDirectory | Problem


class Source(NamedTuple):
    """What is listed: a broker's folder (`kind` is broker), a cluster-metadata.json (metadata), or a server.log beside (server-log)."""

    cluster_id: str
    broker_id: int | None
    path: str
    kind: str


class Item(NamedTuple):
    """Something that a source holds, and whose it is: None for the file beside the brokers. `is_audited`: not only to know others."""

    broker_id: int | None
    value: Value
    is_audited: bool = True


def list_items(source: Source, topics: str = "", collections: dict[str, CollectedLogDir] | None = None) -> Iterator[Item]:
    """What one source holds, without what is of other topics; problems that belong to no replica stay.

    Args:
        source: a broker's folder, or a file.
        topics: regular expression that a topic's whole name must match; empty for all. Coordinators of groups and transactions are listed
            always: they tell of other partitions.
        collections: as of `replicas_of`.
    """
    is_wanted = topic_filter(topics)
    for item in _list_broker(source, collections) if source.kind == "broker" else _LISTED[source.kind](source):
        topic = getattr(item.value, "topic", None)
        if topic is None or is_wanted(topic):
            yield item
        elif topic in (GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            yield item._replace(is_audited=False)


def list_source(source: Row, topics: str = "") -> Iterator[Row]:
    """The same as rows of the shape INVENTORY; `source` is one, too."""
    for item in list_items(Source(*(source[name] for name in Source._fields)), topics):
        yield item_row(source["cluster_id"], item)


def item_row(cluster_id: str, item: Item) -> Row:
    """An item as a row of the shape INVENTORY."""
    row = {"cluster_id": cluster_id, "broker_id": item.broker_id, "is_audited": item.is_audited}
    value = item.value
    if isinstance(value, ReplicaFiles):
        return row | {"topic": value.topic, "partition": value.partition, "replica": replica_row(value)}
    if isinstance(value, PartitionMetadata):
        values = metadata_row(value)
        return row | {"topic": values.pop("topic"), "partition": values.pop("partition"), "metadata": values}
    if isinstance(value, LogEvent):
        return row | {"topic": value.topic, "partition": value.partition, "event": event_row(value)}
    if isinstance(value, MetadataCopy):
        return row | {"metadata_copy": copy_row(value)}
    if isinstance(value, Problem):
        return row | {"problem": as_dict(value)}
    return row | {"versions" if isinstance(value, LoggedVersions) else "log_directory": value._asdict()}


def fitting_items(cluster_id: str, items: Iterable[Item]) -> Iterator[Item]:
    """Items, and problems in the place of those that hold what the columns of INVENTORY cannot."""
    pending = iter(items)
    while some := list(islice(pending, _AT_ONCE)):
        doubtful = [item for item in some if not (isinstance(item.value, ReplicaFiles) and _fits(item.value))]
        rows = [item_row(cluster_id, item) for item in doubtful]
        refused = {
            id(item): Item(new["broker_id"], Problem(**new["problem"]))
            for item, old, new in zip(doubtful, rows, fitting(rows, INVENTORY, refuse_with_problem), strict=True)
            if new is not old
        }
        yield from (refused.get(id(item), item) for item in some) if refused else some


def _fits(files: ReplicaFiles) -> bool:
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


def weight(row: Row) -> int:
    """How large a row of a listing is, as of `mapping.mapped`: of claims there is one for each partition, and most say little."""
    claim = row.get("metadata")
    return LARGE if claim is None else 1 + len(claim["elections"]) + len(claim["isr_changes"])


def _list_broker(source: Source, collections: dict[str, CollectedLogDir] | None) -> Iterator[Item]:
    for found in broker_files.replicas_of(located(source.path), collections=collections):
        if isinstance(found, broker_files.ServerLog):
            yield from _list_server_log(source._replace(path=str(found.path)))
            continue
        yield Item(source.broker_id, found)
        if isinstance(found, ReplicaFiles) and found.topic == METADATA_TOPIC and found.state == "current":
            yield from _list_metadata_log(source, found)


def _is_text(found: ReplicaFiles) -> bool:
    """Whether text of kafka-dump-log stands for the directory, which then need not have been copied."""
    return bool(found.segments) and all(file.source == "dump" for file in found.segments)


def _list_server_log(source: Source) -> Iterator[Item]:
    if source.broker_id is None:
        raise ValueError(f"{source.path} is of no broker")
    path = located(source.path)
    is_told = source.kind == "broker" or is_named_for_a_broker(path)
    for found in server_logs.read_log(path, source.broker_id, is_told=is_told):
        yield Item(found.broker_id if isinstance(found, LogEvent) else source.broker_id, found)


def _list_metadata_log(source: Source, replica: ReplicaFiles) -> Iterator[Item]:
    directory, copied_to = located(replica.log_dir) / replica.directory, replica.folder
    if _is_text(replica):
        copy = metadata_log.read_text(directory, replica.segments)
    else:
        copy = metadata_log.read(located(copied_to) if copied_to else directory)
    as_on_the_broker = [replace(one, path=str(directory) + one.path[len(copied_to) :]) if copied_to else one for one in copy.problems]
    yield from _metadata_copy(source, replace(copy, problems=tuple(as_on_the_broker)))


def _metadata_copy(source: Source, copy: metadata_log.MetadataLog) -> Iterator[Item]:
    found = MetadataCopy(
        metadata_version=copy.metadata_version,
        log_epoch=copy.log_epoch,
        log_end_offset=copy.log_end_offset,
        brokers=tuple(
            BrokerStanding(
                broker_id=broker,
                fenced=copy.fenced[broker],
                state=str(state),
                changed_ms=copy.brokers_changed_ms[broker],
                broker_epoch=copy.broker_epochs.get(broker, -1),
                log_dirs=copy.log_dirs.get(broker, ()),
            )
            for broker, state in sorted(copy.brokers.items())
        ),
        broker_events=copy.broker_events,
        min_isr=copy.min_isr,
        last_timestamp_ms=-1 if copy.last_timestamp_ms is None else copy.last_timestamp_ms,
    )
    values: list[Value] = [found, *copy.problems, *copy.partitions]
    for value in values:
        yield Item(source.broker_id, value)


def _list_metadata(source: Source) -> Iterator[Item]:
    path = located(source.path)
    try:
        file = metadata_files.read(path)  # all or none: half of the leaders would mislead
    except (MetadataError, OSError) as error:
        yield Item(source.broker_id, metadata_files.unusable(path, error))
        return
    if file.log is not None:
        yield from _metadata_copy(source, file.log)
        return
    for partition in file.partitions:
        yield Item(source.broker_id, partition)


_LISTED: dict[str, Callable[[Source], Iterator[Item]]] = {
    "metadata": _list_metadata,
    "server-log": _list_server_log,
}


def bytes_to_read(items: Iterable[Item]) -> BytesToRead:
    """Add up what an inventory names: of the audited topics, and of the consumers' offsets."""
    compacted, partitions = set(), set()
    replicas: list[ReplicaFiles] = []
    for _broker, value, is_audited in items:
        if isinstance(value, PartitionMetadata) and value.compacted:
            compacted.add(value.topic)
        if isinstance(value, ReplicaFiles):
            replicas.append(value)
            if is_audited:
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
