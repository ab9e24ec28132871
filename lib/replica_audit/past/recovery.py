"""The tables of a past run → what somebody has to act upon, cluster by cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset as ds

from replica_audit.errors import UsageError
from replica_audit.formats.log_dir.names import OFFSET_CHECKPOINTS
from replica_audit.model import NOT_OPENED
from replica_audit.past.findings import missing_part, still_open
from replica_audit.past.run import PastRun
from replica_audit.protocol.verdict.acknowledgement import FOUND_NOW, Status
from replica_audit.protocol.verdict.partition_findings import BAD_ENDS, PartitionCode
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.facts import PartitionKey, RecoveryFacts, ReplicaKey, keys_of, will_be_cut
from replica_audit.recovery.gone import without_gone
from replica_audit.report.facts.due_facts import NAMED, STOPPED, UNKNOWN, DueElection, DueFacts, DueGroups, DuePartitions, KnownSum
from replica_audit.rows import (
    BROKER_STARTS,
    CONSUMER_IMPACTS,
    FINDINGS,
    INPUT_ERRORS,
    OPEN_TRANSACTIONS,
    REPLICA_LOGS,
    REPLICA_ROLES,
    REPLICA_STARTS,
    REPLICA_VERDICTS,
    WHAT_IF_LEADERS,
    Table,
)
from replica_audit.rows.codes import Severity
from replica_audit.rows.columns import hints_of
from replica_audit.rows.findings import RunFinding
from replica_audit.rows.history import ConsumerImpact
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.records import OpenTransactionRow
from replica_audit.rows.replicas import ReplicaLog, ReplicaRole
from replica_audit.rows.runs import NO_CLUSTER, ReportedProblem
from replica_audit.rows.starts import BrokerStart, ReplicaStart, StartBecause, StartOutcome
from replica_audit.rows.what_if import WhatIfLeader

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


pc: Any = pyarrow.compute  # whose stubs lack overloads that are used here
_KEY = ("topic", "partition")
_VERDICTS = (
    *_KEY,
    "follower_id",
    "verdict",
    "lost_records",
    "removed_committed",
    "already_truncated",
)
_SUMS = {"lost_records": "lost_records", "lost_committed": "removed_committed"}


def due_facts(run: PastRun, cluster_id: str, known: pa.Table | None = None) -> DueFacts:
    """Read one cluster; equal to `due_of` of its `recovery_of`.

    Args:
        run: what to read.
        cluster_id: of which cluster.
        known: cluster, topic and partition of those that are left out; None: none is.

    Raises:
        UsageError: a table cannot be read.
    """
    own = ds.field("cluster_id") == cluster_id
    apart = None if known is None else known.filter(own).select(_KEY)
    offline = _without(_offline(run, own), apart)
    is_found = own & (ds.field("severity") != str(Severity.NONE)) & (ds.field("verdict") != str(Verdict.INCONCLUSIVE))
    verdicts = _without(run.read(REPLICA_VERDICTS, _VERDICTS, is_found), apart)
    truncated = verdicts.filter(pc.and_kleene(pc.field("already_truncated"), pc.field("verdict") == str(Verdict.COMMITTED_LOSS)))
    hanging = _without(run.read(OPEN_TRANSACTIONS, _KEY, own & ds.field("hangs_because").is_valid()), apart)
    return DueFacts(
        elections=tuple(_elections(offline)),
        leaderless=_partitions(offline.select(_KEY)),
        truncated=_partitions(truncated),
        truncated_on=tuple(_values(truncated, "follower_id")),
        groups=_groups(run, own, apart),
        transactions=_partitions(hanging),
        wrong_tables=_partitions(verdicts.filter(pc.field("verdict") == str(Verdict.EPOCH_TABLE_ONLY))),
        still_open=still_open(run, cluster_id),
        missing=missing_part(run, cluster_id),
    )


def _without(rows: pa.Table, apart: pa.Table | None) -> pa.Table:
    """The rows of other partitions than these, in their order."""
    if apart is None or not len(apart) or not len(rows):
        return rows
    places = rows.select(_KEY).append_column("place", pa.array(np.arange(len(rows))))
    left = places.join(apart, list(_KEY), join_type="left anti")
    return rows.take(np.sort(left["place"].to_numpy()))


def _values(found: pa.Table, column: str) -> list[Any]:
    values: list[Any] = pc.unique(found[column]).to_pylist()
    return sorted(values)


def _partitions(found: pa.Table) -> DuePartitions:
    """`DuePartitions` of rows that have the key of a partition, and perhaps what is summed."""
    keys = found.group_by(list(_KEY)).aggregate([])
    first = pc.select_k_unstable(keys, min(NAMED, keys.num_rows), [(name, "ascending") for name in _KEY])
    return DuePartitions(
        rows=found.num_rows,
        count=keys.num_rows,
        first=tuple(_key_of(row) for row in keys.take(first).to_pylist()),
        records=_sum(found, "lost_records"),
        committed=_sum(found, "removed_committed"),
    )


def _key_of(row: dict[str, Any]) -> PartitionKey:
    return row["topic"], row["partition"]


def _sum(found: pa.Table, column: str) -> int:
    return int(pc.sum(found[column]).as_py() or 0) if column in found.column_names else 0


def _offline(run: PastRun, own: ds.Expression) -> pa.Table:
    """Partitions without a leader, each with the columns of the candidate that loses least: null where there is none."""
    is_offline = own & ds.field("status").isin(FOUND_NOW) & (ds.field("code") == str(PartitionCode.OFFLINE_PARTITION))
    found = run.read(FINDINGS, (*_KEY, "cluster_stopped", "candidates"), is_offline)
    lists: Any = found["candidates"].combine_chunks()
    of, choices = pc.list_parent_indices(lists), pc.list_flatten(lists)
    is_best = pc.fill_null(pc.equal(pc.struct_field(choices, "rank"), 1), False)
    of, choices = of.filter(is_best), choices.filter(is_best)
    place = pc.index_in(pa.array(np.arange(found.num_rows), of.type), value_set=of)
    made = found.drop_columns(["candidates"])
    for name in ("candidate_id", "election", "unread_replicas", *_SUMS):
        made = made.append_column(_SUMS.get(name, name), pc.struct_field(choices, name).take(place))
    return made


def _elections(offline: pa.Table) -> Sequence[DueElection]:
    if not offline.num_rows:
        return []
    all_stopped = pc.all(pc.fill_null(offline["cluster_stopped"], False)).as_py()  # else it matters who is started first
    is_unread = pc.greater(pc.fill_null(offline["unread_replicas"], 0), 0)
    is_unknown = is_unread if all_stopped else pc.or_(pc.is_null(offline["candidate_id"]), is_unread)
    elected = STOPPED if all_stopped else pc.fill_null(offline["election"], str(None))
    known = offline.append_column("how", pc.if_else(is_unknown, UNKNOWN, elected))
    leads = pc.if_else(is_unknown, None, known["candidate_id"])
    known = known.append_column("leads", pc.if_else(pc.equal(known["how"], STOPPED), None, leads))
    groups = known.group_by(["how", "leads"]).aggregate([]).to_pylist()
    made = []
    for group in sorted(groups, key=lambda one: (one["how"], one["leads"] or 0)):
        leads = pc.field("leads").is_null() if group["leads"] is None else pc.field("leads") == group["leads"]
        rows = known.filter((pc.field("how") == group["how"]) & leads)
        made.append(DueElection(how=group["how"], broker_id=group["leads"], partitions=_partitions(rows)))
    return made


def _groups(run: PastRun, own: ds.Expression, apart: pa.Table | None) -> DueGroups:
    sums = ("records_reread", "records_missed")
    found = _without(run.read(CONSUMER_IMPACTS, (*_KEY, "group_id", *sums), own & ds.field("affected")), apart)
    names = found.group_by("group_id").aggregate([])
    first = pc.select_k_unstable(names, min(NAMED, names.num_rows), [("group_id", "ascending")])
    reread, missed = (KnownSum(_sum(found, name), found[name].null_count) for name in sums)
    return DueGroups(
        count=names.num_rows,
        names=tuple(str(name) for name in names["group_id"].take(first).to_pylist()),
        reread=reread,
        missed=missed,
        partitions=_partitions(found),
    )


WHOSE_FILES = ("two-copies-of-a-broker", "directory-id-of-two-brokers", "missing-meta-properties")
"""Codes of problems that make it a guess which broker's files were read."""
_TAILS = (Verdict.COMMITTED_LOSS, Verdict.STALE_TAIL)
Row = TypeVar("Row", bound="DataclassInstance")


def recovery_facts(run: PastRun, *, cluster_id: str | None = None, gone: Collection[int] = ()) -> list[RecoveryFacts]:
    """What there is to act upon in each cluster of a run, in the order of their ids.

    Args:
        run: which is complete.
        cluster_id: only of this cluster.
        gone: brokers of the only cluster, or of this one, that never come back.

    Raises:
        UsageError: a table cannot be read; there is no such cluster, or not one only that the brokers may be of; a broker is not gone.
    """
    found = sorted({row.cluster_id for row in run.runs if row.cluster_id != NO_CLUSTER})
    if cluster_id is not None and cluster_id not in found:
        raise UsageError(f"--cluster {cluster_id}: run {run.run_id} has no such cluster; it has: {', '.join(found) or 'none'}")
    chosen = found if cluster_id is None else [cluster_id]
    if gone and len(chosen) > 1:
        raise UsageError(f"--gone {min(gone)}: of which cluster? run {run.run_id} has {len(chosen)}; give --cluster: {', '.join(chosen)}")
    return [recovery_of(run, cluster, gone=gone) for cluster in chosen]


def recovery_of(run: PastRun, cluster_id: str, *, gone: Collection[int] = ()) -> RecoveryFacts:
    """The same of one cluster; `gone`: brokers that never come back, whose replicas are no longer there.

    Raises:
        UsageError: a table cannot be read; there is no such broker, or the run saw it run.
    """
    own = ds.field("cluster_id") == cluster_id
    is_offline = own & ds.field("status").isin(FOUND_NOW) & (ds.field("code") == str(PartitionCode.OFFLINE_PARTITION))
    offline = _rows(run, FINDINGS, RunFinding, is_offline)
    is_found = own & (ds.field("severity") != str(Severity.NONE))
    verdicts = _rows(run, REPLICA_VERDICTS, ReplicaVerdict, is_found)
    groups = _rows(run, CONSUMER_IMPACTS, ConsumerImpact, own & ds.field("affected"))
    transactions = _rows(run, OPEN_TRANSACTIONS, OpenTransactionRow, own & ds.field("hangs_because").is_valid())
    wrong = ds.field("corrected_checkpoint").is_valid() | ds.field("unreadable_reason").is_valid()
    corrected = _rows(run, REPLICA_LOGS, ReplicaLog, own & wrong)
    never_fetch = _found_now(run, own, (PartitionCode.FETCH_FAILS_FOREVER,))
    lack_markers = _found_now(run, own, (PartitionCode.MARKER_MISSING,))
    at_ends = _found_now(run, own, BAD_ENDS)
    holding_alone = _found_now(run, own, (PartitionCode.STRAY_HOLDS_RECORDS,))
    starts = _starts(run, own)
    keys = (
        {key[:2] for key in (*never_fetch, *lack_markers, *at_ends, *holding_alone)}
        | keys_of(offline)
        | keys_of(verdicts)
        | keys_of(groups)
        | keys_of(transactions)
        | keys_of(corrected)
        | keys_of(starts)
        | _keys_on(run, own, gone)
    )
    logs = _of(keys, _rows(run, REPLICA_LOGS, ReplicaLog, own & _topics(keys))) if keys else ()
    facts = RecoveryFacts(
        run_id=run.run_id,
        cluster_id=cluster_id,
        offline=tuple(sorted(offline, key=lambda one: (one.topic, one.partition))),
        verdicts=tuple(sorted(verdicts, key=lambda one: (one.topic, one.partition, one.follower_id))),
        roles=_of(keys, _rows(run, REPLICA_ROLES, ReplicaRole, own & _topics(keys))) if keys else (),
        logs=logs,
        groups=tuple(sorted(groups, key=lambda one: (one.group_id, one.topic, one.partition))),
        candidates=_candidates(run, own, keys_of(offline) | keys_of(verdicts)) if offline or verdicts else (),
        transactions=tuple(sorted(transactions, key=lambda one: (one.topic, one.partition, one.first_offset))),
        brokers=_brokers(run, own) if gone else frozenset(),
        protocol=next((row.protocol for row in run.runs if row.cluster_id == cluster_id), None),
        not_read=_not_read(run, own, [log for log in logs if log.unreadable_reason is not None]),
        had_a_tail=_had_a_tail(run, own),
        holding_alone=frozenset(holding_alone),
        bad_ends=tuple(sorted(at_ends)),
        short_copies=frozenset(_found_now(run, own, (PartitionCode.ENDS_BELOW_HIGH_WATERMARK,))),
        never_fetch=frozenset({*never_fetch, *_truncate_into_a_batch(run, own, verdicts)}),
        lack_markers=frozenset(lack_markers),
        agreeing=_agreeing(run, own, {*never_fetch, *lack_markers, *_without_topic_id(logs, starts)}),
        doubted=_rows(run, INPUT_ERRORS, ReportedProblem, own & (ds.field("code").isin(WHOSE_FILES) | _is_small_file())),
        starts=starts,
        broker_starts=_rows(run, BROKER_STARTS, BrokerStart, own),
        kafka_version=next((row.kafka_version for row in run.runs if row.cluster_id == cluster_id), None),
        still_open=still_open(run, cluster_id),
        missing=missing_part(run, cluster_id),
    )
    return without_gone(facts, gone)


def _without_topic_id(logs: Sequence[ReplicaLog], starts: Sequence[ReplicaStart]) -> set[ReplicaKey]:
    """The replicas of partitions of which a log is set aside when its broker starts: which topic it is of follows from the others."""
    strays = {StartBecause.BECOMES_STRAY, StartBecause.MAY_BECOME_STRAY}
    keys = {(one.topic, one.partition) for one in starts if strays & {*one.because}}
    return {(log.topic, log.partition, log.broker_id) for log in logs if (log.topic, log.partition) in keys}


def _agreeing(run: PastRun, own: ds.Expression, replicas: Collection[ReplicaKey]) -> tuple[ReplicaVerdict, ...]:
    """Their verdicts that are no findings."""
    if not replicas:
        return ()
    is_clean = own & (ds.field("severity") == str(Severity.NONE)) & _topics({replica[:2] for replica in replicas})
    found = _rows(run, REPLICA_VERDICTS, ReplicaVerdict, is_clean)
    return tuple(one for one in found if (*one.key, one.follower_id) in replicas)


def _not_read(run: PastRun, own: ds.Expression, unreadable: Sequence[ReplicaLog]) -> frozenset[ReplicaKey]:
    """Those of unreadable replicas of which a file, or the directory, could not be read: that the broker cannot, either, is not known."""
    if not unreadable:
        return frozenset()
    refused = run.read(INPUT_ERRORS, ["broker_id", "path"], own & (ds.field("code").isin(sorted(NOT_OPENED))))
    paths = list(zip(refused["broker_id"].to_pylist(), map(str, refused["path"].to_pylist()), strict=True))
    places = {*paths, *((broker, path.rpartition("/")[0]) for broker, path in paths)}
    return frozenset(
        (log.topic, log.partition, log.broker_id) for log in unreadable if (log.broker_id, f"{log.log_dir}/{log.directory}") in places
    )


def _had_a_tail(run: PastRun, own: ds.Expression) -> frozenset[ReplicaKey]:
    """Replicas that held what their leaders did not, by findings that this run could not confirm."""
    is_open = own & (ds.field("status") == str(Status.UNCONFIRMED)) & ds.field("code").isin(list(map(str, _TAILS)))
    return frozenset(_replicas(run, is_open))


def _is_small_file() -> ds.Expression:
    """Whether a problem is of a checkpoint of offsets that a broker cannot read: it takes the log directory offline, if its file is so."""
    return (ds.field("code") == "malformed") & ds.field("kind").isin(OFFSET_CHECKPOINTS)


def _starts(run: PastRun, own: ds.Expression) -> tuple[ReplicaStart, ...]:
    """What brokers' starts do to replicas, where that is not plainly safe."""
    found = _rows(run, REPLICA_STARTS, ReplicaStart, own & (ds.field("outcome") != str(StartOutcome.SAFE)))
    return tuple(sorted(found, key=lambda one: (one.topic, one.partition, one.broker_id)))


def _truncate_into_a_batch(run: PastRun, own: ds.Expression, verdicts: Collection[ReplicaVerdict]) -> set[ReplicaKey]:
    """Replicas that truncate to an offset inside a batch of their leader, which they then cannot append."""
    fails = _replicas(
        run, own & ds.field("status").isin(FOUND_NOW) & ds.field("fetcher_fails") & ds.field("code").isin(list(map(str, _TAILS)))
    )
    return {*fails} & {(*one.key, one.follower_id) for one in verdicts if will_be_cut(one)}


def _found_now(run: PastRun, own: ds.Expression, codes: Collection[PartitionCode]) -> list[ReplicaKey]:
    """The replicas of findings of this run with one of the codes."""
    return _replicas(run, own & ds.field("status").isin(FOUND_NOW) & ds.field("code").isin(list(map(str, codes))))


def _replicas(run: PastRun, where: ds.Expression) -> list[ReplicaKey]:
    """The replica of each such finding."""
    found = run.read(FINDINGS, ["topic", "partition", "broker_id"], where)
    return list(zip(*(found[name].to_pylist() for name in ("topic", "partition", "broker_id")), strict=True))


def _keys_on(run: PastRun, own: ds.Expression, gone: Collection[int]) -> set[PartitionKey]:
    """The partitions with a replica on these brokers."""
    if not gone:
        return set()
    is_there = own & ds.field("broker_id").isin(pa.array(sorted(gone), pa.int32()))
    return {(topic, partition) for topic, partition in run.counts(REPLICA_ROLES, ["topic", "partition"], is_there)}


def _brokers(run: PastRun, own: ds.Expression) -> frozenset[int]:
    """Every broker that has a replica, or should have one; a controller has none."""
    return frozenset(broker for (broker,) in run.counts(REPLICA_ROLES, ["broker_id"], own))


def _candidates(run: PastRun, own: ds.Expression, leaderless: Collection[PartitionKey]) -> tuple[WhatIfLeader, ...]:
    rows = _rows(run, WHAT_IF_LEADERS, WhatIfLeader, own & _topics(leaderless))
    found = [row for row in rows if (row.topic, row.partition) in leaderless]
    return tuple(sorted(found, key=lambda one: (one.topic, one.partition, one.candidate_id)))


def _topics(keys: Collection[PartitionKey]) -> ds.Expression:
    return ds.field("topic").isin(pa.array(sorted({topic for topic, _partition in keys}), pa.string()))


Keyed = TypeVar("Keyed", ReplicaLog, ReplicaRole)


def _of(keys: Collection[PartitionKey], rows: tuple[Keyed, ...]) -> tuple[Keyed, ...]:
    own = [row for row in rows if (row.topic, row.partition) in keys]
    return tuple(sorted(own, key=lambda one: (one.topic, one.partition, one.broker_id)))


def _rows(run: PastRun, table: Table, kind: type[Row], where: ds.Expression) -> tuple[Row, ...]:
    return run.tables.typed(table.name, run.read(table, list(hints_of(kind)), where), kind)
