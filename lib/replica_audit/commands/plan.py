"""`plan`: what to do about a past run, as files that Kafka's own tools take."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from replica_audit.commands.audit_options import WAREHOUSE
from replica_audit.commands.command import Command, Option, tell
from replica_audit.commands.outputs import check_folder, write_folder
from replica_audit.errors import UsageError
from replica_audit.words import count

if TYPE_CHECKING:
    from replica_audit.past.run import PastRun
    from replica_audit.recovery.steps import Plan

_PLAN_HELP = """\
Write the steps that repair the findings of a past run, safest first, and the files that Kafka's
own tools read: elections, reassignments in two steps, positions of consumer groups, hanging
transactions to abort, corrected leader-epoch-checkpoint files. PLAN.md has each step with its reason,
its command, how to check that it worked and how to undo it. It lists what the plan assumes, and what it
refuses to do because that would lose more than it saves. Name a broker that is lost for good with
--gone; else an election that may lose what only it holds is refused.

Nothing is executed, no broker is asked, and only the tables are read: no logs, no Spark, no Java.
"""
_PLAN_EXIT = """\
exit codes:
  0    written; for a cluster without findings the plan is empty and says so
  2    wrong usage; no such run, or not complete; a table cannot be read, or the folder cannot be written;
       or the plan would break one of its own rules (docs/plan.md): it is not written
  130  interrupted; 143 by SIGTERM, 129 by SIGHUP

examples:
  {command} --output plan
  {command} --warehouse /audits --run-id 20260102T030405Z-1a2b3c --output plan --groups skip
  {command} --output plan --gone 3
"""


def broker_id(given: str) -> int:
    """The id of a broker.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not given.isascii() or not given.isdigit():
        raise argparse.ArgumentTypeError(f"{given!r}: give the id of one broker, such as 3; for several, give --gone once for each")
    return int(given)


POLICIES = ("re-read", "skip")
GROUPS = Option(
    flag="--groups",
    help="what affected consumer groups do: re-read, so that they skip no record, or skip, so that they process no record "
    "twice (default: re-read)",
    arguments={"choices": POLICIES, "default": POLICIES[0]},
)
GONE = Option(
    flag="--gone",
    help="id of a broker whose disk is lost for good: plan without it, and accept the loss of what only it held; repeatable",
    arguments={"action": "append", "type": broker_id, "metavar": "BROKER"},
)


def _plan(given: argparse.Namespace) -> int:
    from replica_audit.past.run import PastRun
    from replica_audit.storage.warehouse.reader import WarehouseTables

    check_folder("--output", given.output)
    run = PastRun(WarehouseTables(given.warehouse), given.run_id)
    write_plan(run, "--output", given.output, given.groups, given.cluster, given.gone)
    return 0


def write_plan(run: PastRun, flag: str, folder: Path, policy: str, cluster: str | None, gone: Sequence[int] | None) -> None:
    """Write the plan of a run to the folder that a flag names, of several clusters to one folder each in it, and say where it is.

    Raises:
        UsageError: the run does not have the cluster; a broker is not gone by the run, or it is not said of which cluster it is.
        PlanDefectError: a plan would break one of its own rules; nothing is written.
        OutputError: the folder cannot be written.
    """
    from replica_audit.past.recovery import recovery_facts
    from replica_audit.recovery.names import file_name
    from replica_audit.recovery.plan import plan_of
    from replica_audit.recovery.steps import GroupPolicy

    chosen = recovery_facts(run, cluster_id=cluster, gone=frozenset(gone or ()))
    if not chosen:
        raise UsageError(f"run {run.run_id} has no cluster to plan for")
    made = {f"{file_name(facts.cluster_id)}/" if len(chosen) > 1 else "": plan_of(facts, GroupPolicy(policy)) for facts in chosen}
    files = [
        (f"{below}{name}", content, executable) for below, plan in made.items() for name, content, executable in _files(run, plan, gone)
    ]
    write_folder(flag, folder, files)
    for below, plan in made.items():
        steps = count(len(plan.steps), "step") if plan.steps else "no step"
        tell(f"plan for cluster {plan.cluster_id}: {steps}, {len(plan.refusals)} refused: {folder}/{below}PLAN.md")


def _files(run: PastRun, plan: Plan, gone: Sequence[int] | None) -> Iterator[tuple[str, str, bool]]:
    from replica_audit.past.findings import found
    from replica_audit.past.starts import starts_of
    from replica_audit.recovery.document import render_plan
    from replica_audit.report.sections.brokers import broker_lines

    starts = [one for one in starts_of(run, plan.cluster_id) if one.broker_id not in (gone or ())]
    findings = sum(cluster == plan.cluster_id for cluster in found(run, ["cluster_id"])["cluster_id"].to_pylist())
    yield "PLAN.md", render_plan(plan, broker_lines(starts), findings), False
    for file in plan.files:
        yield file.name, file.content, file.executable


COMMAND = Command(
    name="plan",
    summary="Write the repair steps for a past run, with files that Kafka's own tools read.",
    description=_PLAN_HELP,
    epilog=_PLAN_EXIT,
    run=_plan,
    interrupted="interrupted; the folder of --output is incomplete",
    options=(
        WAREHOUSE,
        Option(
            flag="--run-id", help="the run to plan for; it must be complete (default: the latest complete one)", arguments={"metavar": "ID"}
        ),
        Option(
            flag="--cluster",
            help="plan for this cluster only (default: all; if several, each in its own folder)",
            arguments={"metavar": "ID"},
        ),
        Option(
            flag="--output",
            help="folder to write, new or empty: an earlier plan is never overwritten",
            arguments={"type": Path, "metavar": "DIR", "required": True},
        ),
        GROUPS,
        GONE,
    ),
)
