"""`salvage`: the records that a truncation removes, saved."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from replica_audit.commands.audit_options import WAREHOUSE
from replica_audit.commands.command import Command, Option, show, tell
from replica_audit.commands.plan import GONE
from replica_audit.errors import UsageError
from replica_audit.own_folder import private_files

if TYPE_CHECKING:
    from replica_audit.past.run import PastRun
    from replica_audit.report.salvage_report import SavedRecords
    from replica_audit.salvage.run import SalvageRequest

_SALVAGE_HELP = """\
Save every record that a follower's truncation removes, from the replica that still holds it: run it
before you start the brokers, or on audited copies. The audit knows what is truncated; this
reads those parts of the segments again, and writes to a folder:

  SALVAGE.md   what was saved, what could not be and why, how to replay it: read it first
  records/     Parquet: each record with offset, epoch, timestamp, key, value, headers, producer, how
               its transaction ended, and what the leader has at that offset
  replay/      for each partition a file that kafka-console-producer.sh reads, and one in base64 for
               what that tool cannot read
  salvage.json all numbers, for programs

Saved, but not in the replay files: what the leader has anyway, what was aborted or never
committed, and values that are newer on the leader. Nothing is sent to a broker, nothing is
written to an input. A salvage that was killed continues when you start it again.
"""
_SALVAGE_EXIT = """\
exit codes:
  0    every record that the run's truncations remove is in the files
  2    wrong usage; no such run; the inputs cannot be found; or the output cannot be written
  3    something could not be saved, or may not be truncated: SALVAGE.md lists it by offsets
  70   a bug in this program; the traceback shows where
  130  interrupted; 143 by SIGTERM, 129 by SIGHUP: start it again, and it continues
  137  a process of Spark was killed, most likely for want of memory: start it again, and it continues

examples:
  {command} --output /srv/saved
  {command} --local --output /srv/saved --partition billing-0
  {command} --warehouse /audits --run-id 20260102T030405Z-1a2b3c --input /backup/brokers --output /srv/saved
  {program} triage --input /backup/brokers --salvage /srv/saved
"""
REASONS = ("aborted", "open", "below-log-start", "leader-unknown", "newer-on-leader")
REPLAY_ALSO = Option(
    flag="--replay-also",
    help="also put into the replay files the records that are kept back because they are aborted, open (their transaction has no marker), "
    "below-log-start (of the leader), leader-unknown or newer-on-leader (their keys); repeatable",
    arguments={"action": "append", "choices": REASONS, "metavar": "REASON"},
)


def _check(given: argparse.Namespace) -> None:
    from replica_audit.salvage.run import prepared

    prepared(*_asked(given))


def _asked(given: argparse.Namespace) -> tuple[PastRun, SalvageRequest]:
    from replica_audit.past.run import PastRun
    from replica_audit.report.facts.question import parse_partition
    from replica_audit.salvage.run import SalvageRequest
    from replica_audit.storage.warehouse.reader import WarehouseTables

    if given.cluster_metadata and not given.cluster_metadata.is_file():
        raise UsageError(f"--cluster-metadata {given.cluster_metadata}: no such file")
    partitions = frozenset(map(parse_partition, given.partition)) if given.partition else None
    run = PastRun(WarehouseTables(given.warehouse), given.run_id)
    request = SalvageRequest(
        output=given.output,
        inputs=tuple(given.input) if given.input else None,
        cluster_id=given.cluster,
        partitions=partitions,
        asked_for=tuple(given.replay_also or ()),
        metadata=given.cluster_metadata,
        gone=frozenset(given.gone or ()),
        follow_links=given.follow_links,
        protected=() if "://" in given.warehouse else (Path(given.warehouse).expanduser(),),
    )
    return run, request


def _salvage(given: argparse.Namespace) -> int:
    from replica_audit.commands.terminal import progress
    from replica_audit.salvage.engines import salvage_here, salvage_on_spark
    from replica_audit.salvage.run import prepared

    run, request = _asked(given)
    prepared(run, request)
    if given.local:
        with private_files():
            return show_saved(salvage_here(run, request, tell))
    with private_files(), progress() as told:
        saved = salvage_on_spark(run, request, told)
    return show_saved(saved)


def show_saved(saved: SavedRecords) -> int:
    """Print what came of a salvage; returns its exit code."""
    from replica_audit.report import salvage_report

    show("\n" + salvage_report.summary(saved))
    return saved.exit_code


COMMAND = Command(
    name="salvage",
    summary="Save the records that truncations remove, from the replicas that hold them, for a replay.",
    description=_SALVAGE_HELP,
    epilog=_SALVAGE_EXIT,
    run=_salvage,
    check=_check,
    interrupted="interrupted: start it again with the same options, and it continues",
    options=(
        Option(
            flag="--output",
            help="folder to write to, new or empty, outside of every input; on a Spark cluster one that all executors share",
            arguments={"type": Path, "required": True, "metavar": "DIR"},
        ),
        WAREHOUSE,
        Option(
            flag="--run-id",
            help="the run whose truncations to save; it must be complete (default: the latest)",
            arguments={"metavar": "ID"},
        ),
        Option(
            flag="--input",
            help="what was audited, if it has moved since; repeatable (default: the run's inputs). Files other than the "
            "audited ones are refused",
            arguments={"action": "append", "metavar": "DIR"},
        ),
        Option(
            flag="--partition",
            help="save only this partition, such as orders-0; repeatable (default: all)",
            arguments={"action": "append", "metavar": "TOPIC-N"},
        ),
        Option(flag="--cluster", help="cluster id, if the run has truncations in several clusters", arguments={"metavar": "ID"}),
        Option(
            flag="--cluster-metadata",
            help="cluster-metadata.json, if the audit was given one that is not in the inputs",
            arguments={"type": Path, "metavar": "FILE"},
        ),
        REPLAY_ALSO,
        GONE,
        Option(
            flag="--follow-links",
            help="follow links that lead out of an --input, as of audit --follow-links (default: as the run did)",
            arguments={"action": "store_true"},
        ),
        Option(
            flag="--local",
            help="run in this process: no Spark, no Java. Starts at once; good for up to a few GB of segments",
            arguments={"action": "store_true"},
        ),
    ),
)
