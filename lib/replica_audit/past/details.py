"""The tables of a past run → what its page says beyond the report."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from replica_audit.past.acknowledged import findings as findings_of
from replica_audit.past.acknowledged import found as found_of
from replica_audit.past.acknowledged import without_known
from replica_audit.past.report import PARTITION, report_of, whole_findings
from replica_audit.past.run import PastRun, in_order
from replica_audit.protocol.verdict.confirmation import FOUND_NOW, Status
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.assessment import SEVERITY_NAMES
from replica_audit.report.facts.run_report import Finding
from replica_audit.report.page.page_data import Losses, PageData
from replica_audit.rows import FINDINGS, REPLICA_VERDICTS
from replica_audit.rows.arrow import nullable_columns
from replica_audit.rows.findings import RunFinding

_KEYS = ["cluster_id", "code", "topic", "partition", "broker_id"]
_COLUMNS = [*_KEYS, "finding_key", "severity"]
_RESOLVED = 50
_LEADERS = 200


def page_data(run: PastRun, top: int) -> PageData:
    """Everything that the page of a run shows of the run as a whole, with the worst `top` findings.

    Raises:
        UsageError: a table cannot be read.
    """
    report = report_of(run, top)
    about = run.runs[0]
    return PageData(
        report=report,
        started_at=about.started_at,
        finished_at=max((row.finished_at for row in run.runs if row.finished_at is not None), default=None),
        run_date=about.run_date,
        inputs=about.inputs or (),
        versions=tuple(sorted((about.versions or {}).items())),
        settings=tuple((name, str(value)) for name, value in sorted(run.settings.items())),
        losses=_losses(run),
        statuses=_statuses(run, report.findings),
        leaders=_leaders(run),
        resolved=_some(run, run.read(FINDINGS, _COLUMNS, ds.field("status") == str(Status.RESOLVED)), _RESOLVED),
        unconfirmed=_some(run, findings_of(run, _COLUMNS, [str(Status.UNCONFIRMED)]), _RESOLVED),
    )


def _losses(run: PastRun) -> Losses:
    lost = run.read(
        REPLICA_VERDICTS,
        [*PARTITION, "verdict", "follower_id", "removed_committed"],
        ds.field("verdict") == str(Verdict.COMMITTED_LOSS),
    )
    lost = without_known(run, lost)
    each = lost.group_by(PARTITION).aggregate([("removed_committed", "max"), ([], "count_all")]).to_pylist()
    return Losses(
        partitions=len(each),
        offsets=sum(row["removed_committed_max"] for row in each),
        at_least=any(row["count_all"] > 1 for row in each),
    )


def _statuses(run: PastRun, findings: Sequence[Finding]) -> tuple[str, ...]:
    """The status of each finding."""
    if not findings:
        return ()
    schema = nullable_columns(FINDINGS, _KEYS)
    wanted = pa.Table.from_pylist(
        [
            {
                "cluster_id": f.cluster_id,
                "code": f.row.verdict,
                "topic": f.row.topic,
                "partition": f.row.partition,
                "broker_id": f.row.follower_id,
            }
            for f in findings
        ],
        schema=schema,
    ).append_column("place", pa.array(range(len(findings)), pa.int64()))
    known = run.read(FINDINGS, [*_KEYS, "status"], ds.field("status").isin(FOUND_NOW))
    joined = wanted.join(known, _KEYS, join_type="left outer")
    said = {row["place"]: row["status"] or "" for row in joined.select(["place", "status"]).to_pylist()}
    return tuple(said[place] for place in range(len(findings)))


def _leaders(run: PastRun) -> tuple[RunFinding, ...]:
    """Findings that are no verdict on a follower: leaders that cannot be read, and those of a partition, the worst first."""
    unreadable = str(Verdict.UNREADABLE)
    codes = [unreadable, *map(str, PartitionCode)]
    found = found_of(run, _COLUMNS, ds.field("code").isin(codes))
    if not len(found):
        return ()
    followers = run.read(REPLICA_VERDICTS, [*PARTITION, "verdict", "follower_id"], ds.field("verdict") == unreadable)
    keys = [*PARTITION, "code", "broker_id"]
    return _some(run, found.join(followers, keys, [*PARTITION, "verdict", "follower_id"], join_type="left anti"), _LEADERS)


def _some(run: PastRun, found: pa.Table, most: int) -> tuple[RunFinding, ...]:
    ranked = found.append_column("severity_rank", pc.index_in(found["severity"], pa.array(SEVERITY_NAMES)))
    first = pa.array([str(PartitionCode.OFFLINE_PARTITION)])
    ranked = ranked.append_column("code_rank", pc.index_in(found["code"], first))  # null comes last
    order = [(name, "ascending") for name in ("severity_rank", "code_rank", *_KEYS)]
    return whole_findings(run, found.take(in_order(ranked, order)[:most]))
