"""When a webhook is told how an audit ended, and what is said where that comes to nothing: a warning, never another exit code."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from replica_audit.commands.audit_options import SAMPLE, settings_of
from replica_audit.commands.command import tell
from replica_audit.commands.running import ending_of
from replica_audit.errors import AuditError
from replica_audit.webhook.address import webhook_address

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
