"""What a page says beyond the report: what only a run of the past can tell at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

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
