"""`explain`: one partition of a past run."""

from __future__ import annotations

import argparse

from replica_audit.commands.audit_options import WAREHOUSE
from replica_audit.commands.command import Command, Option, show

PROTOCOLS = Option(
    flag="--protocols",
    help="also show what every other protocol, and those that KIP-279 rejected, would do, and the steps of KIP-101",
    arguments={"action": "store_true"},
)

_EXPLAIN_HELP = """\
Explain one partition of a past run: what to do, then all the evidence: both logs drawn over their
offsets, every question and answer between follower and leader with the rule that decides, and what
the follower loses.

Only the tables are read: no brokers, no logs, no Spark, no Java.
"""
_EXPLAIN_EXIT = """\
exit codes:
  0    explained, whatever the verdict
  2    wrong usage; no such run, partition or follower; or a table cannot be read
  130  interrupted; 143 by SIGTERM, 129 by SIGHUP

examples:
  {command} --partition orders-0
  {command} --partition orders-0 --follower 2
  {command} --warehouse /audits --run-id 20260102T030405Z-1a2b3c --partition orders-0
  {command} --partition orders-0 --cluster tGgMi5ChQQaP400G_KG93g | less
"""


def _explain(given: argparse.Namespace) -> int:
    from replica_audit.past.explained import Explainer
    from replica_audit.report.facts import question
    from replica_audit.report.facts.question import whole_run
    from replica_audit.report.text import explanation_text
    from replica_audit.storage.warehouse.reader import WarehouseTables

    topic, partition = question.parse_partition(given.partition)
    asked = question.Question(topic=topic, partition=partition, run_id=given.run_id, cluster_id=given.cluster, follower_id=given.follower)
    tables = WarehouseTables(given.warehouse)
    whole_run(tables, run_id=given.run_id, cluster_id=given.cluster)
    show(explanation_text.render(Explainer(tables).explain(asked), protocols=given.protocols))
    return 0


COMMAND = Command(
    name="explain",
    summary="Explain one partition of a past run: both logs drawn, the exchange, what is lost and what to do about it.",
    description=_EXPLAIN_HELP,
    epilog=_EXPLAIN_EXIT,
    run=_explain,
    options=(
        Option(flag="--partition", help="what to explain, such as orders-0", arguments={"required": True, "metavar": "TOPIC-N"}),
        Option(
            flag="--follower",
            help="explain only this broker's replica (default: every follower)",
            arguments={"type": int, "metavar": "ID"},
        ),
        PROTOCOLS,
        WAREHOUSE,
        Option(
            flag="--run-id", help="the run to look at; it must be complete (default: the latest complete one)", arguments={"metavar": "ID"}
        ),
        Option(flag="--cluster", help="cluster id, if several clusters have such a partition", arguments={"metavar": "ID"}),
    ),
)
