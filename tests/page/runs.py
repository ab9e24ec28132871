"""Runs to make pages of without tables: as many findings as wanted, with names that nobody should give a topic."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from replica_audit.report.facts.run_report import Cluster, Finding, Report
from replica_audit.report.page.page_data import Losses, PageData
from replica_audit.rows.pairs import ReplicaVerdict
from tests.support.rows import sparse

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"><!--\u2028'&quot;"


def finding(**changed: Any) -> Finding:
    row = sparse(
        ReplicaVerdict,
        verdict="stale_tail",
        severity="error",
        topic="orders",
        partition=0,
        leader_id=1,
        follower_id=2,
        leader_source="metadata-log",
        divergence_offset=10,
        truncation_offset=10,
        removed_records=5,
        removed_committed=0,
        reason="truncates to 10: whether offsets 10..14 were committed is unknown",
    )
    made: Finding = with_columns(Finding(cluster_id="c", row=row, fetcher_fails=False, still_diverged=False), **changed)
    return made


def with_columns(found: Any, **changed: Any) -> Any:
    """Something that the report has of a row, changed in columns of the row, or in what it says besides."""
    own = {name: changed.pop(name) for name in ("cluster_id", "fetcher_fails", "still_diverged") if name in changed}
    row = replace(found.row, **changed)
    return found._replace(row=row, **own) if hasattr(found, "_replace") else replace(found, row=row, **own)


def cluster(**changed: Any) -> Cluster:
    made = Cluster(
        cluster_id="c",
        path="/brokers",
        label="brokers",
        brokers=3,
        replicas=9,
        partitions=3,
        protocol="truncate-on-fetch",
        protocol_reason="metadata.version level 29 (KRaft)",
        metadata=True,
        inferred_leaders=0,
        verdicts={"identical": 6},
        input_errors=0,
        unclean_elections=0,
        affected_groups=0,
        affected_positions=0,
    )
    return replace(made, **changed)


def page_data(*findings: Finding, **changed: Any) -> PageData:
    """A page's data; `changed` are fields of it or of its report."""
    statuses = changed.pop("statuses", ("new",) * len(findings))
    report = Report(
        run_id="first",
        warehouse="warehouse",
        exit_code=1 if findings else 0,
        fail_on="error",
        seconds=5.0,
        clusters=(cluster(),),
        findings=findings,
        finding_count=len(findings),
        impacts=(),
        candidates=(),
        best_led_partitions=0,
        already_lost_partitions=0,
        problems=(),
        problem_count=0,
        changes={"new": len(findings)} if findings else {},
    )
    of_report = {name: changed.pop(name) for name in tuple(changed) if name in Report.__slots__}
    made = PageData(
        report=replace(report, **of_report),
        started_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        finished_at=None,
        run_date=date(2026, 1, 2),
        inputs=("/brokers",),
        versions=(("replica-audit", "0"),),
        settings=(("fail_on", "error"),),
        losses=Losses(),
        statuses=statuses,
        leaders=(),
        resolved=(),
    )
    return replace(made, **changed)
