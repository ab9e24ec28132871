"""A run as JSON, in pieces: its head, then its open transactions, gaps in sequences and findings, one to a line.

No more than a few of them are in memory at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any, Protocol

from replica_audit.protocol.verdict.acknowledgement import FOUND_NOW, Status
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.run_report import Report
from replica_audit.rows import FINDINGS

Rows = Iterable[Mapping[str, Any]]
_OPEN = (*FOUND_NOW, str(Status.UNCONFIRMED))
_LISTS = {"findings": FOUND_NOW, "unconfirmed": (str(Status.UNCONFIRMED),), "resolved": (str(Status.RESOLVED),)}
# of a finding about a follower these are always there; other facts only where they are known
_OF_FOLLOWER = (
    "leader_source",
    "divergence_offset",
    "truncation_offset",
    "restart_offset",
    "fetcher_fails",
    "still_diverged",
    "removed_records",
    "records_lost",
    "removed_below_high_watermark",
    "removed_committed",
    "commit_evidence",
    "already_truncated",
    "evidence",
)


class ListsOfRows(Protocol):
    """Where the rows come from, in the order to be written."""

    def findings(self, statuses: tuple[str, ...], /, *, acknowledged: bool = False) -> Rows:
        """The rows of `findings` of these statuses that are not acknowledged, or else those that are."""

    def open_transactions(self) -> Rows:
        """The rows of `open_transactions`."""

    def sequence_gaps(self) -> Rows:
        """The rows of `sequence_gaps`."""


def json_pieces(report: Report, listed: ListsOfRows) -> Iterator[str]:
    """The text of the document, in pieces.

    Args:
        report: of the run.
        listed: gives the rows.
    """
    yield "{\n" + "".join(f" {json.dumps(name)}: {json.dumps(value, default=_plain)},\n" for name, value in report.as_json().items())
    yield from _list("open_transactions", listed.open_transactions())
    yield from _list("sequence_gaps", listed.sequence_gaps())
    yield from _list("acknowledged", map(finding_json, listed.findings(_OPEN, acknowledged=True)) if report.acknowledged_count else ())
    for place, (name, statuses) in enumerate(_LISTS.items()):
        has_any = any(report.changes.get(status) for status in statuses)
        found = map(finding_json, listed.findings(statuses)) if has_any else ()
        yield from _list(name, found, is_last=place == len(_LISTS) - 1)
    yield "}\n"


def _list(name: str, rows: Rows, *, is_last: bool = False) -> Iterator[str]:
    yield f" {json.dumps(name)}: ["
    separator = "\n  "
    for row in rows:
        yield f"{separator}{json.dumps(row, default=_plain)}"
        separator = ",\n  "
    yield f"{'' if separator.startswith(chr(10)) else chr(10) + ' '}]{'' if is_last else ','}\n"


def finding_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `findings` as an object.

    A verdict on a follower has `verdict`, `follower_id` and `reason` besides `code`, `broker_id` and `summary`; they are null in others.
    """
    is_verdict = row["code"] in set(Verdict) and row["broker_id"] != row["leader_id"]
    own = {
        "cluster_id": row["cluster_id"],
        "verdict": row["code"] if is_verdict else None,
        "follower_id": row["broker_id"] if is_verdict else None,
        "reason": row["summary"],
        "leader_id": row["leader_id"],
    }
    apart = {*own, *FINDINGS.of_run}
    names = [name for name in row if name not in apart and (row[name] is not None or (is_verdict and name in _OF_FOLLOWER))]
    return own | {name: row[name] for name in names}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is nothing that JSON has")
