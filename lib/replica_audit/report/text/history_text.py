"""What the summary says of findings over the nights: what is new, what somebody knows of, and what came back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.protocol.verdict.acknowledgement import AckState
from replica_audit.protocol.verdict.confirmation import Status
from replica_audit.report.facts.acknowledged_findings import AcknowledgedGroup, AcknowledgedPlace
from replica_audit.report.facts.run_report import Report
from replica_audit.report.facts.worst_first import SEVERITIES
from replica_audit.rows.findings import RunFinding

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
    return ", ".join(f"{report.new_findings[name]} {name}" for name in SEVERITIES if report.new_findings.get(name)) + " in all"


def _group(one: AcknowledgedGroup) -> str:
    codes = ", ".join(code.replace("_", " ") for code in one.codes)
    about = f"{one.count} {_findings(one.count)}: {codes}; {', '.join(_names(one))}; line {one.line}"
    return f"until {one.until}, {one.who}: {one.reason} ({about})"


def _names(one: AcknowledgedGroup) -> Iterator[str]:
    places: Sequence[AcknowledgedPlace] = tuple(dict.fromkeys(one.partitions))
    yield from (f"{place.topic}-{place.partition}" for place in places)
    if one.count > len(one.partitions):
        yield "..."


def _findings(count: int) -> str:
    return "finding" if count == 1 else "findings"
