"""The findings of a summary that are about partitions and leaders, a line each."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.report.advice.transaction_remedies import in_short
from replica_audit.report.facts.run_report import Report
from replica_audit.report.text.offline_text import elections, in_sync, since

_NAMED = 5


def offline_lines(report: Report) -> Iterator[str]:
    """Partitions that nobody leads, each with what electing each replica loses; those of a cluster that was shut down are one line."""
    number = {cluster.cluster_id: place for place, cluster in enumerate(report.clusters, 1)}
    for one in (one for one in report.offline if not one.cluster_stopped):
        where = "" if len(report.clusters) < 2 else f" (cluster {number[one.cluster_id]})"
        known = in_sync(one.isr, one.elr, one.last_leader_id)
        yield f"{one.topic}-{one.partition}{where}: {known}{since(one.leaderless_since)}"
        yield from (f"  {line}" for line in elections(one.candidates))
    stopped = [f"{one.topic}-{one.partition}" for one in report.offline if one.cluster_stopped]
    if stopped:
        named = f"{', '.join(stopped[:_NAMED])}{', ...' if len(stopped) > _NAMED else ''}"
        yield f"The whole cluster was shut down cleanly, and starting it elects leaders cleanly: {named}"


def leader_and_isr_lines(report: Report) -> Iterator[str]:
    """Live leaders whose table lacks their epoch, live followers that equal their leader outside the ISR, and what brokers logged."""
    for one in report.others:
        if one.code in set(PartitionCode):
            yield f"{one.topic}-{one.partition}, broker {one.broker_id}: {one.summary} ({one.code})"
            if one.hanging:
                yield from (f"  {line}" for line in in_short(one.hanging, one.topic, one.partition))
