"""A folder as `triage` sees it: its exit code, the rows of its tables, and what it prints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.past.report import report_of
from replica_audit.past.run import PastRun
from replica_audit.report.text.plain_text import render
from replica_audit.storage.warehouse.arrow_tables import MemoryTables

Row = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """One run."""

    exit_code: int
    tables: dict[str, list[Row]]
    text: str

    def verdicts(self) -> dict[int, str]:
        """Of the followers of the only partition."""
        return {row["follower_id"]: row["verdict"] for row in self.tables["replica_verdicts"]}

    def findings(self) -> set[tuple[str, str, int]]:
        """Code, severity and broker of each."""
        return {(row["code"], row["severity"], row["broker_id"]) for row in self.tables["findings"]}

    def problems(self) -> list[str]:
        """The codes of what is wrong with the input."""
        return [row["code"] for row in self.tables["input_errors"]]


def seen(root: Path, **settings: Any) -> Seen:
    """Audit a folder."""
    done = triage([str(root)], Settings(**settings), tell=lambda *_of: None)
    names = (
        "replica_verdicts",
        "findings",
        "input_errors",
        "audit_runs",
        "replica_logs",
        "what_if_leaders",
        "epoch_start_offsets",
        "broker_starts",
    )
    tables = {name: list(_rows(done.tables, name)) for name in names}
    return Seen(tables["audit_runs"][0]["exit_code"], tables, " ".join(render(report_of(PastRun(done.tables, done.run_id))).split()))


def _rows(tables: MemoryTables, name: str) -> Iterator[Row]:
    found = tables.dataset(name)
    if found is not None:
        yield from found.to_table().to_pylist()
