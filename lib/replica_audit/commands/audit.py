"""`audit`: the nightly job."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from replica_audit.commands import outputs
from replica_audit.commands.audit_options import (
    COLUMNS_HELP,
    COST,
    INPUT,
    RULES,
    SAMPLE,
    acknowledged_of,
    settings_of,
    show_cost,
    show_former_settings,
)
from replica_audit.commands.command import Command, Option, name_run, show, tell
from replica_audit.commands.progress_file import PROGRESS, followed
from replica_audit.commands.running import TERMINATION_MESSAGE, ending_of, write_run
from replica_audit.commands.spark_process import own_session
from replica_audit.errors import AuditError, UsageError
from replica_audit.program import VERSION
from replica_audit.progress import TellsEvent, to_all
from replica_audit.run_ids import new_run_id, refuse_run_id

if TYPE_CHECKING:
    from replica_audit.past.run import PastRun
    from replica_audit.report.facts.run_report import Report
    from replica_audit.report.text.webhook_json import AboutRun


_FINDINGS, _INCOMPLETE = 1, 3


def is_wanted(when: str, exit_code: int) -> bool:
    """Whether the webhook is told of an audit that ends so, by the setting `webhook_on`."""
    wanted = {
        "findings": exit_code == _FINDINGS,
        "failure": exit_code not in (0, _FINDINGS, _INCOMPLETE),
        "problems": exit_code != 0,
        "always": True,
    }
    return wanted[when]


@contextmanager
def failures_posted(given: argparse.Namespace, *kinds: type[BaseException]) -> Iterator[None]:
    """Tell the webhook, if it is to know, of an exception of these kinds that ends the audit; it goes on."""
    try:
        yield
    except kinds as error:
        ending = ending_of("audit", error)
        _post_failure(given, ending.exit_code, ending.words)
        raise


def post_ended(given: argparse.Namespace, report: Report, run: Callable[[], PastRun]) -> None:
    """Tell the webhook, if it is to know, of a run whose tables are written."""
    from replica_audit.past.findings import ListedRows
    from replica_audit.past.metrics import run_metrics
    from replica_audit.report.text.webhook_json import run_document

    if report.read_nothing:
        _post_failure(given, report.exit_code, "nothing in the input could be audited; the table input_errors says why")
    else:
        html = str(given.html.absolute()) if given.html else None
        _post(given, report.exit_code, lambda about: run_document(about, report.exit_code, run_metrics(run()), ListedRows(run())), html)


def _post_failure(given: argparse.Namespace, exit_code: int, error: str) -> None:
    from replica_audit.report.text.webhook_json import failure_document

    _post(given, exit_code, lambda about: failure_document(about, exit_code, error))


def _post(given: argparse.Namespace, exit_code: int, document: Callable[[AboutRun], bytes], html: str | None = None) -> None:
    from replica_audit.webhook.posting import webhook_address

    try:
        settings = settings_of(given)
        address = webhook_address(settings.webhook_url_file)
    except AuditError:  # which is what has ended the audit, and is told
        return
    if address is None or given.cost or not is_wanted(settings.webhook_on, exit_code):
        return
    from replica_audit.report.text.webhook_json import AboutRun
    from replica_audit.webhook.posting import post

    about = AboutRun(
        run_id=given.run_id,
        run_date=given.run_date,
        inputs=given.input or [str(SAMPLE)],
        warehouse=given.warehouse,
        page_url=settings.page_url or None,
        html=html,
    )
    try:
        why = post(address, document(about), settings.webhook_timeout_s)
    except KeyboardInterrupt:
        why = "interrupted"
    except Exception as error:  # noqa: BLE001 - of the tables that the document is made of; the audit itself is done
        why = f"nothing was posted, for its document could not be made: {type(error).__name__}"
    if why:
        tell(f"warning: webhook at {address}: {why}; the exit code stays {exit_code}")


_AUDIT_HELP = """\
Read what every broker has on disk and say, for every partition and follower, where its log
diverges from the leader's, what it truncates to, and what is lost.

An input is a directory with one folder per broker (broker-1, broker-2, ...), each holding that
broker's log directories or text of kafka-dump-log; optionally beside them, a
cluster-metadata.json. Brokers may be down. Nothing in the input is written to.
"""
_AUDIT_EXIT = """\
exit codes:
  0    nothing found, or only acknowledged findings (--acknowledged)
  1    findings at or above --fail-on, new or persisting, that are not acknowledged
  2    wrong usage or configuration, no readable input, a disk error, lost rows, or a run that another process is making
  3    nothing at or above --fail-on, but some input could not be read, some replicas or records could not be
       compared, or nothing was compared at all
  70   a bug in this program; the traceback shows where
  130  interrupted; 143 by SIGTERM, 129 by SIGHUP
  137  a process of Spark was killed, most likely for want of memory

examples:
  {command}
  {command} --input /backup/brokers --warehouse /audits --fail-on critical
  {command} --input /backup/brokers --html audit.html
  {command} --input /backup/brokers --topics 'orders|payments' --json audit.json
"""


def _check(given: argparse.Namespace, *, thorough: bool = False) -> None:
    """Refuse what cannot end well, before anything is started or written; `thorough` as of `first_look.look`.

    Raises:
        AuditError: an option is wrong, or there is nothing to audit.
    """
    with failures_posted(given, AuditError):
        _refuse(given, thorough=thorough)


def _refuse(given: argparse.Namespace, *, thorough: bool) -> None:
    is_set = any(option.setting in vars(given) for option in COMMAND.options if option.setting)
    follow_links = False
    if given.config or is_set or any(name.startswith("REPLICA_AUDIT__") for name in os.environ):
        from replica_audit.webhook.posting import webhook_address

        settings = settings_of(given)  # takes long to import
        webhook_address(settings.webhook_url_file)
        follow_links = settings.follow_links
    if given.acknowledged:
        acknowledged_of(given, given.run_date or datetime.now(UTC).date())
    if given.run_id is not None:
        refuse_run_id(given.run_id)
    if given.cluster_metadata and not given.cluster_metadata.is_file():
        raise UsageError(f"--cluster-metadata {given.cluster_metadata}: no such file")
    for flag, path in (("--json", given.json), ("--html", given.html), ("--metrics", given.metrics), ("--progress", given.progress)):
        outputs.check(flag, path)
    from replica_audit.storage.warehouse.place import given_warehouse, is_catalog_name

    given_warehouse(given.warehouse)
    if given.html and is_catalog_name(given.warehouse):
        raise UsageError(
            f"--html: the page is made without Spark, which cannot look up {given.warehouse}; give --warehouse as a directory or URI"
        )
    from replica_audit.storage.inputs.first_look import look

    look(given.input or [str(SAMPLE)], given.cluster_metadata, follow_links=follow_links, thorough=thorough)


def _audit(given: argparse.Namespace) -> int:
    _check(given, thorough=not given.cost)
    if given.cost:
        return show_cost(given.input or [str(SAMPLE)], given.cluster_metadata, settings_of(given))
    given.run_id = given.run_id or new_run_id()
    given.run_date = given.run_date or datetime.now(UTC).date()
    name_run(given.run_id)
    tell(f"run {given.run_id} of audit {VERSION}")
    with failures_posted(given, Exception, KeyboardInterrupt):
        return followed(given.progress, "audit", given.run_id, lambda told: _run(given, told))


def _run(given: argparse.Namespace, told: TellsEvent) -> int:
    from replica_audit import pipeline, spark
    from replica_audit.commands.terminal import progress
    from replica_audit.storage.inputs.folders import unusable

    inputs = given.input or [str(SAMPLE)]
    if not given.input:
        tell(f"no --input: auditing the sample data in {SAMPLE}")
    if given.full:
        tell("--full does nothing any more: every audit is full")
    show_former_settings(given)
    for problem in unusable(inputs):  # told before a session is made, which takes seconds
        tell(f"{problem.path}: {problem.detail}; {problem.remedy}")
    with progress() as shown:
        result = spark.audit(
            own_session(given.run_id),
            inputs,
            given.warehouse,
            settings=settings_of(given),
            run_id=given.run_id,
            run_date=given.run_date,
            cluster_metadata=given.cluster_metadata,
            acknowledged=given.acknowledged,
            take_over=given.take_over,
            tell=to_all(shown, told),
        )
    run = cache(lambda: pipeline.written_run(result.spark, result.warehouse, given.run_id))
    try:
        _write(given, result.report, run, result.warehouse)
    finally:  # the run counts, whatever became of the files
        post_ended(given, result.report, run)
    write_run(given, "audit", result.exit_code, result.report)
    return result.exit_code


def _write(given: argparse.Namespace, report: Report, run: Callable[[], PastRun], warehouse: str) -> None:
    """Show the summary, and make the files that options name."""
    from replica_audit.commands.terminal import show_report
    from replica_audit.past.findings import ListedRows
    from replica_audit.past.metrics import run_metrics
    from replica_audit.report.metrics import metrics_text
    from replica_audit.report.text.json_report import json_pieces

    if given.json:
        outputs.write("--json", given.json, json_pieces(report, ListedRows(run())))
    if given.metrics and not report.read_nothing:  # the time of the run before then tells that none is newer
        outputs.write("--metrics", given.metrics, metrics_text(run_metrics(run())))
    show("\n")
    show_report(report)
    if given.html:
        from replica_audit.commands.report import write_page
        from replica_audit.past.run import PastRun
        from replica_audit.storage.warehouse.reader import WarehouseTables

        write_page(PastRun(WarehouseTables(warehouse), given.run_id), "--html", given.html)


def _interrupted(given: argparse.Namespace) -> str:
    """Tell what has become of the run: whether it counts, as its tables have it."""
    if _is_complete(given):
        return "interrupted: the run is complete and counts; what --json, --html and --metrics name may be missing"
    return "interrupted: the run is not complete, its rows do not count"


def _is_complete(given: argparse.Namespace) -> bool:
    from replica_audit.past.run import PastRun
    from replica_audit.storage.warehouse.place import is_catalog_name
    from replica_audit.storage.warehouse.reader import WarehouseTables

    if given.run_id is None or is_catalog_name(given.warehouse):
        return False
    try:
        PastRun(WarehouseTables(given.warehouse), given.run_id)
    except AuditError:  # there is no such run that is complete
        return False
    return True


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date; give it as YYYY-MM-DD") from None


COMMAND = Command(
    name="audit",
    summary="Audit the replicas' logs: find divergence, what each follower will truncate, and what is lost.",
    description=_AUDIT_HELP,
    epilog=f"{_AUDIT_EXIT}\n{COLUMNS_HELP}",
    run=_audit,
    check=_check,
    interrupted=_interrupted,
    options=(
        INPUT,
        Option(
            flag="--warehouse",
            help="where the Delta tables are: a directory, a URI, or catalog.schema (default: ./warehouse)",
            arguments={"default": "warehouse", "metavar": "DIR"},
        ),
        Option(
            flag="--run-id",
            help="name of the run; a run of the same name is replaced (default: UTC time and a random part)",
            arguments={"default": None, "metavar": "ID"},
        ),
        Option(
            flag="--take-over",
            help="take over the run of --run-id even if another process seems to be making it; what that process still writes is ignored",
            arguments={"action": "store_true"},
        ),
        Option(
            flag="--run-date",
            help="date that the run is for, YYYY-MM-DD (default: today, UTC)",
            arguments={"type": _date, "default": None, "metavar": "DATE"},
        ),
        Option(
            flag="--full",
            help="does nothing: every audit is full; a later version refuses it",
            arguments={"action": "store_true"},
        ),
        *RULES,
        COST,
        Option(flag="--json", help="also write the summary and every finding as JSON", arguments={"type": Path, "metavar": "FILE"}),
        Option(
            flag="--html", help="also write the page of the run, as the command report does", arguments={"type": Path, "metavar": "FILE"}
        ),
        Option(
            flag="--metrics",
            help="also write metrics for Prometheus: a file that ends in .prom in the directory that node_exporter's "
            "--collector.textfile.directory names",
            arguments={"type": Path, "metavar": "FILE"},
        ),
        PROGRESS,
        TERMINATION_MESSAGE,
    ),
)
