"""A finding about a follower in the cells of a list: where it truncates, and what it loses."""

from __future__ import annotations

from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.run_report import Finding
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
            return f"{already}{_records(finding)}"
        case Verdict.STALE_TAIL:
            return f"{already}{_number(finding.row.loses_records)} records"
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
    records, committed = finding.row.loses_records, finding.row.removed_committed or 0
    return f"{_number(records)} records, {committed_part(records or 0, committed)}"


def committed_part(records: int, committed: int) -> str:
    """How many of the offsets that go had been committed; of a compacted log there are fewer records than that."""
    return f"{committed}{' offsets' if committed > records else ''} committed"
