"""`maintain`: a warehouse kept small."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from replica_audit.commands import outputs
from replica_audit.commands.command import Command, Option, show
from replica_audit.errors import UsageError
from replica_audit.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAINTAIN_HELP = """\
Keep a warehouse small: every audit adds rows and files to it and removes none. In this order:

  1. Remove runs older than --keep-days, by their --run-date. For every cluster, keep the
     newest --keep-runs complete runs, however old (the newest one always), and any run that a
     process is making. A run is removed whole, with its rows in every table.
  2. OPTIMIZE tables with many small files: more than 1,000, for audit_runs more than 8.
  3. VACUUM: delete files that no run uses any more, once they have not been used for
     --vacuum-hours, and never while an audit runs that started before that.

So the start that removes many runs frees little, and one a week later frees the rest. Audits,
reports and queries may run meanwhile. It may be killed: no reader counts a half-removed run,
and the next start continues. Look first: --dry-run changes nothing.

With --restore it does something else: where a power cut or a bad disk left files of the
warehouse empty, torn or missing, it takes each damaged table back to its last version that is
whole, and lists the runs that lack rows then, which count no more. No audit may run meanwhile.

It needs neither Spark nor Java, except for a schema of a catalog, stores other than S3, and tables
that version 0.2.0 or before made clustered: these it refuses, and --spark does them on Spark.
"""
_MAINTAIN_EXIT = """\
exit codes:
  0    done, or there was nothing to do
  2    wrong usage; not a warehouse, its audit_runs cannot be read, or it cannot be written; it needs --spark
  3    partly done: a table failed; the output names it and says what to do. The other tables are done
  70   a bug in this program; the traceback shows where
  130  interrupted; 143 by SIGTERM, 129 by SIGHUP: start it again, and it continues
  137  with --spark, a process of Spark was killed, most likely for want of memory: start it again

examples:
  {command} --dry-run
  {command} --warehouse /srv/audits
  {command} --warehouse /srv/audits --keep-days 90 --keep-runs 10 --json /srv/audits/maintain.json
  {command} --warehouse /srv/audits --restore --dry-run
"""
_KEEP_DAYS, _KEEP_RUNS, _VACUUM_HOURS = 400, 2, 168


def _check(given: argparse.Namespace) -> None:
    for flag, value, least in (
        ("--keep-days", given.keep_days, 0),
        ("--keep-runs", given.keep_runs, 1),
        ("--vacuum-hours", given.vacuum_hours, _VACUUM_HOURS),
    ):
        if value < least:
            why = "; readers and audits may still use newer files" if flag == "--vacuum-hours" else ""
            raise UsageError(f"{flag} {value}: give {least} or more{why}")
    outputs.check("--json", given.json)
    _check_place(given)


def _check_place(given: argparse.Namespace) -> None:
    from replica_audit.report.facts.question import no_warehouse
    from replica_audit.storage.warehouse.commits import is_committed_to
    from replica_audit.storage.warehouse.place import is_catalog_name
    from replica_audit.storage.warehouse.reader import WarehouseTables

    is_place = "://" in given.warehouse or is_catalog_name(given.warehouse)
    if given.restore:
        if is_place:
            raise UsageError(f"--restore --warehouse {given.warehouse}: only a directory; of a store or a catalog use RESTORE of Delta")
        return  # it looks at the files itself
    if given.spark:
        if is_place:
            return  # Spark has the key
    elif is_catalog_name(given.warehouse):
        raise UsageError(f"--warehouse {given.warehouse}: only Spark finds the tables of a catalog; add --spark")
    elif not is_committed_to(given.warehouse):
        raise UsageError(f"--warehouse {given.warehouse}: without Spark only S3 is written; add --spark")
    try:
        is_there = WarehouseTables(given.warehouse).has("audit_runs")
    except UsageError as error:
        if not is_place:
            raise
        raise UsageError(f"{error}; or if only Spark has the key, add --spark") from None
    if not is_there:
        raise no_warehouse(given.warehouse)


def _maintain(given: argparse.Namespace) -> int:
    _check(given)
    from replica_audit.commands.terminal import progress
    from replica_audit.maintain.run import UpkeepRequest, maintain
    from replica_audit.report import upkeep_report
    from replica_audit.storage.warehouse.place import is_catalog_name

    if given.restore:
        return _restore(given)
    location = given.warehouse
    if "://" not in location and not is_catalog_name(location):
        location = str(Path(location).expanduser().absolute())
    request = UpkeepRequest(
        warehouse=location,
        keep_days=given.keep_days,
        keep_runs=given.keep_runs,
        vacuum_hours=given.vacuum_hours,
        is_dry=given.dry_run,
    )
    with progress() as told:
        upkeep = maintain(request, Progress(told).say, _session() if given.spark else None)
    if given.json:
        outputs.write("--json", given.json, upkeep_report.as_json(upkeep))
    show("\n" + upkeep_report.summary(upkeep))
    return upkeep.exit_code


def _session() -> SparkSession:
    from replica_audit.commands.spark_process import own_session

    return own_session()


def _restore(given: argparse.Namespace) -> int:
    from replica_audit.commands.terminal import progress
    from replica_audit.maintain.restore import restore
    from replica_audit.report import upkeep_report

    warehouse = Path(given.warehouse).expanduser().absolute()
    with progress() as told:
        made = restore(warehouse, is_dry=given.dry_run, tell=Progress(told).say, start=_session if given.spark else None)
    if given.json:
        outputs.write("--json", given.json, upkeep_report.as_json(made))
    show("\n" + upkeep_report.restored(made))
    return made.exit_code


COMMAND = Command(
    name="maintain",
    summary="Keep a warehouse small: remove old runs, merge small files, remove files that nothing uses.",
    description=_MAINTAIN_HELP,
    epilog=_MAINTAIN_EXIT,
    run=_maintain,
    check=_check,
    interrupted="interrupted: start it again with the same options, and it continues",
    options=(
        Option(
            flag="--warehouse",
            help="where audits write their tables: a directory, a URI, or catalog.schema (default: ./warehouse)",
            arguments={"default": "warehouse", "metavar": "DIR"},
        ),
        Option(
            flag="--keep-days",
            help=f"remove runs whose date (--run-date of audit) is more than N days ago (default: {_KEEP_DAYS})",
            arguments={"type": int, "default": _KEEP_DAYS, "metavar": "N"},
        ),
        Option(
            flag="--keep-runs",
            help=f"keep the newest N complete runs of every cluster, however old; 1 or more (default: {_KEEP_RUNS})",
            arguments={"type": int, "default": _KEEP_RUNS, "metavar": "N"},
        ),
        Option(
            flag="--vacuum-hours",
            help=f"remove files that were not used for N hours; {_VACUUM_HOURS} or more (default: {_VACUUM_HOURS}, a week)",
            arguments={"type": int, "default": _VACUUM_HOURS, "metavar": "N"},
        ),
        Option(
            flag="--restore",
            help="instead, take damaged tables back to the last version that is whole, and list the runs that this loses",
            arguments={"action": "store_true"},
        ),
        Option(
            flag="--spark",
            help="change tables with Spark: those of a catalog, of a store that only Spark can write to, and clustered ones",
            arguments={"action": "store_true"},
        ),
        Option(flag="--dry-run", help="only print what it would do", arguments={"action": "store_true"}),
        Option(
            flag="--json",
            help="also write every run and every table with its numbers as JSON",
            arguments={"type": Path, "metavar": "FILE"},
        ),
    ),
)
