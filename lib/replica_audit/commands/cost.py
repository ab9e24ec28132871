"""`--cost` of audit and triage: what they would read, and about how long that takes, from a listing alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from replica_audit.commands.command import Option, show

if TYPE_CHECKING:
    from replica_audit.config import Settings

COST = Option(
    flag="--cost",
    help="only list the input, and show how many bytes each mode of --compare reads and about how long that takes; no segment is read",
    arguments={"action": "store_true"},
)


def show_cost(inputs: Sequence[str], metadata: Path | None, settings: Settings) -> int:
    """Print the cost of every cluster, and of all; the exit code is 0, or 3 where an input is not counted.

    Raises:
        UsageError: the inputs contradict each other, or nothing in them can be audited.
    """
    from replica_audit.local_run import amounts_to_read
    from replica_audit.report.cost import Amount, render

    listed, problems = amounts_to_read(inputs, settings, metadata=metadata)
    not_counted = [f"{one.path}: {one.detail}. Remedy: {one.remedy}" for one in problems]
    show(render([Amount(name=cluster, **asdict(amounts)) for cluster, amounts in listed.items()], not_counted))
    return 3 if problems else 0
