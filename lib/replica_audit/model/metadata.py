"""What metadata says: elections, ISR, brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from replica_audit.frozen import made_quickly


class Election(NamedTuple):
    """One leader epoch of a partition as the metadata log tells it. `leader_id` is -1 where nobody leads.

    `kind` is created, snapshot, clean, unclean, same-leader or leaderless; `isr` and `elr` are those after the change, `electable` the ISR
    and ELR before it: who could be elected cleanly. The record stands at `metadata_offset` of the metadata log, in its epoch
    `metadata_epoch`.
    """

    leader_epoch: int
    leader_id: int
    kind: str
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    metadata_offset: int
    metadata_epoch: int
    timestamp_ms: int
    electable: tuple[int, ...] = ()


class IsrChange(NamedTuple):
    """One change of a partition's ISR within a leader epoch; `isr` is that after the change. Offset and epoch as in `Election`."""

    leader_epoch: int
    isr: tuple[int, ...]
    metadata_offset: int
    metadata_epoch: int
    timestamp_ms: int


class MinIsrSetting(NamedTuple):
    """min.insync.replicas as the metadata log sets it; None where a record removes it, or its value is not a number.

    `broker` is None in a topic's own setting, the id of the broker that it is of, or -1 in the cluster's default.
    """

    value: int | None
    metadata_offset: int
    broker: int | None = None


class BrokerEvent(NamedTuple):
    """A broker's registration as a record of the metadata log leaves it: a `BrokerState`, or `unregistered`."""

    broker_id: int
    state: str
    metadata_offset: int
    metadata_epoch: int
    timestamp_ms: int


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """What one source says of one partition. `leader` and `leader_epoch` are -1 where there is none or it is unknown.

    `compacted`: whether cleanup.policy says so, None where it is unknown. `no_leader`: the source names the partition and says that nobody
    leads it. `last_known_elr`: of KIP-966; of a partition without a leader its one member is the last leader.

    `source` is `cluster-metadata` (the file) or `metadata-log` (a broker's copy of the KRaft log). `known_at_ms`: when the file was
    written, or the partition last changed; None if unknown. `log_epoch` and `log_end_offset` tell how far a copy of the log reaches, -1 for
    the file. `isr_changes` are those within epochs, besides `elections`; `min_isr` the topic's settings of min.insync.replicas, in order;
    `ever_replicas` every replica that a record assigned. All three are empty where no metadata log is known. `delete_retention_ms`,
    `unclean_leader_election`: the topic's delete.retention.ms and unclean.leader.election.enable, None where they are unknown;
    `remote_storage`: its remote.storage.enable. `min_insync_replicas`, `message_format`: its min.insync.replicas and message.format.version
    as the file has them, of one moment.
    """

    topic: str
    partition: int
    topic_id: str | None
    compacted: bool | None
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    no_leader: bool = False
    source: str
    known_at_ms: int | None = None
    log_epoch: int = -1
    log_end_offset: int = -1
    elections: tuple[Election, ...] = ()
    isr_changes: tuple[IsrChange, ...] = ()
    min_isr: tuple[MinIsrSetting, ...] = ()
    ever_replicas: tuple[int, ...] = ()
    delete_retention_ms: int | None = None
    unclean_leader_election: bool | None = None
    min_insync_replicas: int | None = None
    message_format: str | None = None
    remote_storage: bool | None = None


class BrokerStanding(NamedTuple):
    """A broker as one copy of the metadata log leaves it: a `BrokerState`, whether it is fenced, and when that was last told.

    `changed_ms` is -1 where the record of that has no time. `broker_epoch` is that of its last registration, -1 if unknown: a broker gets a
    higher one each time that it starts. `log_dirs`: the ids of its log directories then (KIP-858), empty where they are not told.
    """

    broker_id: int
    fenced: bool
    state: str
    changed_ms: int
    broker_epoch: int = -1
    log_dirs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataCopy:
    """One copy of the metadata log as a whole: how far it reaches (epoch, end offset), and what it says of the brokers.

    `last_timestamp_ms`: when its last batch was appended; -1 if it has none.
    """

    metadata_version: int | None
    log_epoch: int
    log_end_offset: int
    brokers: tuple[BrokerStanding, ...]
    broker_events: tuple[BrokerEvent, ...] = ()
    min_isr: tuple[MinIsrSetting, ...] = ()
    last_timestamp_ms: int = -1


class LoggedVersions(NamedTuple):
    """The versions that a broker's own log shows last; None of what it does not show."""

    kafka_version: str | None = None
    inter_broker_protocol: str | None = None
