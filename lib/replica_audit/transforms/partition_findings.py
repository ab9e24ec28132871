"""What was found of one partition → its findings with their facts, and what was found in order, which closes earlier findings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from replica_audit.model import PartitionMetadata
from replica_audit.protocol.comparison import Context
from replica_audit.protocol.leadership import INFERRED, InferredBecause, Leadership
from replica_audit.protocol.partition_findings import (
    FindingAbout,
    PartitionCode,
    last_leader,
    leaderless_since_ms,
    looks_at_table,
    missing_epoch,
    outside_isr,
    severity_of_offline,
    was_stopped_in_order,
)
from replica_audit.protocol.replica import Replica
from replica_audit.protocol.verdict import SEVERITIES, Severity, Verdict
from replica_audit.schemas.findings_table import CANDIDATE, FOUND
from replica_audit.transforms.clusters import ClusterFacts
from replica_audit.transforms.history import utc
from replica_audit.transforms.replicas import Loaded
from replica_audit.transforms.rows import Row
from replica_audit.transforms.what_if import Cut

_NOBODY = -1
_OF_VERDICT = (
    "leader_id",
    "leader_source",
    "inferred_because",
    "divergence_offset",
    "truncation_offset",
    "restart_offset",
    "removed_records",
    "removed_below_high_watermark",
    "removed_committed",
    "commit_evidence",
    "already_truncated",
    "stuck",
    "wrong_lines",
    "hole",
    "cause",
    "evidence",
)
_OUTCOMES = ("fetcher_fails", "still_diverged")


@dataclass(slots=True, kw_only=True)
class Compared:
    """The rows about a partition's pairs, and the followers all of whose batches were found on the leader."""

    points: list[Row] = field(default_factory=list)
    verdicts: list[Row] = field(default_factory=list)
    lookups: list[Row] = field(default_factory=list)
    rules: list[Row] = field(default_factory=list)
    problems: list[Row] = field(default_factory=list)
    same_batches: list[int] = field(default_factory=list)
    cuts: dict[int, Cut] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """One partition with what was made of it.

    `metadata` is what is believed of it, without a leader where it is outdated; `because`: why the leader is inferred. `copies` is what
    each broker's own copy of the metadata log says, `compared` every replica that takes part in verdicts, `replicas` those with a log.
    """

    metadata: PartitionMetadata
    because: InferredBecause | None
    leadership: Leadership
    compared: Mapping[int, Loaded]
    replicas: Mapping[int, Replica]
    copies: Mapping[int, PartitionMetadata]
    cluster: ClusterFacts
    context: Context
    made: Compared
    choices: Sequence[Row]
    incidents: Sequence[Row] = ()

    @property
    def keys(self) -> Row:
        """The columns that name the partition."""
        return {"topic": self.metadata.topic, "partition": self.metadata.partition}

    @property
    def known_leader(self) -> Replica | None:
        """The leader by the metadata, with a log of this topic; None if it is inferred or was not read."""
        leader = self.replicas.get(self.leadership.leader_id) if self.leadership.source != INFERRED else None
        known = self.metadata.topic_id
        return leader if leader is not None and (not known or leader.topic_id in (None, known)) else None


def found_rows(audited: Audited) -> Iterator[Row]:
    """Every finding, as rows of the shape FOUND."""
    for row in (*_of_partition(audited), *_of_leader(audited), *_of_followers(audited), *_of_logs(audited)):
        named = {**audited.keys, **row}
        whose = "" if row["broker_id"] == _NOBODY else f":{row['broker_id']}"
        named["finding_key"] = f"{row['code']}:{named['topic']}-{named['partition']}{whose}"
        yield {name: named.get(name) for name in FOUND.names}


def checked_row(audited: Audited) -> Row:
    """What was found in order, as a row of the shape CHECKED."""
    metadata, leader = audited.metadata, audited.replicas.get(audited.leadership.leader_id)
    known = audited.known_leader
    has_epoch = known is not None and looks_at_table(known, audited.context) and not list(_missing_epoch(audited))
    leads = [leader.broker_id] if leader is not None and not leader.unreadable else []
    clean = [row["follower_id"] for row in audited.made.verdicts if row["severity"] == Severity.NONE] if leads else []
    return {
        **audited.keys,
        "leader_id": audited.leadership.leader_id,
        "leader_source": audited.leadership.source,
        "leader_has_epoch": has_epoch,
        "isr": list(metadata.isr),
        "clean": [*leads, *clean],
        "same_batches": sorted(audited.made.same_batches),
    }


def _of_followers(audited: Audited) -> Iterator[Row]:
    applied = {row["follower_id"]: row for row in audited.made.points if row["applies"]}
    for verdict in audited.made.verdicts:
        if verdict["severity"] == Severity.NONE:
            continue
        point = applied.get(verdict["follower_id"])
        yield {
            "code": verdict["verdict"],
            "severity": verdict["severity"],
            "broker_id": verdict["follower_id"],
            "summary": verdict["reason"],
            "about": str(FindingAbout.FOLLOWER),
            **{name: verdict.get(name) for name in _OF_VERDICT},
            **{name: bool(point and point[name]) for name in _OUTCOMES},
        }
    yield from _outside_isr(audited)


def _of_leader(audited: Audited) -> Iterator[Row]:
    leader = audited.compared.get(audited.leadership.leader_id)
    if leader is not None and leader.unreadable and not leader.incomplete:
        yield {
            **_leads(audited),
            "code": str(Verdict.UNREADABLE),
            "severity": str(SEVERITIES[Verdict.UNREADABLE]),
            "summary": f"the leader itself: {leader.unreadable}",
        }
    yield from _missing_epoch(audited)


def _of_logs(audited: Audited) -> Iterator[Row]:
    for incident in audited.incidents:
        if incident["severity"] != Severity.NONE:
            same = {name: incident[name] for name in ("severity", "broker_id", "summary")}
            yield {"code": incident["kind"], "about": str(FindingAbout.BROKER_LOG), **same}


def _leads(audited: Audited) -> Row:
    leadership = audited.leadership
    return {
        "broker_id": leadership.leader_id,
        "about": str(FindingAbout.LEADER),
        "leader_id": leadership.leader_id,
        "leader_source": leadership.source,
        "inferred_because": None if audited.because is None else str(audited.because),
        "leader_epoch": audited.metadata.leader_epoch,
    }


def _missing_epoch(audited: Audited) -> Iterator[Row]:
    leader, metadata = audited.known_leader, audited.metadata
    if leader is None:
        return
    began = next((e.timestamp_ms for e in metadata.elections if e.leader_epoch == metadata.leader_epoch), metadata.known_at_ms)
    copy = audited.copies.get(leader.broker_id)
    found = missing_epoch(
        leader,
        audited.context,
        began_at_ms=began,
        copied_at_ms=audited.compared[leader.broker_id].files.captured_at_ms,
        known_epoch=copy.leader_epoch if copy else None,
    )
    if found is not None:
        yield {
            **_leads(audited),
            "code": str(PartitionCode.LEADER_EPOCH_MISSING),
            "severity": str(found.severity),
            "summary": found.reason,
            "table_epoch": found.table_epoch,
            "known_epoch": found.known_epoch,
            "is_certain": found.is_certain,
        }


def _outside_isr(audited: Audited) -> Iterator[Row]:
    leader = audited.known_leader
    for verdict in audited.made.verdicts if leader is not None else ():
        follower = audited.replicas.get(verdict["follower_id"])
        if leader is None or follower is None:
            continue
        copied = [audited.compared[replica.broker_id].files.captured_at_ms for replica in (leader, follower)]
        found = outside_isr(
            verdict["verdict"],
            leader,
            follower,
            audited.metadata,
            fenced=bool(audited.cluster.fenced.get(follower.broker_id)),
            copied_at_ms=None if None in copied else max(at for at in copied if at is not None),
        )
        if found is not None:
            yield {
                **{name: verdict.get(name) for name in _OF_VERDICT},
                "code": str(PartitionCode.IN_SYNC_OUTSIDE_ISR),
                "severity": str(Severity.WARNING),
                "broker_id": follower.broker_id,
                "summary": found.reason,
                "about": str(FindingAbout.FOLLOWER),
                "isr": list(found.isr),
                "is_certain": found.is_certain,
                **dict.fromkeys(_OUTCOMES, False),
            }


def _of_partition(audited: Audited) -> Iterator[Row]:
    metadata = audited.metadata
    if not metadata.no_leader:
        return
    cleanly = [broker for broker, one in audited.compared.items() if one.files.clean_shutdown]
    stopped = was_stopped_in_order(metadata, cleanly, _running(audited.cluster, cleanly))
    since = utc(leaderless_since_ms(metadata))
    led = last_leader(metadata)
    yield {
        "code": str(PartitionCode.OFFLINE_PARTITION),
        "severity": str(severity_of_offline(stopped=stopped)),
        "broker_id": _NOBODY,
        "summary": _sentence(metadata, led, stopped=stopped),
        "about": str(FindingAbout.PARTITION),
        "leader_id": _NOBODY,
        "leader_source": metadata.source,
        "leader_epoch": metadata.leader_epoch,
        "isr": list(metadata.isr),
        "elr": list(metadata.elr),
        "last_leader_id": led,
        "leaderless_since": since,
        "cluster_stopped": stopped,
        "candidates": [{name: choice.get(name) for name in CANDIDATE.names} for choice in audited.choices],
    }


def _running(cluster: ClusterFacts, stopped_cleanly: Collection[int]) -> list[bool]:
    """Of every broker that is known, whether it runs; fenced by the metadata log, or with the marker of a clean shutdown, it does not."""
    brokers = {*cluster.broker_states, *cluster.fenced, *stopped_cleanly}
    stopped = {*stopped_cleanly, *(broker for broker, fenced in cluster.fenced.items() if fenced)}
    return [broker not in stopped and cluster.broker_states.get(broker) in ("up", "paused") for broker in brokers]


def _sentence(metadata: PartitionMetadata, led: int | None, *, stopped: bool) -> str:
    def named(brokers: Sequence[int]) -> str:
        return ", ".join(map(str, brokers)) or "none"

    who = f"nobody leads it in epoch {metadata.leader_epoch}" if metadata.leader_epoch >= 0 else "nobody leads it"
    last = "" if led is None else f", last leader {led}"
    why = "; the whole cluster was shut down in order, and starting it elects a leader cleanly" if stopped else ""
    return f"{who} (by {metadata.source}): ISR {named(metadata.isr)}, ELR {named(metadata.elr)}{last}{why}"
