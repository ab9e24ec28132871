"""A run over an input, as a person gets it: its report and its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.past.report import report_of
from replica_audit.past.run import PastRun
from replica_audit.report.facts.run_report import Report
from replica_audit.report.text.blocks import ending


class Ran(NamedTuple):
    """A run in this process."""

    report: Report
    run: PastRun

    @property
    def exit_code(self) -> int:
        return self.report.exit_code

    @property
    def last_line(self) -> str:
        return list(ending(self.report))[-1]

    @property
    def problem_codes(self) -> list[str]:
        return sorted(row["code"] for row in self.rows("input_errors"))

    @property
    def verdicts(self) -> dict[tuple[str, int, int], str]:
        """By topic, partition and follower."""
        return {(row["topic"], row["partition"], row["follower_id"]): row["verdict"] for row in self.rows("replica_verdicts")}

    @property
    def findings(self) -> list[tuple[str, str, int]]:
        """(code, severity, broker) of each."""
        return sorted((row["code"], row["severity"], row["broker_id"]) for row in self.rows("findings"))

    def rows(self, table: str) -> list[dict[str, Any]]:
        found = self.run.tables.arrow(table)
        return [] if found is None else found.to_pylist()


def ran(root: Path, **settings: Any) -> Ran:
    done = triage([str(root)], Settings(**settings), tell=lambda _event: None)
    run = PastRun(done.tables, done.run_id)
    return Ran(report_of(run), run)
