"""`describe_cluster`: what live brokers say, for an audit of their copies, or compared with one."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replica_audit.commands import outputs
from replica_audit.commands.command import Command, Option, show, tell
from replica_audit.errors import UsageError

if TYPE_CHECKING:
    from replica_audit.storage.cluster.connection import Brokers

_OUTPUT = Path("cluster-metadata.json")
_PARTIAL = 3
_HELP = """\
Ask live brokers who leads each partition, in which epoch, who is in sync and eligible (ELR), the
configurations that matter, log directories, and all groups' committed offsets, and write that as
a cluster-metadata.json. Put it beside the brokers' folders that you are about to copy or collect:
the audit then knows the leaders instead of inferring them.

With --verify, ask the leaders where each epoch in the tables of a run ends, and
list every answer that differs from the tables, with the cause: the log grew, retention, another
leader since. A change that time explains is listed but does not count as a difference.

It only asks: nothing is created, changed or joined. Credentials come from the file
that Kafka's own tools take as --command-config, and are never printed.
"""
_EXIT = """\
exit codes:
  0    described in full; with --verify: the brokers' answers match the tables
  1    with --verify: some answers do not match, and time does not explain it
  2    wrong usage, no broker can be asked, or the output cannot be written
  3    partial: some brokers did not answer, or refused; what is missing is printed, and in the file
  130  interrupted; 143 by SIGTERM, 129 by SIGHUP

needs these ACLs where the brokers have an authorizer: DESCRIBE and DESCRIBE_CONFIGS on CLUSTER and on
the topics, DESCRIBE on the groups; for --verify DESCRIBE on the topics

examples:
  {command} --bootstrap-server broker-1:9092 --output /backup/brokers/cluster-metadata.json
  {command} --bootstrap-server broker-1:9093,broker-2:9093 --command-config client.properties
  {command} --bootstrap-server broker-1:9092 --verify latest --warehouse /srv/audits
"""


def _describe_cluster(given: argparse.Namespace) -> int:
    from replica_audit.storage.cluster import client_properties, connection

    if not 0 < given.timeout <= 3600:
        raise UsageError("--timeout: give seconds, above 0 and at most 3600")
    outputs.check("--output", given.output)
    addresses = connection.addresses(given.bootstrap_server)
    settings = client_properties.read(given.command_config)
    if given.verify is None:
        with connection.Brokers(addresses, settings, given.timeout) as brokers:
            return _describe(brokers, given.output or _OUTPUT)
    return _verify(given, connection.Brokers(addresses, settings, given.timeout))


def _describe(brokers: Brokers, output: Path) -> int:
    from replica_audit.report.text import cluster_text
    from replica_audit.storage.cluster.description import describe

    found = describe(brokers)
    outputs.write("--output", output, _json(found.document))
    show(cluster_text.described(found.document))
    for one in found.missing:
        tell(f"missing: {one.sentence()}")
    tell(f"written: {output}")
    return _PARTIAL if found.is_partial else 0


def _verify(given: argparse.Namespace, brokers: Brokers) -> int:
    from replica_audit.report.facts.question import whole_run
    from replica_audit.report.text import cluster_text
    from replica_audit.storage.cluster import verification
    from replica_audit.storage.warehouse.reader import WarehouseTables

    tables = WarehouseTables(given.warehouse)
    with brokers:
        is_latest = given.verify == "latest"
        run_id, runs = whole_run(tables, run_id=None if is_latest else given.verify, cluster_id=brokers.cluster_id if is_latest else None)
        clusters = sorted(run.cluster_id for run in runs)
        if brokers.cluster_id not in clusters:
            raise UsageError(f"--verify: run {run_id} is of cluster {', '.join(clusters)}, these brokers are of {brokers.cluster_id}")
        made = verification.verify(brokers, verification.read(tables, run_id, brokers.cluster_id))
    if given.output is not None:
        outputs.write("--output", given.output, _json({"run_id": run_id, "cluster_id": brokers.cluster_id} | asdict(made)))
    show(
        cluster_text.verified(
            run_id=run_id, partitions=made.partitions, asked=made.asked, differences=made.differences, explained=made.explained
        )
    )
    for one in made.missing:
        tell(f"not verified: {one.sentence()}")
    return made.exit_code


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1) + "\n"


COMMAND = Command(
    name="describe_cluster",
    summary="Ask live brokers for a cluster-metadata.json, or compare their answers with the tables of a run.",
    description=_HELP,
    epilog=_EXIT,
    run=_describe_cluster,
    interrupted="interrupted: nothing was written",
    options=(
        Option(
            flag="--bootstrap-server",
            help="addresses of some brokers; the first that answers names the others",
            arguments={"required": True, "metavar": "HOST:PORT[,…]"},
        ),
        Option(
            flag="--command-config",
            help="properties of a Kafka client: SASL, TLS (default: a connection without both)",
            arguments={"type": Path, "metavar": "FILE"},
        ),
        Option(
            flag="--output",
            help=f"file to write, replaced as a whole (default: ./{_OUTPUT}; with --verify none: the differences as JSON)",
            arguments={"type": Path, "metavar": "FILE"},
        ),
        Option(
            flag="--timeout",
            help="seconds that a broker may take for an answer; one that takes longer is not asked again (default: 10)",
            arguments={"type": float, "default": 10.0, "metavar": "S"},
        ),
        Option(
            flag="--verify",
            help="compare the leaders' answers with the tables of this run, or of the latest complete one",
            arguments={"metavar": "RUN|latest"},
        ),
        Option(
            flag="--warehouse",
            help="where the audit wrote the tables of --verify: a directory or a URI (default: ./warehouse)",
            arguments={"default": "warehouse", "metavar": "DIR"},
        ),
    ),
)
