"""`report`: a past run as a page, as text or as JSON."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from replica_audit.commands import outputs
from replica_audit.commands.audit_options import COLUMNS_HELP, WAREHOUSE
from replica_audit.commands.command import Command, Option, show, tell
from replica_audit.errors import UsageError

if TYPE_CHECKING:
    from replica_audit.past.run import PastRun

_REPORT_HELP = """\
Show a past run: as one HTML page to open in a browser, as the text that the audit printed, or
as the JSON that it wrote. The page says at its top whether anything is lost, lists every
finding, and draws the worst partitions: who is right, what is truncated, what to do. It is one file
that fetches nothing: mail it, archive it, print it.

Only the tables are read: no brokers, no logs, no Spark, no Java.
"""
_REPORT_EXIT = """\
exit codes:
  0    shown, whatever the run found; with --exit-code, that of the audit
  2    wrong usage; no such run, or not complete; a table cannot be read, or the file cannot be written
  130  interrupted; 143 by SIGTERM, 129 by SIGHUP

examples:
  {command}
  {command} --warehouse /audits --output /srv/www/audit.html
  {command} --run-id 20260102T030405Z-1a2b3c --format text | less
  {command} --format json --output audit.json --top 1000
"""
FORMATS = ("html", "text", "json")
MOST_FINDINGS = 10_000  # what fits a page
PICTURED = 50


def _report(given: argparse.Namespace) -> int:
    from replica_audit.commands.terminal import show_report
    from replica_audit.past.findings import ListedRows
    from replica_audit.past.report import report_of
    from replica_audit.past.run import PastRun
    from replica_audit.report.text import plain_text as text
    from replica_audit.report.text.json_report import json_pieces
    from replica_audit.storage.warehouse.reader import WarehouseTables

    if given.top is not None and given.top < 0:
        raise UsageError(f"--top {given.top}: give 0 or more")
    outputs.check("--output", given.output)
    run = PastRun(WarehouseTables(given.warehouse), given.run_id)
    if given.format == "html":
        output = given.output or Path(f"report-{run.run_id}.html")
        outputs.check("--output", output)
        write_page(run, "--output", output, given.top)
        return _code(given, run)
    report = report_of(run, given.top)
    if given.output is None and given.format == "text":
        show_report(report)
        return _code(given, run)
    pieces = [text.render(report)] if given.format == "text" else json_pieces(report, ListedRows(run, given.top))
    if given.output is None:
        for piece in pieces:
            show(piece)
    else:
        outputs.write("--output", given.output, pieces)
        tell(f"report of run {run.run_id}: {given.output}")
    return _code(given, run)


def _code(given: argparse.Namespace, run: PastRun) -> int:
    return (run.runs[0].exit_code or 0) if given.exit_code else 0


def write_page(run: PastRun, flag: str, output: Path, top: int | None = None) -> None:
    """Write the HTML page of a run, with its worst `top` findings, to the file that a flag names, and say where it is.

    Raises:
        OutputError: it cannot be written.
    """
    outputs.write(flag, output, page(run, MOST_FINDINGS if top is None else min(top, MOST_FINDINGS)))
    tell(f"report of run {run.run_id}: {output}")


def page(run: PastRun, top: int) -> str:
    """The HTML page of a run, with its worst `top` findings."""
    from replica_audit.past.explained import Explainer
    from replica_audit.past.report import page_data
    from replica_audit.report.facts.explanation import Explained
    from replica_audit.report.facts.question import Question
    from replica_audit.report.facts.run_report import PartitionPlace
    from replica_audit.report.page.page import render, worst_partitions
    from replica_audit.storage.warehouse.arrow_tables import ChosenPartitions

    data = page_data(run, top)
    keys = worst_partitions(data, PICTURED)
    chosen = ChosenPartitions(run.tables, run.run_id, {(key.topic, key.partition) for key in keys})
    explainer = Explainer(run.tables, of=chosen)

    def explained(key: PartitionPlace) -> Explained:
        return explainer.explain(Question(topic=key.topic, partition=key.partition, run_id=run.run_id, cluster_id=key.cluster_id))

    return render(data, keys, explained)


COMMAND = Command(
    name="report",
    summary="Show a past run: as one HTML page, as text or as JSON.",
    description=_REPORT_HELP,
    epilog=f"{_REPORT_EXIT}\n{COLUMNS_HELP}",
    run=_report,
    options=(
        WAREHOUSE,
        Option(
            flag="--run-id", help="the run to show; it must be complete (default: the latest complete one)", arguments={"metavar": "ID"}
        ),
        Option(
            flag="--format",
            help="html (a page), text (what the audit printed) or json (what it wrote with --json) (default: html)",
            arguments={"choices": FORMATS, "default": "html"},
        ),
        Option(
            flag="--output",
            help="file to write, replaced as a whole (default: ./report-RUN.html; text and json are printed)",
            arguments={"type": Path, "metavar": "FILE"},
        ),
        Option(
            flag="--top",
            help=f"how many of the worst findings, groups and choices to show (default: as the audit did; html: {MOST_FINDINGS}; json: all "
            "findings)",
            arguments={"type": int, "metavar": "N"},
        ),
        Option(
            flag="--exit-code",
            help="end with the exit code that the audit ended with, where whatever ran it lost that",
            arguments={"action": "store_true"},
        ),
    ),
)
