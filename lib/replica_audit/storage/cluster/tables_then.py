"""The leaders' epochs of a run, from its tables: which questions to ask, and what they should be answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from replica_audit.formats.log_dir.names import METADATA_TOPIC
from replica_audit.protocol.cluster.epoch_answers import LeaderThen
from replica_audit.protocol.epochs.epoch_table import table
from replica_audit.rows import EPOCH_END_OFFSETS, EPOCH_START_OFFSETS, REPLICA_LOGS, REPLICA_ROLES, REPLICA_VERDICTS, Table
from replica_audit.rows.arrow import schema_of
from replica_audit.storage.warehouse.reader import WarehouseTables


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionThen:
    """A partition in the run. `epochs` are those of the leader's table and those that its followers would ask for, in order."""

    topic: str
    partition: int
    topic_id: str | None
    leader: LeaderThen
    epochs: tuple[int, ...]


@dataclass(slots=True)
class RunThen:
    """What a run says. `unknown` names partitions of which it has no leader's table."""

    partitions: list[PartitionThen] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def read(tables: WarehouseTables, run_id: str, cluster_id: str) -> RunThen:
    """Every partition of a cluster in a run.

    Raises:
        UsageError: a table cannot be read.
    """

    def rows(of: Table, *names: str) -> Iterator[tuple[Any, ...]]:
        schema = pa.schema([schema_of(of).field(name) for name in names])
        found = tables.columns(of.name, schema, run_id=run_id, cluster_id=cluster_id)
        return zip(*(column.to_pylist() for column in found.columns), strict=True)

    roles = rows(REPLICA_ROLES, "topic", "partition", "leader_id")
    leaders = {(topic, partition): leader for topic, partition, leader in roles if topic != METADATA_TOPIC}
    # an inferred leader leads by nothing but the comparisons that were made with it
    inferred = {(topic, partition): leader for topic, partition, leader in rows(REPLICA_VERDICTS, "topic", "partition", "leader_id")}
    leaders |= {key: leader for key, leader in inferred.items() if leaders.get(key, -1) < 0}
    logs = {
        (topic, partition, broker): (end, topic_id)
        for topic, partition, broker, state, end, topic_id in rows(
            REPLICA_LOGS, "topic", "partition", "broker_id", "state", "log_end_offset", "topic_id"
        )
        if state == "current"
    }
    entries: dict[tuple[str, int, int], list[tuple[int, int]]] = defaultdict(list)
    for topic, partition, broker, epoch, start, in_effect in rows(
        EPOCH_START_OFFSETS, "topic", "partition", "broker_id", "leader_epoch", "start_offset", "in_effect"
    ):
        if in_effect is not False and leaders.get((topic, partition)) == broker:  # null: of an older version of the tables
            entries[topic, partition, broker].append((epoch, start))
    asked: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    for topic, partition, leader, epoch in rows(EPOCH_END_OFFSETS, "topic", "partition", "leader_id", "requested_epoch"):
        asked[topic, partition, leader].add(epoch)
    made = RunThen()
    for (topic, partition), leader_id in sorted(leaders.items()):
        key = (topic, partition, leader_id)
        end, topic_id = logs.get(key, (None, None))
        if end is None:
            made.unknown.append(f"{topic}-{partition}")
            continue
        then = LeaderThen(leader_id=leader_id, entries=table(sorted(entries[key])), log_end_offset=end)
        epochs = sorted({entry.epoch for entry in then.entries} | {epoch for epoch in asked[key] if epoch >= 0})
        made.partitions.append(PartitionThen(topic=topic, partition=partition, topic_id=topic_id, leader=then, epochs=tuple(epochs)))
    return made
