"""`--cost` of audit and triage: what they would read, and about how long that takes, from a listing alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from replica_audit.commands.command import Option, show

COST = Option(
    flag="--cost",
    help="only list the input, and say how many bytes each mode of --compare reads and about how long that takes; no segment is read",
    arguments={"action": "store_true"},
)


def show_cost(inputs: Sequence[str], metadata: Path | None, topics: str) -> int:
    """Print the cost of every cluster, and of all; the exit code is 0.

    Raises:
        UsageError: the inputs contradict each other, or nothing in them can be audited.
    """
    from replica_audit.report.facts.cost import Amount
    from replica_audit.report.text.cost_text import render
    from replica_audit.stages.cost import bytes_to_read
    from replica_audit.stages.inventory import list_source
    from replica_audit.storage.inputs.first_look import refuse_useless
    from replica_audit.storage.inputs.sources import discover

    found = discover(inputs, metadata)
    refuse_useless(found)
    names = ("cluster_id", "broker_id", "path", "kind")
    amounts = []
    for root in found.roots:
        sources = [dict(zip(names, source, strict=True)) for source in root.sources() if source[3] != "server-log"]
        amounts.append(Amount(name=root.cluster_id, **asdict(bytes_to_read(row for one in sources for row in list_source(one, topics)))))
    show(render(amounts))
    return 0
