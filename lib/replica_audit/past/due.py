"""The tables of a past run → what its decisions are made of, counted and summed as Arrow columns: no Python object for each finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset as ds

from replica_audit.past.run import PastRun
from replica_audit.past.unconfirmed import missing_part, still_open
from replica_audit.protocol.verdict.confirmation import FOUND_NOW
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import Severity, Verdict
from replica_audit.recovery.facts import PartitionKey
from replica_audit.report.facts.due_facts import NAMED, STOPPED, UNKNOWN, DueElection, DueFacts, DueGroups, DuePartitions, KnownSum
from replica_audit.rows import CONSUMER_IMPACTS, FINDINGS, OPEN_TRANSACTIONS, REPLICA_VERDICTS

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
