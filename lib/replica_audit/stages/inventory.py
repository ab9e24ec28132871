"""Broker folders and metadata files → one row per replica directory, metadata partition or problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from replica_audit.errors import MetadataError
from replica_audit.files.locations import located
from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC, METADATA_TOPIC, TRANSACTIONS_TOPIC
from replica_audit.formats.metadata import metadata_files, metadata_log
from replica_audit.formats.replicas import broker_files
from replica_audit.formats.server_log.log_writers import is_named_for_a_broker
from replica_audit.formats.values import Row, copy_row, event_row, metadata_row, replica_row
from replica_audit.model import (
    BrokerStanding,
    LogDirectory,
    LoggedVersions,
    MetadataCopy,
    PartitionMetadata,
    Problem,
    ReplicaFiles,
)
from replica_audit.rows.encoding import as_dict
from replica_audit.stages import server_logs
from replica_audit.stages.mapping import LARGE
from replica_audit.stages.topics import topic_filter

SOURCE_COLUMNS = ("cluster_id", "broker_id", "path", "kind")  # of what is listed: a broker's folder, a file


def list_source(source: Row, topics: str = "") -> Iterator[Row]:
    """The rows of one source, those of other topics left out; problems that belong to no replica stay.

    Args:
        source: its `SOURCE_COLUMNS`.
        topics: regular expression that a topic's whole name must match; empty for all. Coordinators of groups and transactions are listed
            always: they tell of other partitions.
    """
    is_wanted = topic_filter(topics)
    for row in _LISTED[source["kind"]](source):
        topic = row.get("topic")
        is_audited = topic is None or is_wanted(topic)
        if is_audited or topic in (GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            yield {**row, "is_audited": is_audited}


def weight(row: Row) -> int:
    """How large a row of a listing is, as of `mapping.mapped`: of claims there is one for each partition, and most say little."""
    claim = row.get("metadata")
    return LARGE if claim is None else 1 + len(claim["elections"]) + len(claim["isr_changes"])


def _row(source: Row, **values: object) -> Row:
    return {"cluster_id": source["cluster_id"], "broker_id": source["broker_id"], **values}


def _list_broker(source: Row) -> Iterator[Row]:
    for found in broker_files.replicas_of(located(source["path"])):
        if isinstance(found, Problem):
            yield _row(source, problem=as_dict(found))
        elif isinstance(found, broker_files.ServerLog):
            yield from _list_server_log({**source, "path": str(found.path)})
        elif isinstance(found, LogDirectory):
            yield _row(source, log_directory=found._asdict())
        else:
            yield _row(source, topic=found.topic, partition=found.partition, replica=replica_row(found))
            if found.topic == METADATA_TOPIC and found.state == "current":
                yield from _list_metadata_log(source, found)


def _is_text(found: ReplicaFiles) -> bool:
    """Whether text of kafka-dump-log stands for the directory, which then need not have been copied."""
    return bool(found.segments) and all(file.source == "dump" for file in found.segments)


def _list_server_log(source: Row) -> Iterator[Row]:
    path = located(source["path"])
    is_told = source["kind"] == "broker" or is_named_for_a_broker(path)
    for found in server_logs.read_log(path, source["broker_id"], is_told=is_told):
        if isinstance(found, Problem):
            yield _row(source, problem=as_dict(found))
        elif isinstance(found, LoggedVersions):
            yield _row(source, versions=found._asdict())
        else:
            of_writer = {**source, "broker_id": found.broker_id}
            yield _row(of_writer, topic=found.topic, partition=found.partition, event=event_row(found))


def _list_metadata_log(source: Row, replica: ReplicaFiles) -> Iterator[Row]:
    directory, copied_to = located(replica.log_dir) / replica.directory, replica.folder
    if _is_text(replica):
        copy = metadata_log.read_text(directory, replica.segments)
    else:
        copy = metadata_log.read(located(copied_to) if copied_to else directory)
    as_on_the_broker = [replace(one, path=str(directory) + one.path[len(copied_to) :]) if copied_to else one for one in copy.problems]
    yield from _metadata_copy(source, replace(copy, problems=tuple(as_on_the_broker)))


def _metadata_copy(source: Row, copy: metadata_log.MetadataLog) -> Iterator[Row]:
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
    yield _row(source, metadata_copy=copy_row(found))
    for problem in copy.problems:
        yield _row(source, problem=as_dict(problem))
    for partition in copy.partitions:
        yield _row(source, **_partition_row(partition))


def _list_metadata(source: Row) -> Iterator[Row]:
    path = located(source["path"])
    try:
        file = metadata_files.read(path)  # all or none: half of the leaders would mislead
    except (MetadataError, OSError) as error:
        yield _row(source, problem=as_dict(metadata_files.unusable(path, error)))
        return
    if file.log is not None:
        yield from _metadata_copy(source, file.log)
        return
    for partition in file.partitions:
        yield _row(source, **_partition_row(partition))


def _partition_row(partition: PartitionMetadata) -> Row:
    values = metadata_row(partition)
    return {"topic": values.pop("topic"), "partition": values.pop("partition"), "metadata": values}


_LISTED: dict[str, Callable[[Row], Iterator[Row]]] = {
    "broker": _list_broker,
    "metadata": _list_metadata,
    "server-log": _list_server_log,
}
