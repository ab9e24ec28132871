"""Findings of earlier runs that a run could not confirm, and the run that shows them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from replica_audit.errors import UsageError
from replica_audit.past.acknowledged import findings
from replica_audit.past.run import PastRun, in_order
from replica_audit.protocol.verdict.confirmation import FOUND_NOW, Status
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import Severity, Verdict
from replica_audit.recovery.still_open import NOTHING_OPEN, MissingPart, StillOpen
from replica_audit.report.facts.assessment import CODES_BY_LOSS, SEVERITY_NAMES
from replica_audit.report.facts.due_facts import NAMED
from replica_audit.report.facts.question import chosen_run
from replica_audit.rows.findings import RunFinding

_KEY = ["topic", "partition"]
_LOUD = [str(Severity.CRITICAL), str(Severity.ERROR)]


def still_open(run: PastRun, cluster_id: str) -> StillOpen:
    """Those of a cluster that are errors at least, without those that are acknowledged.

    Raises:
        UsageError: a table cannot be read.
    """
    wanted = (ds.field("cluster_id") == cluster_id) & ds.field("severity").isin(_LOUD)
    found = findings(run, [*_KEY, "severity", "code", "broker_id", "last_seen_run_id"], [Status.UNCONFIRMED], wanted)
    if len(found):
        found = _without_told_again(run, found, ds.field("cluster_id") == cluster_id)
    if not len(found):
        return NOTHING_OPEN
    keys = found.group_by(_KEY).aggregate([]).sort_by([(name, "ascending") for name in _KEY])
    ranked = found.append_column("severity_rank", pc.index_in(found["severity"], pa.array(SEVERITY_NAMES)))
    ranked = ranked.append_column("code_rank", pc.index_in(found["code"], pa.array(CODES_BY_LOSS)))
    order = [(name, "ascending") for name in ("severity_rank", "code_rank", *_KEY, "broker_id")]
    (worst,) = found.take(in_order(ranked, order)[:1]).to_pylist()
    return StillOpen(
        rows=len(found),
        count=len(keys),
        first=tuple((row["topic"], row["partition"]) for row in keys.slice(0, NAMED).to_pylist()),
        worst=(worst["topic"], worst["partition"]),
        seen_by=worst["last_seen_run_id"] if _is_kept(run, worst["last_seen_run_id"]) else None,
    )


def _without_told_again(run: PastRun, found: pa.Table, own: ds.Expression) -> pa.Table:
    """Leave out what a broker's log told while its replica could not be compared, where the verdict of this run tells that it is lost."""
    replica = [*_KEY, "broker_id"]
    lost = findings(run, replica, FOUND_NOW, own & (ds.field("code") == str(Verdict.COMMITTED_LOSS)))
    if not len(lost):
        return found
    is_told = pc.field("code") == str(PartitionCode.REMOVED_BELOW_HIGH_WATERMARK)
    left = found.filter(is_told).join(lost, replica, join_type="left anti")
    return pa.concat_tables([found.filter(~is_told), left.select(found.column_names).cast(found.schema)])


def missing_part(run: PastRun, cluster_id: str) -> MissingPart | None:
    """What an earlier run had of a cluster and this one lacks; None: nothing."""
    row = next((row for row in run.runs if row.cluster_id == cluster_id), None)
    if row is None or not (row.last_seen_run_id or row.missing_broker_ids):
        return None
    brokers = None if row.last_seen_run_id else row.missing_broker_ids
    return MissingPart(cluster_id=cluster_id, broker_ids=brokers, last_seen_run_id=row.last_seen_run_id)


def kept_runs(run: PastRun, found: Iterable[RunFinding]) -> frozenset[str]:
    """The runs that saw these findings last, as far as the warehouse still has them complete: `maintain` removes old ones."""
    return frozenset(run_id for run_id in {one.last_seen_run_id for one in found} if _is_kept(run, run_id))


def _is_kept(run: PastRun, run_id: str | None) -> bool:
    if not run_id:
        return False
    try:
        chosen_run(run.tables, run_id=run_id)
    except UsageError:
        return False
    return True
