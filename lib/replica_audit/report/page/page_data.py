"""What a page says beyond the report, and every finding of it as JSON that is small enough for ten thousand of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from replica_audit.errors import visible
from replica_audit.protocol.cluster.leadership import INFERRED
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.report.facts.assessment import SEVERITY_NAMES, VERDICTS_BY_LOSS
from replica_audit.report.facts.run_report import Report
from replica_audit.rows.findings import RunFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Committed records that are lost: in how many partitions, and how many offsets.

    Of several followers of one partition that lose some, the largest counts, because they may lose the same: `at_least` is then true.
    """

    partitions: int = 0
    offsets: int = 0
    at_least: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PageData:
    """A run as a page shows it.

    `statuses` are those of `report.findings`, in their order: new, persisting, or empty where the table has none. `leaders` are the other
    findings, which `report.findings` lacks: about leaders, about the ISR, and about partitions that nobody leads. `resolved` and
    `unconfirmed` are the first of those that earlier runs had.
    """

    report: Report
    started_at: datetime
    finished_at: datetime | None
    run_date: date
    inputs: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    losses: Losses
    statuses: tuple[str, ...]
    leaders: tuple[RunFinding, ...]
    resolved: tuple[RunFinding, ...]
    unconfirmed: tuple[RunFinding, ...] = ()


HOLE = "\ue000"  # where a sentence had a number; no text of Kafka's has this character
_NUMBER = re.compile(r"(?<![0-9])(?:0|[1-9][0-9]{0,14})(?![0-9])")


class _Names:
    """Values by their place in a list."""

    def __init__(self, *values: str) -> None:
        self.places = {value: place for place, value in enumerate(values)}

    def place(self, value: str) -> int:
        return self.places.setdefault(value, len(self.places))


def rows_json(data: PageData) -> str:
    """The findings for a page's script, harmless inside of a script element.

    Returns:
        An object: `clusters` (id and label of each), `severities`, `verdicts`, `topics`, `statuses`, `sentences` and `rows`. A row is
        severity, verdict, cluster, topic, partition, leader, follower (-1: the leader itself), divergence offset, truncation offset,
        restart offset, lost records, of these committed, status, sentence, its numbers, and 1 if the leader is inferred; names are
        places in the lists. Of a partition without a leader both brokers are -1.
    """
    report = data.report
    clusters = _Names(*(cluster.cluster_id for cluster in report.clusters))
    severities, verdicts, topics, statuses, sentences = _Names(*SEVERITY_NAMES), _Names(*VERDICTS_BY_LOSS), _Names(), _Names(""), _Names()
    rows: list[list[Any]] = []
    for finding, reason in _all(data):
        numbers = [int(found) for found in _NUMBER.findall(reason)]
        rows.append(
            [
                severities.place(finding[0]),
                verdicts.place(finding[1]),
                clusters.place(finding[2]),
                topics.place(finding[3]),
                *finding[4:12],
                statuses.place(finding[12]),
                sentences.place(_NUMBER.sub(HOLE, reason.replace(HOLE, "?"))),
                numbers,
                finding[13],
            ]
        )
    label = {cluster.cluster_id: cluster.label for cluster in report.clusters}
    return for_script(
        {
            "clusters": [[cluster, label.get(cluster, cluster)] for cluster in clusters.places],
            "severities": list(severities.places),
            "verdicts": list(verdicts.places),
            "topics": list(topics.places),
            "statuses": list(statuses.places),
            "sentences": list(sentences.places),
            "rows": rows,
        }
    )


def _all(data: PageData) -> Iterator[tuple[tuple[Any, ...], str]]:
    """The columns of each row, and its sentence: leaders that cannot be read stand behind the last finding that is as severe."""
    leaders = list(data.leaders)
    for finding, status in zip(data.report.findings, data.statuses, strict=True):
        row = finding.row
        while leaders and SEVERITY_NAMES.index(leaders[0].severity) < SEVERITY_NAMES.index(row.severity):
            yield _of_leader(leaders.pop(0))
        numbers = (row.divergence_offset, row.truncation_offset, row.restart_offset)
        removed = (row.loses_records, row.proven_committed)
        keys = (row.severity, row.verdict, finding.cluster_id, row.topic, row.partition)
        inferred = int(row.leader_source == INFERRED)
        yield (*keys, row.leader_id, row.follower_id, *numbers, *removed, status, inferred), row.reason
    for leader in leaders:
        yield _of_leader(leader)


def _of_leader(leader: RunFinding) -> tuple[tuple[Any, ...], str]:
    keys = (leader.severity, leader.code, leader.cluster_id, leader.topic, leader.partition)
    of_follower = leader.code in (PartitionCode.IN_SYNC_OUTSIDE_ISR, PartitionCode.FETCH_FAILS_FOREVER)
    pair = (-1 if leader.leader_id is None else leader.leader_id, leader.broker_id) if of_follower else (leader.broker_id, -1)
    return (*keys, *pair, None, None, None, None, None, leader.status, 0), leader.summary


def for_script(value: object) -> str:
    """JSON that neither ends a script element nor begins a comment in it, all ASCII; its texts as a page shows them (`visible`)."""
    text = json.dumps(_shown(value), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _shown(value: object) -> object:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    return [_shown(item) for item in value] if isinstance(value, list | tuple) else value
