"""Findings in words: the cells of a verdict, the first of a run, and what is new, known or back over the nights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.protocol.verdict.acknowledgement import AckState, Status
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.assessment import CODES_BY_LOSS, SEVERITY_NAMES
from replica_audit.report.facts.run_report import AcknowledgedGroup, Finding, Report
from replica_audit.rows.arrow import severity_ranks
from replica_audit.rows.findings import RunFinding
from replica_audit.rows.pairs import ReplicaVerdict


def cell(value: int | None) -> str:
    """An offset, or that there is none."""
    return "-" if value is None else str(value)


def cut(verdict: ReplicaVerdict) -> str:
    """Where the follower truncates, as a cell."""
    if verdict.restart_offset is not None:
        return f"start {verdict.restart_offset}"
    return cell(verdict.truncation_offset)


def loses(finding: Finding) -> str:
    """What the follower loses, or what else is wrong with it, as a cell."""
    already = "already: " if finding.row.already_truncated else ""
    match Verdict(finding.row.verdict):
        case Verdict.COMMITTED_LOSS:
            return f"{already}{_records(finding)}, {_committed(finding)}"
        case Verdict.STALE_TAIL:
            return f"{already}{_records(finding)}"
        case Verdict.LOG_MATCHING_VIOLATION:
            return _and_lost(finding, *_diverged(finding))
        case Verdict.CANNOT_REJOIN:
            return _and_lost(finding, "never catches up", "stays out")
        case Verdict.INCONCLUSIVE:
            return finding.row.cause or "unknown; the reason says why"  # of an older version, which has it in the reason only
        case other:
            return LOSES[other]


LOSES: dict[Verdict, str] = {
    Verdict.TRUNCATED_OTHERWISE: "broker truncated elsewhere",
    Verdict.CONTENT_MISMATCH: "stays; other bytes",
    Verdict.COMPACTION_DIFFERS: "keys differ, for good",
    Verdict.REBATCHED: "nothing; other batches",
    Verdict.EPOCH_TABLE_ONLY: "nothing; checkpoint wrong",
    Verdict.UNREADABLE: "cannot be read",
    Verdict.STALE_TOPIC_ID: "log of an earlier topic",
    Verdict.CONSISTENT: "nothing",
    Verdict.LAGGING: "nothing",
    Verdict.IDENTICAL: "nothing",
}


def _diverged(finding: Finding) -> tuple[str, str]:
    """How a divergence stays: alone, and beside what is lost."""
    if finding.fetcher_fails:
        return "stays; fetch fails", "fetch fails"
    return ("stays diverged", "stays") if finding.still_diverged else ("diverged in the ISR", "in the ISR")


def _and_lost(finding: Finding, alone: str, short: str) -> str:
    """What stays wrong, in few words beside the records lost if there are any."""
    if finding.row.loses_records == 0:
        return alone
    already = "already " if finding.row.already_truncated else ""
    committed = f", {finding.row.removed_committed} committed" if finding.row.removed_committed else ""
    return f"{short}; {already}{_number(finding.row.loses_records)} lost{committed}"


def _number(records: int | None) -> str:
    """A number of records; `?` where the batches could not be read again."""
    return "?" if records is None else str(records)


def _records(finding: Finding) -> str:
    """The records, and transaction markers apart: nobody consumes these."""
    records, markers = finding.row.loses_records, _markers(finding)
    if markers:
        return f"{_number(None if records is None else records - markers)} + {markers} markers"
    return f"{_number(records)} records"


def _markers(finding: Finding) -> int:
    split = finding.row.lost_by_transaction
    return split.markers if split is not None and split.total == finding.row.loses_records else 0


def _committed(finding: Finding) -> str:
    return committed_part(finding.row.loses_records or 0, finding.row.removed_committed or 0)


def committed_part(records: int, committed: int) -> str:
    """How many of the offsets that go had been committed; of a compacted log there are fewer records than that."""
    return f"{committed}{' offsets' if committed > records else ''} committed"


_WHY_BACK = {
    AckState.EXPIRED: "expired",
    AckState.MORE_SEVERE: "the finding is more severe than acknowledged",
    AckState.MORE_RECORDS: "more records are lost than acknowledged",
}


def news_title(report: Report) -> str:
    """How many findings are new since the run before, and how many came back: an acknowledgement covers them no longer."""
    total = sum(report.new_findings.values())
    back = sum(one.count for one in report.acknowledgements if one.state is not AckState.ACKNOWLEDGED)
    also = f"; {back} {'is' if back == 1 else 'are'} no longer acknowledged" if back else ""
    return f"{total or 'No'} new {_findings(total)} since the run before{also}"


def news_lines(report: Report) -> tuple[str, ...]:
    """The worst of the new findings, how many others there are, and what this run could not check; empty without a run before."""
    earlier = {status: count for status, count in report.changes.items() if status != Status.NEW}
    if not report.warehouse or not report.is_compared:
        return ()
    labels = {cluster.cluster_id: f" ({cluster.label})" for cluster in report.clusters} if len(report.clusters) > 1 else {}
    lines = [_shown(one, labels.get(one.cluster_id, "")) for one in report.newest]
    more = sum(report.new_findings.values()) - len(report.newest)
    lines += [f"and {more} more: {_by_severity(report)}"] if more > 0 else []
    others = [f"{count} {status}" for status, count in earlier.items()]
    lines += [f"Besides: {', '.join(others)}."] if others else []
    lines += [f"not confirmed: {_shown(one, labels.get(one.cluster_id, ''))}" for one in report.not_confirmed]
    unseen = report.changes.get(Status.UNCONFIRMED, 0) - len(report.not_confirmed)
    lines += [f"and {unseen} more not confirmed"] if unseen > 0 else []
    return tuple(lines or ["Nothing else is open."])


def known_count(report: Report) -> str:
    """How many findings are acknowledged."""
    return f"{report.acknowledged_count} acknowledged {_findings(report.acknowledged_count)}"


def acknowledged_title(report: Report) -> str:
    """How many there are, and when the next of their acknowledgements expires."""
    total = known_count(report)
    until = min((one.until for one in report.acknowledgements if one.state is AckState.ACKNOWLEDGED), default=None)
    return total if until is None else f"{total}, next expires {until}"


def acknowledged_lines(report: Report) -> tuple[str, ...]:
    """One line for each acknowledgement that covers findings."""
    return tuple(_group(one) for one in report.acknowledgements if one.state is AckState.ACKNOWLEDGED)


def no_longer_lines(report: Report) -> tuple[str, ...]:
    """One line for each acknowledgement that is about open findings and covers them no longer."""
    return tuple(f"{_WHY_BACK[one.state]}: {_group(one)}" for one in report.acknowledgements if one.state is not AckState.ACKNOWLEDGED)


def _shown(one: RunFinding, cluster: str) -> str:
    whose = f", broker {one.broker_id}" if one.broker_id >= 0 else ""
    return f"{one.severity}: {one.code.replace('_', ' ')} of {one.topic}-{one.partition}{cluster}{whose}"


def _by_severity(report: Report) -> str:
    """All new ones by severity."""
    return ", ".join(f"{report.new_findings[name]} {name}" for name in SEVERITY_NAMES if report.new_findings.get(name)) + " in all"


def _group(one: AcknowledgedGroup) -> str:
    codes = ", ".join(code.replace("_", " ") for code in one.codes)
    about = f"{one.count} {_findings(one.count)}: {codes}; {', '.join(_names(one))}; line {one.line}"
    return f"until {one.until}, {one.who}: {one.reason} ({about})"


def _names(one: AcknowledgedGroup) -> Iterator[str]:
    yield from (place.name for place in dict.fromkeys(one.partitions))
    if one.count > len(one.partitions):
        yield "..."


def _findings(count: int) -> str:
    return "finding" if count == 1 else "findings"


WORST = 5
ORDERED_BY = ("code", "severity", "removed_committed", "records_lost", "cluster_id", "topic", "partition", "broker_id")


def worst_first(found: pa.Table) -> Any:
    """The places of findings in order: partitions without a leader, then by severity, by code, and by what is lost.

    Args:
        found: rows with the columns ORDERED_BY and any others.
    """
    offline = pc.index_in(found["code"], pa.array(CODES_BY_LOSS[:1]))  # null, which comes last, for all others
    ranks: dict[str, Any] = {
        "offline_rank": offline,
        "severity_rank": severity_ranks(found["severity"]),
        "code_rank": pc.index_in(found["code"], pa.array(CODES_BY_LOSS)),
    }
    ranked = pa.table(ranks | {name: found[name] for name in ORDERED_BY[2:]})
    falling = ("removed_committed", "records_lost")
    order = [(name, "descending" if name in falling else "ascending") for name in ranked.column_names]
    return pc.sort_indices(ranked, sort_keys=order)  # type: ignore[arg-type]


def lines(worst: Sequence[Mapping[str, Any]], count: int, labels: Mapping[str, str]) -> Iterator[str]:
    """A line for each of the worst findings, and one for all others.

    Args:
        worst: rows with columns of `findings`, the worst first.
        count: of all findings.
        labels: of the clusters; they are named if there are several.
    """
    for row in worst:
        place = f"{row['topic']}-{row['partition']}"
        broker = f", broker {row['broker_id']}" if row["broker_id"] >= 0 else ""
        cluster = f" ({labels.get(row['cluster_id'], row['cluster_id'])})" if len(labels) > 1 else ""
        yield f"{row['severity']}: {row['code']}: {place}{broker}{cluster}: {row['summary']}"
    if count > len(worst):
        yield f"and {count - len(worst)} more; the summary follows"
