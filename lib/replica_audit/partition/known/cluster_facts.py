"""What is true of a cluster as a whole, from the file beside its brokers and from the copies of its metadata log; whether a broker ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replica_audit.config import Settings
from replica_audit.formats.metadata.cluster_metadata import ClusterMetadata
from replica_audit.model import LogDirectory, LoggedVersions, MetadataCopy, ReplicaFiles
from replica_audit.partition.known.log_directories import (
    OtherCopy,
    SharedId,
    WholeBroker,
    kraft_brokers,
    other_copies,
    shared_ids,
    whole_brokers,
)
from replica_audit.protocol.cluster.cluster_history import ClusterHistory, Moment, release_of
from replica_audit.protocol.cluster.metadata_image import BrokerState
from replica_audit.protocol.cluster.versions import (
    Generation,
    MessageFormats,
    describes_producers,
    generation,
    lowest,
    lowest_told,
    message_formats,
    protocol_of_moves,
    release,
)
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.protocol.verdict.acknowledgement import Acknowledgements
from replica_audit.rows.codes import Protocol

# a fenced broker may be dead or frozen: of it nothing is known
_STATES: Mapping[str, str] = {BrokerState.UP: "up", BrokerState.STARTING: "up", BrokerState.STOPPING: "up", BrokerState.STOPPED: "stopped"}
UNKNOWN_TIME = 1 << 62  # later than any: no retention can be proven to last still


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What is true of a whole cluster.

    `broker_states` (up, down, paused; by the metadata log up, or stopped after a controlled shutdown), `fenced`, by the metadata log, and
    `broker_epochs`, of their last registrations, are empty where there is no such metadata. `logs_go_on`: the server logs begin when the
    copies were taken. `metadata_log_end`: (epoch, end offset) of the copy of the metadata log that reaches farthest; `history`: what that
    copy tells of the brokers over time. `compare`: how closely replicas are compared; `show_keys`: whether keys may be shown as text.
    `every_row`: whether rows that only say that nothing is cut are stored, too.
    `audited_at_ms`: when the audit began, later than any copy was taken. `describes_producers`: whether the brokers can be asked for the
    producers of a partition, as those of 3.0 and later; None: not known. `acknowledged`: the findings that somebody knows of.
    `named`: every broker that the metadata names, empty without any. `kafka_version`: of the brokers, the lowest where they differ.
    `kraft`: the brokers that KRaft runs. `whole_brokers`: those of which the input has every replica. `other_copies`: log directories that
    are second copies of others, and are not judged. `shared_ids`: ids of directories that several brokers' have.
    """

    generation: Generation
    moves: Protocol = Protocol.KIP_279
    broker_states: Mapping[int, str] = field(default_factory=dict)
    fenced: Mapping[int, bool] = field(default_factory=dict)
    broker_epochs: Mapping[int, int] = field(default_factory=dict)
    simultaneous: bool = False
    metadata_log_end: tuple[int, int] = (-1, -1)
    what_if_leaders: bool = False
    what_if_at_stake: bool = False
    every_row: bool = True
    logs_go_on: bool = False
    compare: CompareMode = CompareMode.CONTENT
    show_keys: bool = False
    audited_at_ms: int = UNKNOWN_TIME
    history: ClusterHistory = field(default_factory=ClusterHistory)
    describes_producers: bool | None = None
    formats: MessageFormats = field(default_factory=MessageFormats)
    acknowledged: Acknowledgements = field(default_factory=Acknowledgements)
    named: tuple[int, ...] = ()
    kafka_version: str | None = None
    kraft: tuple[int, ...] = ()
    whole_brokers: Mapping[int, WholeBroker] = field(default_factory=dict)
    other_copies: tuple[OtherCopy, ...] = ()
    shared_ids: tuple[SharedId, ...] = ()

    def is_other_copy(self, broker_id: int, log_dir: str) -> bool:
        """Whether a log directory is a second copy of one that is judged."""
        return bool(self.other_copies) and any((one.broker_id, one.path) == (broker_id, log_dir) for one in self.other_copies)

    @property
    def applies(self) -> Protocol:
        """The truncation rule that the cluster runs."""
        return self.generation.protocol


def cluster_facts(
    head: ClusterMetadata | None,
    copies: Sequence[MetadataCopy],
    settings: Settings,
    logged: Sequence[LoggedVersions] = (),
    audited_at_ms: int = UNKNOWN_TIME,
    acknowledged: Acknowledgements | None = None,
    log_directories: Sequence[tuple[int, LogDirectory]] = (),
) -> ClusterFacts:
    """The facts of one cluster.

    Args:
        head: of its cluster-metadata.json, None if there is none.
        copies: of its metadata log; the one that reaches farthest counts.
        settings: of the run.
        logged: the versions in the brokers' own logs.
        audited_at_ms: when the audit began.
        acknowledged: what somebody knows of in the cluster.
        log_directories: that the input has, each with its broker.
    """
    copy = max(copies, key=lambda one: (one.log_epoch, one.log_end_offset), default=None)
    fenced = {broker.broker_id: broker.fenced for broker in copy.brokers} if copy else {}
    in_file = head.metadata_version if head else None
    level = in_file if in_file is not None or copy is None else copy.metadata_version
    version = lowest([head.kafka_version] if head else ()) or lowest(row.kafka_version for row in logged)
    chosen = generation(
        requested=settings.protocol,
        inter_broker_protocol=head.inter_broker_protocol if head else None,
        metadata_version=level,
        broker_version=head.kafka_version if head else None,
        has_metadata_log=copy is not None,
        logged_protocol=lowest(row.inter_broker_protocol for row in logged),
        logged_version=lowest_told(row.kafka_version for row in logged),
    )
    states, twins = _broker_states(head, copy), other_copies(log_directories)
    apart = {(one.broker_id, one.path) for one in twins}
    judged = [(broker, one) for broker, one in log_directories if (broker, one.path) not in apart]
    return ClusterFacts(
        generation=chosen,
        moves=protocol_of_moves(chosen.protocol, head.kafka_version if head and settings.protocol == "auto" else None),
        broker_states=states,
        fenced=fenced,
        broker_epochs={broker.broker_id: broker.broker_epoch for broker in copy.brokers} if copy else {},
        simultaneous=settings.simultaneous_copies,
        metadata_log_end=(copy.log_epoch, copy.log_end_offset) if copy else (-1, -1),
        what_if_leaders=settings.what_if_leaders,
        what_if_at_stake=settings.what_if_at_stake,
        every_row=settings.detail == "all",
        logs_go_on=settings.server_logs_after_copy,
        compare=CompareMode(settings.compare),
        show_keys=settings.show_keys,
        audited_at_ms=audited_at_ms,
        acknowledged=acknowledged or Acknowledgements(),
        named=tuple(sorted({*(head.broker_states if head else ()), *states, *fenced})),
        kafka_version=version,
        kraft=kraft_brokers(
            log_directories,
            is_known=in_file is not None or copy is not None,
            is_zookeeper=head is not None and head.inter_broker_protocol is not None,
            version=release(version),
        ),
        whole_brokers=whole_brokers(judged, {one.broker_id: one.log_dirs for one in copy.brokers} if copy else {}),
        other_copies=twins,
        shared_ids=shared_ids(log_directories),
        history=_history(copy, version),
        formats=message_formats(
            broker_version=version,
            inter_broker_protocol=(head.inter_broker_protocol if head else None) or lowest(row.inter_broker_protocol for row in logged),
            is_kraft=level is not None or copy is not None,
            of_brokers=head.message_format if head else None,
        ),
        describes_producers=describes_producers(
            broker_version=version,
            metadata_version=level,
            inter_broker_protocol=(head.inter_broker_protocol if head else None) or lowest(row.inter_broker_protocol for row in logged),
        ),
    )


def _history(copy: MetadataCopy | None, kafka_version: str | None) -> ClusterHistory:
    if copy is None:
        return ClusterHistory()
    found, is_exact = release_of(release(kafka_version), copy.metadata_version)
    return ClusterHistory(
        broker_events=copy.broker_events,
        min_isr=copy.min_isr,
        end=Moment(copy.log_end_offset, copy.log_epoch, copy.last_timestamp_ms),
        release=found,
        release_is_exact=is_exact,
    )


def _broker_states(head: ClusterMetadata | None, copy: MetadataCopy | None) -> dict[int, str]:
    """What the brokers do, by the file; by the log where the file does not know or is older."""
    log = [broker for broker in copy.brokers if broker.state in _STATES] if copy else []
    told = {broker.broker_id: _STATES[broker.state] for broker in log}
    if head is None:
        return told
    captured_at_ms = head.captured_at_ms
    newer = {broker.broker_id for broker in log if captured_at_ms is not None and broker.changed_ms > captured_at_ms}
    return told | {broker: state for broker, state in head.broker_states.items() if state != "unknown" and broker not in newer}


_ALIVE = {"up": True, "paused": True, "down": False}


def is_alive(broker_id: int, files: ReplicaFiles, cluster: ClusterFacts) -> bool | None:
    """Whether the broker of a replica ran when its files were copied, None if unknown.

    A marker of a clean shutdown lies there only while it does not. One that started again since may have done so between the copies of the
    marker and of the replica.
    """
    if files.in_use:
        return True
    state = cluster.broker_states.get(broker_id, "")
    if state == "stopped" and files.has_lock and not files.clean_shutdown:
        return True  # a controlled shutdown ends with the marker, which would have been copied: the copy is of before
    if _has_started_since(broker_id, files, cluster):
        return True
    return False if files.clean_shutdown else _ALIVE.get(state)


def may_have_run(broker_id: int, files: ReplicaFiles, cluster: ClusterFacts) -> bool:
    """Whether a broker ran while its files were copied, or may have: the metadata log has it as stopped, and its files do not say when.

    Its copy may have neither the marker nor `.lock` because it began while the broker was down, when newer releases have no `.lock`, and
    the broker had started before the marker was to be copied. Or nobody copied hidden files.
    """
    alive = is_alive(broker_id, files, cluster)
    return alive is True or (alive is None and cluster.broker_states.get(broker_id) == "stopped")


def may_be_of_different_times(broker_id: int, files: ReplicaFiles, cluster: ClusterFacts) -> bool:
    """Whether a broker may have gone on, or started, while its files were copied one by one; `collect` sees to that itself."""
    state = cluster.broker_states.get(broker_id)
    is_stopped = state == "down" or (state != "up" and is_alive(broker_id, files, cluster) is False)
    is_at_rest = state == "paused" or (is_stopped and not files.in_use)
    return not is_at_rest and not cluster.simultaneous and files.captured_at_ms is None


def _has_started_since(broker_id: int, files: ReplicaFiles, cluster: ClusterFacts) -> bool:
    """Whether a broker registered again after the stop of which the copy has the marker."""
    epoch = files.clean_shutdown_epoch
    is_copied_apart = not cluster.simultaneous and files.captured_at_ms is None
    return epoch is not None and is_copied_apart and cluster.broker_epochs.get(broker_id, -1) > epoch
