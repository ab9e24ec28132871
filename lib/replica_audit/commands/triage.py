"""`triage`: the audit for a person who waits."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
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
from replica_audit.commands.command import Command, Option, show, tell
from replica_audit.commands.explain import PROTOCOLS
from replica_audit.commands.outputs import check_folder
from replica_audit.commands.plan import GONE, GROUPS
from replica_audit.commands.progress_file import PROGRESS, ProgressLines, followed
from replica_audit.commands.running import TERMINATION_MESSAGE, write_run
from replica_audit.commands.salvage import REPLAY_ALSO
from replica_audit.errors import UsageError
from replica_audit.own_folder import private_files
from replica_audit.progress import TellsEvent, to_all

if TYPE_CHECKING:
    from replica_audit.acknowledged import Acknowledgements
    from replica_audit.config import Settings
    from replica_audit.past.run import PastRun
    from replica_audit.report.facts.run_report import Report

_TRIAGE_HELP = """\
Answer as audit does, but at once: read what every broker has on disk, in this process, and print the
same summary. No Spark, no Java, no tables: nothing is written except what --html, --json, --plan and
--salvage name. With --partition, explain that partition instead: both logs drawn, every question and
answer between follower and leader, what is lost, and what to do. With --broker, answer whether that broker
may be started or restarted: what its start does to each of its replicas.

A cluster is held in memory (about 1 GB for 10,000 partitions with three replicas). For whole fleets, and
for a history of findings from night to night, run audit.
"""
_TRIAGE_EXIT = """\
exit codes, those of audit; with --broker 0, 1 and 3 are about the start of that broker alone:
  0    nothing found, or only acknowledged findings (--acknowledged), and every broker may be started as it is
  1    findings at or above --fail-on that are not acknowledged, or a broker that must not be started as it is, or not yet
  2    wrong usage or configuration, no readable input, no such partition, or a file cannot be written
  3    nothing at or above --fail-on, but some input could not be read, some replicas or records could not be
       compared, nothing was compared at all, or --salvage could not save everything
  70   a bug in this program; the traceback shows where
  130  interrupted; 143 by SIGTERM, 129 by SIGHUP

examples:
  {command} --input /backup/brokers
  {command} --input /backup/brokers --broker 3
  {command} --input /backup/brokers --partition orders-0 | less
  {command} --input /backup/brokers --salvage /srv/saved
  {command} --input /backup/brokers --plan plan --gone 3
  {command} --input /backup/brokers --topics 'orders|payments' --html triage.html
"""


def _triage(given: argparse.Namespace) -> int:
    for flag, path in (("--json", given.json), ("--html", given.html), ("--progress", given.progress)):
        outputs.check(flag, path)
    check_folder("--plan", given.plan)
    if given.cluster_metadata and not given.cluster_metadata.is_file():
        raise UsageError(f"--cluster-metadata {given.cluster_metadata}: no such file")
    settings = settings_of(given)
    if given.plan:  # it says what other leaders would cost
        settings = settings.model_copy(update={"what_if_at_stake": True})
    known = acknowledged_of(given, datetime.now(UTC).date())
    if given.cost:
        return show_cost(given.input or [str(SAMPLE)], given.cluster_metadata, settings)
    from replica_audit.local_run import triage_id

    _refuse(given)
    if not given.input:
        tell(f"no --input: auditing the sample data in {SAMPLE}")
    show_former_settings(given)
    run_id = triage_id(datetime.now(UTC))
    return followed(given.progress, "triage", run_id, lambda told: _triaged(given, settings, known, run_id, told))


def _refuse(given: argparse.Namespace) -> None:
    """Refuse options that say nothing together.

    Raises:
        UsageError: some do not.
    """
    from replica_audit.report.facts.question import parse_partition
    from replica_audit.salvage.output import refuse_input

    if given.partition:
        parse_partition(given.partition)
    elif given.protocols:
        raise UsageError("--protocols: adds to what --partition explains; also give --partition TOPIC-N")
    if given.broker is not None and given.partition:
        raise UsageError("--broker and --partition: each is a question of its own; give one of them")
    if given.salvage:
        refuse_input(given.salvage, given.input or [str(SAMPLE)])
    elif given.replay_also:
        raise UsageError("--replay-also: chooses what --salvage puts into the replay files; also give --salvage DIR")
    if given.gone and not (given.plan or given.salvage):
        raise UsageError("--gone: names brokers that --plan and --salvage do without; also give one of these")


def _triaged(given: argparse.Namespace, settings: Settings, known: Acknowledgements, run_id: str, told: TellsEvent) -> int:
    from replica_audit.commands.terminal import show_report
    from replica_audit.local_run import triage
    from replica_audit.past.explained import Explainer
    from replica_audit.past.report import report_of
    from replica_audit.past.run import PastRun
    from replica_audit.past.starts import broker_answer
    from replica_audit.report.facts import question
    from replica_audit.report.sections import brokers
    from replica_audit.report.text import explanation_text

    inputs, every = tuple(given.input or [str(SAMPLE)]), to_all(ProgressLines(tell).take, told)
    done = triage(inputs, settings, metadata=given.cluster_metadata, acknowledged=known, tell=every, run_id=run_id)
    run = PastRun(done.tables, done.run_id)
    report = report_of(run, gone=given.gone or (), cluster_id=given.cluster)
    asked_broker = None if given.broker is None else broker_answer(run, given.broker, given.cluster)
    if given.partition:
        topic, number = question.parse_partition(given.partition)
        asked = question.Question(topic=topic, partition=number, run_id=done.run_id, cluster_id=given.cluster)
        show(explanation_text.render(Explainer(done.tables).explain(asked), protocols=given.protocols))
    elif asked_broker is not None:
        show(brokers.render(asked_broker))
    else:
        show("\n")
        named = {"--html": given.html, "--plan": given.plan, "--salvage": given.salvage, "--what-if-leaders": settings.what_if_leaders}
        show_report(report, [flag for flag, value in named.items() if value])
    saved = _saved(given, run) if given.salvage else 0
    _write(given, run, report)
    exit_code = (report if asked_broker is None else asked_broker).exit_code or saved
    write_run(given, "triage", exit_code, report)
    return exit_code


def _write(given: argparse.Namespace, run: PastRun, report: Report) -> None:
    """The files and the folder that options name."""
    from replica_audit.commands.plan import write_plan
    from replica_audit.commands.report import write_page
    from replica_audit.past.findings import ListedRows
    from replica_audit.report.text.json_report import json_pieces

    if given.json:
        outputs.write("--json", given.json, json_pieces(report, ListedRows(run)))
    if given.html:
        write_page(run, "--html", given.html)
    if given.plan:
        write_plan(run, "--plan", given.plan, given.groups, given.cluster, given.gone)


def _saved(given: argparse.Namespace, run: PastRun) -> int:
    """Save the records that the cuts of the run remove; returns the exit code of a salvage."""
    from replica_audit.commands.salvage import show_saved
    from replica_audit.report.facts.question import parse_partition
    from replica_audit.salvage.engines import salvage_here
    from replica_audit.salvage.run import SalvageRequest

    request = SalvageRequest(
        output=given.salvage,
        cluster_id=given.cluster,
        partitions=frozenset([parse_partition(given.partition)]) if given.partition else None,
        asked_for=tuple(given.replay_also or ()),
        metadata=given.cluster_metadata,
        gone=frozenset(given.gone or ()),
        is_audited_anew=True,
    )
    with private_files():
        return show_saved(salvage_here(run, request, tell))


COMMAND = Command(
    name="triage",
    summary="Audit in seconds, in this process: no Spark, no Java, no tables.",
    description=_TRIAGE_HELP,
    epilog=f"{_TRIAGE_EXIT}\n{COLUMNS_HELP}",
    run=_triage,
    interrupted="interrupted; nothing was written except what --salvage saved: start it again, and it continues",
    options=(
        INPUT,
        Option(flag="--partition", help="explain this partition, such as orders-0, and print no summary", arguments={"metavar": "TOPIC-N"}),
        PROTOCOLS,
        Option(
            flag="--broker",
            help="answer whether this broker may be started or restarted, and print no summary",
            arguments={"type": int, "metavar": "N"},
        ),
        Option(
            flag="--cluster",
            help="cluster id, if several clusters have the partition of --partition or the broker of --broker, or for --plan and --gone",
            arguments={"metavar": "ID"},
        ),
        Option(
            flag="--salvage",
            help="save the records that truncations remove to this folder, as the command salvage does; with --partition that one's",
            arguments={"type": Path, "metavar": "DIR"},
        ),
        REPLAY_ALSO,
        *RULES,
        COST,
        Option(
            flag="--json", help="write the summary and every finding as JSON, as audit does", arguments={"type": Path, "metavar": "FILE"}
        ),
        Option(flag="--html", help="write the page of the run, as report does", arguments={"type": Path, "metavar": "FILE"}),
        Option(
            flag="--plan",
            help="write the steps of a repair to this folder, new or empty, as plan does",
            arguments={"type": Path, "metavar": "DIR"},
        ),
        GROUPS,
        GONE,
        PROGRESS,
        TERMINATION_MESSAGE,
    ),
)
