"""The cuts of a run, from its tables: what each follower loses of its log, and which files held it when it was audited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from replica_audit.model.salvage import AuditedLog, AuditedRun, LogCut, RemovedBefore
from replica_audit.past.recovery import recovery_of
from replica_audit.past.run import PastRun
from replica_audit.protocol.verdict.acknowledgement import FOUND_NOW
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.recovery.elections import leaders_by_plan
from replica_audit.recovery.facts import PartitionKey
from replica_audit.rows import FINDINGS, LOGGED_INCIDENTS, REPLICA_LOGS, REPLICA_VERDICTS, SEGMENT_EPOCHS
from replica_audit.rows.what_if import FollowerCut

_OFFLINE = PartitionCode.OFFLINE_PARTITION


PlannedCuts = dict[PartitionKey, tuple[int, list[FollowerCut]]]  # the leader of each partition, and what is cut for it
_OF_CUT = ("truncation_offset", "restart_offset", "divergence_offset", "removed_offsets", "removed_records", "removed_bytes")


def planned_cuts(run: PastRun, cluster_id: str, gone: Collection[int] = ()) -> PlannedCuts:
    """The cuts in each partition that gets a leader by the plan: none where nothing is cut. Other partitions are not there.

    Of brokers that are `gone`: what their audited copies hold and the leader does not.

    Raises:
        UsageError: a table cannot be read.
    """
    if not gone and not clusters_offline(run, cluster_id):
        return {}
    facts = recovery_of(run, cluster_id, gone=gone)
    found = {key: (choice.candidate_id, facts.cuts_under(*key, choice.candidate_id)) for key, choice in leaders_by_plan(facts).items()}
    return {key: (leader, [cut for cut in cuts if _removes(cut)]) for key, (leader, cuts) in found.items() if cuts}


def _removes(cut: FollowerCut) -> bool:
    return (cut.truncation_offset is not None or cut.restart_offset is not None) and cut.removed_offsets != 0


def clusters_offline(run: PastRun, cluster_id: str | None = None) -> list[str]:
    """The clusters, or this one, with partitions that nobody leads."""
    is_offline = ds.field("status").isin(FOUND_NOW) & (ds.field("code") == str(_OFFLINE))
    found = sorted(str(cluster) for (cluster,) in run.counts(FINDINGS, ["cluster_id"], is_offline))
    return [cluster for cluster in found if cluster_id in (None, cluster)]


_KEYS = ("cluster_id", "topic", "partition")
_VERDICT = (
    "leader_id",
    "follower_id",
    "verdict",
    "truncation_offset",
    "restart_offset",
    "divergence_offset",
    "removed_offsets",
    "lost_offsets",
)
_MORE = ("removed_records", "removed_bytes", "already_truncated", "compacted")
_LOG = ("broker_id", "log_dir", "directory", "state", "log_start_offset", "log_end_offset")
_OF_REMOVAL = ("topic", "partition", "broker_id", "end_offset", "path", "line")
_INCIDENT = (*_OF_REMOVAL[2:], "truncation_offset")
_RUN = ("broker_id", "log_dir", "segment_base_offset", *AuditedRun._fields)
_REMOVED_BELOW = "removed_below_high_watermark"
Partition = tuple[str, int]
Replica = tuple[str, int, int]  # topic, partition, broker


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCuts:
    """The cuts of one cluster of a run, ordered by topic, partition and broker, with the replicas of their partitions.

    `runs` are by replica and log directory, then by base offset of the segment; those of segments that cannot be told apart are not there,
    and their log directories are in `ambiguous`. `uncompared`: followers of which the run cannot say what is cut, with their verdict.
    `before`: what brokers' own logs say was removed before the copies were taken.
    """

    cluster_id: str
    cuts: tuple[LogCut, ...]
    logs: dict[Replica, AuditedLog]
    runs: dict[tuple[Replica, str], dict[int, tuple[AuditedRun, ...]]]
    ambiguous: frozenset[tuple[Replica, str]]
    uncompared: tuple[tuple[Replica, str], ...]
    before: tuple[RemovedBefore, ...]


def cuts_of(run: PastRun, cluster_id: str, partitions: Collection[Partition] | None = None, *, gone: Collection[int] = ()) -> RunCuts:
    """Read the cuts of one cluster.

    Args:
        run: which is complete.
        cluster_id: one of the run's.
        partitions: as (topic, partition); None for all.
        gone: brokers that never come back: another replica leads, and what their copies hold besides is cut away.

    Raises:
        UsageError: a table cannot be read; a broker is not gone by the run.
    """
    of_cluster = ds.field("cluster_id") == cluster_id
    wanted = of_cluster if partitions is None else of_cluster & _among(partitions)
    is_cut = (ds.field("removed_offsets") > 0) | _truncates()
    unclear = ds.field("removed_offsets").is_null()
    found = _rows(run.read(REPLICA_VERDICTS, (*_KEYS, *_VERDICT, *_MORE), wanted & (is_cut | unclear)), partitions)
    verdicts = [row for row in found if row["lost_offsets"] != 0]  # all of it is fetched again
    planned = planned_cuts(run, cluster_id, gone)  # of partitions without a leader verdicts are against whoever is inferred to lead
    verdicts = [row for row in verdicts if (row["topic"], row["partition"]) not in planned]
    verdicts += _planned_rows(run, cluster_id, planned, partitions)
    cut_rows = [row for row in verdicts if row["removed_offsets"] != 0 and (row["removed_offsets"] or _start(row) is not None)]
    chosen = {(row["topic"], row["partition"]) for row in cut_rows}
    logs, ambiguous = _logs(run, of_cluster & _among(chosen), chosen)
    known = [(row, log) for row in cut_rows if (log := logs.get((row["topic"], row["partition"], row["follower_id"])))]
    runs = _runs(run, of_cluster & _among(chosen), chosen, ambiguous)
    incidents = run.read(LOGGED_INCIDENTS, (*_KEYS, *_INCIDENT), wanted & (ds.field("kind") == _REMOVED_BELOW))
    return RunCuts(
        cluster_id=cluster_id,
        cuts=tuple(sorted((_cut(row, log) for row, log in known), key=lambda cut: (cut.topic, cut.partition, cut.broker_id))),
        logs=logs,
        runs=runs,
        ambiguous=ambiguous,
        uncompared=tuple(
            sorted(
                ((row["topic"], row["partition"], row["follower_id"]), row["verdict"])
                for row in verdicts
                if row["removed_offsets"] is None and _start(row) is None
            )
        ),
        before=tuple(
            RemovedBefore(first_offset=row["truncation_offset"], **{name: row[name] for name in _OF_REMOVAL})
            for row in _rows(incidents, partitions)
            if row["truncation_offset"] is not None and row["end_offset"]
        ),
    )


def _planned_rows(run: PastRun, cluster_id: str, planned: PlannedCuts, partitions: Collection[Partition] | None) -> list[dict[str, Any]]:
    """The planned cuts as rows of `replica_verdicts` have them, as much as cuts are made of."""
    wanted = {key: found for key, found in planned.items() if found[1] and (partitions is None or key in partitions)}
    if not wanted:
        return []
    where = (ds.field("cluster_id") == cluster_id) & _among(wanted)
    compacted = {
        (row["topic"], row["partition"]): row["compacted"] for row in run.read(REPLICA_VERDICTS, (*_KEYS, "compacted"), where).to_pylist()
    }
    return [
        {
            "cluster_id": cluster_id,
            "topic": topic,
            "partition": partition,
            "leader_id": leader,
            "follower_id": cut.broker_id,
            "verdict": str(_OFFLINE),
            **{name: getattr(cut, name) for name in _OF_CUT},
            "already_truncated": False,
            "compacted": compacted.get((topic, partition)),
        }
        for (topic, partition), (leader, cuts) in wanted.items()
        for cut in cuts
    ]


def _truncates() -> ds.Expression:
    found: ds.Expression = ds.field("truncation_offset").is_valid() | ds.field("restart_offset").is_valid()  # type: ignore[assignment]
    return found


def _among(partitions: Collection[Partition]) -> ds.Expression:
    """Whether a row may be about one of the partitions: those that only have another's topic and a third one's number are sifted out."""
    topics, numbers = sorted({topic for topic, _ in partitions}), sorted({number for _, number in partitions})
    return ds.field("topic").isin(pa.array(topics, pa.string())) & ds.field("partition").isin(pa.array(numbers, pa.int32()))


def _rows(found: pa.Table, partitions: Collection[Partition] | None) -> list[dict[str, Any]]:
    rows = found.to_pylist()
    return rows if partitions is None else [row for row in rows if (row["topic"], row["partition"]) in partitions]


def _start(row: dict[str, Any]) -> int | None:
    found: int | None = row["truncation_offset"] if row["restart_offset"] is None else row["restart_offset"]
    return found


def _cut(row: dict[str, Any], log: AuditedLog) -> LogCut:
    removed = row["removed_offsets"]
    if removed is not None:
        first = log.log_end_offset - removed
    else:  # the batches could not be read again: it may begin with the batch that holds the offset
        first = log.log_start_offset if row["restart_offset"] is not None else max(log.log_start_offset, row["truncation_offset"])
    return LogCut(
        **{name: row[name] for name in (*_KEYS, "leader_id", "verdict")},
        broker_id=row["follower_id"],
        first_offset=first,
        end_offset=log.log_end_offset,
        record_count=row["removed_records"],
        size_bytes=row["removed_bytes"],
        differs_from=row["divergence_offset"],
        already_truncated=bool(row["already_truncated"]),
        compacted=bool(row["compacted"]),
    )


def _logs(
    run: PastRun, where: ds.Expression, chosen: Collection[Partition]
) -> tuple[dict[Replica, AuditedLog], frozenset[tuple[Replica, str]]]:
    logs: dict[Replica, AuditedLog] = {}
    directories: defaultdict[tuple[Replica, str], int] = defaultdict(int)
    for row in _rows(run.read(REPLICA_LOGS, (*_KEYS, *_LOG), where), chosen):
        replica = (row["topic"], row["partition"], row["broker_id"])
        directories[replica, row["log_dir"]] += 1
        if row["state"] == "current" and row["log_end_offset"] is not None:
            names = ("log_dir", "directory", "log_start_offset", "log_end_offset")
            logs[replica] = AuditedLog(**{name: row[name] for name in names})
    return logs, frozenset(place for place, count in directories.items() if count > 1)


def _runs(
    run: PastRun, where: ds.Expression, chosen: Collection[Partition], ambiguous: Collection[tuple[Replica, str]]
) -> dict[tuple[Replica, str], dict[int, tuple[AuditedRun, ...]]]:
    found = run.read(SEGMENT_EPOCHS, (*_KEYS, *_RUN), where)
    found = found.take(pc.sort_indices(found, sort_keys=[("first_offset", "ascending")]))
    runs: defaultdict[tuple[Replica, str], dict[int, tuple[AuditedRun, ...]]] = defaultdict(dict)
    for row in _rows(found, chosen):
        replica = (row["topic"], row["partition"], row["broker_id"])
        if (replica, row["log_dir"]) not in ambiguous:
            of_log, run_row = runs[replica, row["log_dir"]], AuditedRun(*(row[name] for name in AuditedRun._fields))
            of_log[row["segment_base_offset"]] = (*of_log.get(row["segment_base_offset"], ()), run_row)
    return dict(runs)


def clusters_with_cuts(run: PastRun, partitions: Collection[Partition] | None = None) -> list[str]:
    """The clusters of a run in which something is cut, of some partitions or of any."""
    cut = _rows(run.read(REPLICA_VERDICTS, (*_KEYS, "lost_offsets"), _truncates()), partitions)
    found = {str(row["cluster_id"]) for row in cut if row["lost_offsets"] != 0}
    for cluster in clusters_offline(run):
        planned = planned_cuts(run, cluster)
        found |= {cluster for key, (_leader, cuts) in planned.items() if cuts and (partitions is None or key in partitions)}
    return sorted(found)
